"""Records of a training study → rows, and their numbers: Max@K, differences, gaps and the rest."""

from __future__ import annotations

from collections.abc import Iterator

from maxk_lab.report.tables import ROUNDING, Estimate
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import Better
from maxk_lab.studies.training.ending.values import Value, values
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.rows import key as key
from maxk_lab.studies.training.rows import pool as pool

_GAP = "% of the optimum"
_REWARD = "reward"
# Of 100 %, from which a gap is the distance.
_OF_GAP = 100 * ROUNDING


def estimates(row: TrainingRow) -> dict[str, Estimate]:
    """Every number of the end; none unless all seeds finished."""
    found = dict(_curve(row, "max", "difference"))
    found |= {value.name: _of_end(row, value) for value in values(row)}
    if row.tempered is not None:
        own = "own_temperature_max", "own_temperature_difference"
        found |= dict(_curve(row.tempered, *own))
    if (own_way := row.own_way) is not None:
        found["own_way_reward"] = _reward(own_way.curve[0])
        if own_way.measures is not None and 1 in own_way.measures.gaps:
            found["own_way_gap"] = Estimate(
                own_way.measures.gaps[1], _GAP, "lower", rounding=_OF_GAP
            )
        if 1 in own_way.differences:
            found["own_way_difference"] = _reward(own_way.differences[1], of_pair=True)
    return found


def _curve(row: TrainingRow, final: str, difference: str) -> Iterator[tuple[str, Estimate]]:
    """The final Max@K at every K that is kept, and its differences."""
    for k in row.ks:
        yield f"{final}@{k}", _reward(row.curve[k - 1])
        if k in row.differences:
            yield f"{difference}@{k}", _reward(row.differences[k], of_pair=True)


def _reward(found: Interval, *, of_pair: bool = False) -> Estimate:
    return Estimate(found, _REWARD, "higher", of_pair)


def _of_end(row: TrainingRow, value: Value) -> Estimate:
    if value.name == "improvement":
        return Estimate(value.interval, "1", "higher", of_pair=True)
    of_gap = value.group == "gap" or (
        value.group == "robust" and row.robust is not None and row.robust.of == "gap"
    )
    side: Better = "lower" if of_gap else "higher"
    unit = _GAP if of_gap else _REWARD
    of_pair, rounding = value.group == "by_way", _OF_GAP if of_gap else 0.0
    return Estimate(value.interval, unit, side, of_pair=of_pair, rounding=rounding)
