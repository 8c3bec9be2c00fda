"""Lists of the best rows at each K, and every row against the one that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from maxk_lab.report.document import UNDEFINED, Bullets, Column, Sheet
from maxk_lab.report.tables import grouped
from maxk_lab.statistics.seeds.apart import seeds_to_decide, sign_test
from maxk_lab.studies.training.columns import (
    heading,
    method_columns,
    shown_ks,
    status_columns,
)
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import by_path
from maxk_lab.studies.training.section.corrected import Told, as_good, corrected_words
from maxk_lab.studies.training.section.decoding import own_best_items
from maxk_lab.studies.training.told import has_value, text


def best_lists(
    rows: tuple[TrainingRow, ...], where: str, level: float, lists: int
) -> Iterator[Bullets]:
    """The best rows at the K of interest, sampled as trained and each in its own best way.

    `rows` are those of one environment, `where` its name. All `lists` of a study share its level.
    """
    for n, found in grouped(rows, lambda row: row.key.n).items():
        items = list(_best(found, level, lists))
        if items:
            yield Bullets(f"Best after training, n = {n}: {where}", tuple(items))
        decoded = list(own_best_items(found, level, lists))
        if decoded:
            title = f"Best after training, each decoded in its own best way, n = {n}: {where}"
            yield Bullets(title, tuple(decoded))


def _best(rows: Sequence[TrainingRow], level: float, lists: int) -> Iterator[str]:
    """The row with the highest Max@K at each K of interest, and the rows that may be as good."""
    named = by_path(rows)
    told = [row for row in rows if row.curve]
    if len(told) < 2:
        return
    ks = shown_ks(told)
    for k in ks:
        known = [row for row in told if (value := row.final(k)) and has_value(value)]
        if not known:
            continue
        best = max(known, key=lambda row: row.curve[k - 1].value)
        gain = best.differences.get(k)
        words = [f"{heading(k, told)}: {named[best.key.path]}, {text(best.curve[k - 1])}"]
        if gain is not None and has_value(gain):
            words.append(f"Minus {named[best.compared_with]}: {text(gain)}")
        yield ". ".join([*words, as_good(best, known, k, 1 - level, len(ks) * lists)])
    yield corrected_words(len(told), len(ks), level, lists)


def against(rows: tuple[TrainingRow, ...], where: str, told: Told, level: float) -> Sheet:
    """The table of what is derived of rows, seeds that are ahead, and K where it is told."""
    ks = shown_ks([row for row in rows if row.differences])
    several = not all(row.one_seed for row in rows)
    columns = (
        *method_columns(rows),
        *status_columns(),
        *(_won_column(k, rows) for k in ks[-1:] if several),
        Column("better at K =", partial(told_at, told=told, sign=1), lambda row: {}),
        Column("worse at K =", partial(told_at, told=told, sign=-1), lambda row: {}),
    )
    doubt = (
        f"Better, worse: at these of K = {', '.join(map(str, ks))}, at a family-wise level of "
        f"{1 - level:.0%} (Holm over the study's {told.comparisons} differences at these K)."
    )
    won = _of_seeds_won(rows, told, *ks[-1:]) if several and ks else ()
    return Sheet(
        f"{difference_title(rows)}, where it is told: {where}", columns, rows, (doubt, *won)
    )


def _won_column(k: int, rows: Sequence[TrainingRow]) -> Column:
    """In how many seeds a row is ahead at k."""

    def shown(row: TrainingRow) -> str:
        known = k in row.won and has_value(row.differences[k])
        return f"{row.won[k][0]}/{len(row.by_seed)}" if known else UNDEFINED

    return Column(f"won, {heading(k, rows)}", shown, lambda row: {}, numeric=True)


def _of_seeds_won(rows: Sequence[TrainingRow], told: Told, k: int) -> Iterator[str]:
    """The seeds that a sign test, which needs no bell shape, has and would need."""
    seeds = max(len(row.cells) for row in rows)
    family = seeds_to_decide(told.alpha, max(1, told.comparisons))
    yield (
        f"Won: the seeds in which the row is ahead at {heading(k, rows)}. The sign test of {seeds} "
        f"out of {seeds} has p = {sign_test(seeds, 0):.2g}; it decides at {told.alpha:.0%} from "
        f"{seeds_to_decide(told.alpha)} seeds on, all won, and with the correction of this table "
        f"from {family} on."
    )


def difference_title(rows: Sequence[TrainingRow]) -> str:
    """`Difference to POMO (reinforce group_mean)`: the rows that others are compared with."""
    named = by_path(rows)
    found = dict.fromkeys(named[row.compared_with] for row in rows if row.compared_with)
    return f"Difference to {' and '.join(found)}"


def told_at(row: TrainingRow, told: Told, sign: int) -> str:
    """The K at which the difference of a row is told to be of that sign."""
    if not any(has_value(found) for found in row.differences.values()):
        return UNDEFINED
    return ", ".join(map(str, told.at(row, sign))) or "none"
