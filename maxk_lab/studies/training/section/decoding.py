"""Every policy decoded in its own best way: at the same number of samples, and at any cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from maxk_lab.report.document import Column, Sheet
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.columns import (
    difference_column,
    final_column,
    heading,
    interval_column,
    method_columns,
    rests_on_both,
    shown_ks,
)
from maxk_lab.studies.training.ending.sheets import breaks
from maxk_lab.studies.training.ending.ways import heading as way_heading
from maxk_lab.studies.training.ending.ways import sampled_at
from maxk_lab.studies.training.row.comparison import difference
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import by_path
from maxk_lab.studies.training.section.corrected import as_good, corrected_words
from maxk_lab.studies.training.told import has_value, text


def own_best_items(rows: Sequence[TrainingRow], level: float, lists: int = 1) -> Iterator[str]:
    """The best row at each K of interest where every policy is decoded in its own best way.

    Beside it the row that is best at temperature 1, where that is another one. A study has so many
    `lists` of them.
    """
    if len([row for row in rows if row.curve]) < 2:
        return
    named = by_path(rows)
    tempered = {row.key: row.tempered for row in rows if row.tempered is not None}
    ks, family = shown_ks(list(tempered.values())), 0
    own_ways = [row.own_way for row in rows if row.own_way is not None]
    lines = len(ks) + bool(own_ways)
    shared = lines * lists
    for k in ks:
        best = _best(list(tempered.values()), k)
        plain = _best([row for row in rows if row.key in tempered], k)
        if best is None or plain is None:
            continue
        family = max(family, len(tempered))
        words = [
            f"{heading(k, rows)}, each at its own best temperature: {named[best.key.path]} "
            f"({_chosen(best, k)}), {text(best.curve[k - 1])}",
            *_gain(best, k, named),
            as_good(best, list(tempered.values()), k, 1 - level, shared),
        ]
        if plain.key == best.key:
            words.append("At temperature 1 it is the best, too")
        else:
            other = difference(best, tempered[plain.key], k, level)
            words.append(
                f"At temperature 1 the best is another, {named[plain.key.path]}; "
                f"minus that, each at its own best temperature: {text(other)}"
            )
        yield ". ".join(words)
    own = _best(own_ways, 1)
    if own is not None:
        family = max(family, len(own_ways))
        found = f"{named[own.key.path]} ({_chosen(own, 1, costs=True)}), {text(own.curve[0])}"
        words = [f"Each in its own best way, whatever it costs: {found}", *_gain(own, 1, named)]
        yield ". ".join([*words, as_good(own, own_ways, 1, 1 - level, shared)])
    if family:
        yield corrected_words(family, lines, level, lists)


def _best(rows: Sequence[TrainingRow], k: int) -> TrainingRow | None:
    known = [(found.value, row) for row in rows if (found := row.final(k)) and found.known]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def _gain(row: TrainingRow, k: int, named: dict[str, str]) -> Iterator[str]:
    """The difference to the row that it is compared with, which is decoded at its own best, too."""
    found = row.differences.get(k)
    if found is not None and has_value(found):
        yield f"Minus {named[row.compared_with]}: {text(found)}"


def own_best_sheets(rows: tuple[TrainingRow, ...], where: str) -> Iterator[Sheet]:
    """A table for each K of interest, and one of the best ways whatever they cost."""
    tempered = tuple(row.tempered for row in rows if row.tempered is not None)
    for number, k in enumerate(shown_ks(tempered)):
        words = () if number else (_TEMPERATURE_WORDS, _RULE)
        yield Sheet(
            f"Each at its own best temperature, {heading(k, rows)}: {where}",
            (*method_columns(rows), *_of_temperatures(rows, k)),
            tempered,
            (*words, *_at_an_end(tempered, k, by_path(rows))),
            breaks(tempered),
        )
    decoded = tuple(row.own_way for row in rows if row.own_way is not None)
    if decoded:
        gaps = any(_gap(row) is not None for row in decoded)
        columns = (
            Column("way", lambda row: _chosen(row, 1, costs=True), lambda row: {}),
            interval_column("best reward", lambda row: row.final(1)),
            *([interval_column("gap in %", _gap)] if gaps else []),
            difference_column(1, "difference"),
        )
        yield Sheet(
            f"Each in its own best way, whatever it costs: {where}",
            (*method_columns(rows), *columns),
            decoded,
            (_WAY_WORDS, *(() if tempered else (_RULE,))),
            breaks(decoded),
        )


def _of_temperatures(rows: Sequence[TrainingRow], k: int) -> tuple[Column, ...]:
    """The columns of rows at their own best temperature; `rows` are these at temperature 1."""
    plain = {row.key: row for row in rows}
    return (
        Column("chosen", lambda row: _chosen(row, k), lambda row: {}),
        final_column(k, rows),
        difference_column(k, "difference"),
        interval_column(
            "at temperature 1",
            lambda row: plain[row.key].differences.get(k),
            lambda row: rests_on_both(plain[row.key]),
        ),
    )


def _at_an_end(rows: Sequence[TrainingRow], k: int, named: Mapping[str, str]) -> Iterator[str]:
    """The line on the rows of which some policy has its best at an end of the temperatures."""
    beyond = []
    for row in rows:
        offered = row.settings.evaluate.temperatures
        chosen = {seed.chosen[k] for seed in row.by_seed.values()}
        if chosen & {sampled_at(min(offered)), sampled_at(max(offered))}:
            beyond.append(named[row.key.path])
    if beyond:
        found = "; ".join(beyond)
        yield f"At an end of the temperatures offered, their best may lie beyond: {found}."


def _gap(row: TrainingRow) -> Interval | None:
    return None if row.measures is None else row.measures.gaps.get(1)


def _chosen(row: TrainingRow, k: int, *, costs: bool = False) -> str:
    """The way of all seeds, or of how many of them it is each; `costs` with its trajectories."""
    of_ways = row.measures.trajectories if costs and row.measures is not None else {}
    ways = (seed.chosen[k] for seed in row.by_seed.values())
    counts = Counter(way_heading(way, of_ways.get(way)) for way in ways)
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{way} in {count}" for way, count in counts.most_common())


_TEMPERATURE_WORDS = (
    "Max@K of every policy at the temperature that is best for it at this K, at the same number of "
    "samples for all; the difference is between rows that are both decoded so."
)
_WAY_WORDS = (
    "The best way of every policy, sampling at each temperature at all samples among them; in "
    "brackets the trajectories that it costs on each instance, which are not the same for all."
)
_RULE = (
    "Chosen for each policy: the way with the best mean on other instances, the tuning ones; of "
    "equals the lowest temperature, and sampling before any other way."
)
