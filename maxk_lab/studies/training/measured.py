"""The numbers of a trained row, with their intervals: Max@K, differences, gaps and the rest."""

from __future__ import annotations

from collections.abc import Iterator

from maxk_lab.report.rows import ROUNDING, Effect, Measured
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import Better
from maxk_lab.studies.training.ending.measures import gap_difference
from maxk_lab.studies.training.ending.values import Value, values
from maxk_lab.studies.training.row.comparison import difference, why_not_paired
from maxk_lab.studies.training.row.model import TrainingRow

_GAP = "% of the optimum"
_REWARD = "reward"
# Of 100 %, from which a gap is the distance.
_OF_GAP = 100 * ROUNDING


def measured(row: TrainingRow) -> dict[str, Measured]:
    """Every number of the end; none unless all seeds finished."""
    found = dict(_curve(row, "max", "difference"))
    found |= {value.name: _of_end(row, value) for value in values(row)}
    if row.tempered is not None:
        own = "own_temperature_max", "own_temperature_difference"
        found |= dict(_curve(row.tempered, *own))
    if (own_way := row.own_way) is not None:
        found["own_way_reward"] = _reward(own_way.curve[0])
        if own_way.measures is not None and 1 in own_way.measures.gaps:
            found["own_way_gap"] = Measured(
                own_way.measures.gaps[1], _GAP, "lower", rounding=_OF_GAP
            )
        if 1 in own_way.differences:
            found["own_way_difference"] = _reward(own_way.differences[1], of_pair=True)
    return found


def against(row: TrainingRow, other: TrainingRow, name: str, level: float) -> Effect | None:
    """The difference of Max@K, or of its gap, paired by seed; with one seed by instance."""
    kind, _, at = name.partition("@")
    if kind not in ("max", "gap") or not at.isdigit() or why_not_paired(row, other, int(at)):
        return None
    differ = difference if kind == "max" else gap_difference
    paired = "instance" if row.one_seed else "seed"
    return Effect(differ(row, other, int(at), level), paired=paired)


def _curve(row: TrainingRow, final: str, difference: str) -> Iterator[tuple[str, Measured]]:
    """The final Max@K at every K that is kept, and its differences."""
    for k in row.ks:
        yield f"{final}@{k}", _reward(row.curve[k - 1])
        if k in row.differences:
            yield f"{difference}@{k}", _reward(row.differences[k], of_pair=True)


def _reward(found: Interval, *, of_pair: bool = False) -> Measured:
    return Measured(found, _REWARD, "higher", of_pair)


def _of_end(row: TrainingRow, value: Value) -> Measured:
    if value.name == "improvement":
        return Measured(value.interval, "1", "higher", of_pair=True)
    of_gap = value.group == "gap" or (
        value.group == "robust" and row.robust is not None and row.robust.of == "gap"
    )
    side: Better = "lower" if of_gap else "higher"
    unit = _GAP if of_gap else _REWARD
    of_pair, rounding = value.group == "by_way", _OF_GAP if of_gap else 0.0
    return Measured(value.interval, unit, side, of_pair=of_pair, rounding=rounding)
