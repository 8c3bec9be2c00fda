"""The answer of a training study: the best row at each K, and where each beats its comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from maxk_lab.report.document import UNDEFINED, Block, Bullets, Column, Sheet
from maxk_lab.report.rows import grouped
from maxk_lab.statistics.seeds.apart import seeds_to_decide, sign_test
from maxk_lab.studies.training.columns import (
    difference_column,
    heading,
    method_columns,
    shown_ks,
    status_columns,
)
from maxk_lab.studies.training.row.comparison import are_compared
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import by_path
from maxk_lab.studies.training.section.corrected import (
    as_good,
    comparisons,
    corrected_words,
    told_apart,
)
from maxk_lab.studies.training.section.decoding import own_best_items
from maxk_lab.studies.training.told import has_value, text


def answers(
    rows: tuple[TrainingRow, ...], where: str, caption: tuple[str, ...], level: float
) -> Iterator[Block]:
    """The best rows at the K of interest, then every row against the one it is compared with.

    `rows` are those of one environment, `where` its name.
    """
    for n, found in grouped(rows, lambda row: row.key.n).items():
        items = list(_best(found, level))
        if items:
            yield Bullets(f"Best after training, n = {n}: {where}", tuple(items))
        decoded = list(own_best_items(found, level))
        if decoded:
            title = f"Best after training, each decoded in its own best way, n = {n}: {where}"
            yield Bullets(title, tuple(decoded))
    if are_compared(rows):
        yield _against(rows, where, caption, level)


def _best(rows: Sequence[TrainingRow], level: float) -> Iterator[str]:
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
        words = [f"{heading(k)}: {named[best.key.path]}, {text(best.curve[k - 1])}"]
        if gain is not None and has_value(gain):
            words.append(f"Minus {named[best.compared_with]}: {text(gain)}")
        yield ". ".join([*words, as_good(best, known, k, 1 - level, len(ks))])
    yield corrected_words(len(told), len(ks), level)


def _against(
    rows: tuple[TrainingRow, ...], where: str, caption: tuple[str, ...], level: float
) -> Sheet:
    """The differences at the ends of the curve, and the K at which they are told from 0."""
    ks = shown_ks([row for row in rows if row.differences])
    ends = sorted({*ks[:1], *ks[-1:]})
    apart = told_apart(rows, 1 - level)
    several = not all(row.one_seed for row in rows)
    columns = (
        *method_columns(rows),
        *status_columns(),
        *(difference_column(k, f"difference, {heading(k)}") for k in ends),
        *(_won_column(k) for k in ends[-1:] if several),
        Column("better at K =", partial(_where, apart=apart, sign=1), lambda row: {}),
        Column("worse at K =", partial(_where, apart=apart, sign=-1), lambda row: {}),
    )
    doubt = (
        "Better, worse: at these of the K that are kept, at a family-wise level of "
        f"{1 - level:.0%} (Holm over the {comparisons(rows)} comparisons of this table). Its "
        "intervals are of one comparison each."
    )
    won = _of_seeds_won(rows, level, *ends[-1:]) if several else ()
    return Sheet(
        f"{difference_title(rows)}, in short: {where}", columns, rows, (*caption, doubt, *won)
    )


def _won_column(k: int) -> Column:
    """In how many seeds a row is ahead at k."""

    def shown(row: TrainingRow) -> str:
        known = k in row.won and has_value(row.differences[k])
        return f"{row.won[k][0]}/{len(row.by_seed)}" if known else UNDEFINED

    return Column(f"won, {heading(k)}", shown, lambda row: {}, numeric=True)


def _of_seeds_won(rows: Sequence[TrainingRow], level: float, k: int = 1) -> Iterator[str]:
    """The seeds that a sign test, which needs no bell shape, has and would need."""
    seeds = max(len(row.cells) for row in rows)
    family = seeds_to_decide(1 - level, max(1, comparisons(rows)))
    yield (
        f"Won: the seeds in which the row is ahead at {heading(k)}. The sign test of {seeds} out "
        f"of {seeds} has p = {sign_test(seeds, 0):.2g}; it decides at {1 - level:.0%} from "
        f"{seeds_to_decide(1 - level)} seeds on, all won, and with the correction of this table "
        f"from {family} on."
    )


def difference_title(rows: Sequence[TrainingRow]) -> str:
    """`Difference to POMO (reinforce group_mean)`: the rows that others are compared with."""
    named = by_path(rows)
    found = dict.fromkeys(named[row.compared_with] for row in rows if row.compared_with)
    return f"Difference to {' and '.join(found)}"


def _where(row: TrainingRow, apart: Mapping[str, Mapping[int, int]], sign: int) -> str:
    """The K at which the difference is of that sign beyond doubt."""
    if not any(has_value(found) for found in row.differences.values()):
        return UNDEFINED
    ks = [str(k) for k, found in apart[row.key.path].items() if found == sign]
    return ", ".join(ks) or "none"
