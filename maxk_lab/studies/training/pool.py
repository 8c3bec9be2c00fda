"""Records of a training study → rows, and their numbers: Max@K, differences, gaps and the rest."""

from __future__ import annotations

from collections.abc import Iterator

from maxk_lab.report.tables import ROUNDING, Estimate
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.ending.ways import EXTRAS, SAMPLED
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
    if row.measures is not None:
        found |= dict(_ending(row))
    if row.tempered is not None:
        own = "own_temperature_max", "own_temperature_difference"
        found |= dict(_curve(row.tempered, *own))
    if (own_way := row.own_way) is not None:
        found["own_way_reward"] = _reward(own_way.curve[0])
        if own_way.measures is not None and 1 in own_way.measures.gaps:
            found["own_way_gap"] = _gap(own_way.measures.gaps[1])
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


def _gap(found: Interval) -> Estimate:
    return Estimate(found, _GAP, "lower", rounding=_OF_GAP)


def _ending(row: TrainingRow) -> Iterator[tuple[str, Estimate]]:
    """Gaps, other ways of decoding, quantiles, and the summaries without the mean."""
    assert row.measures is not None
    for at, found in row.measures.gaps.items():
        yield (_name("gap", at, row) if isinstance(at, str) else f"gap@{at}"), _gap(found)
    if set(row.measures.ways) != {SAMPLED}:
        for way, found in row.measures.ways.items():
            yield _name("max" if way not in EXTRAS else "extra", way, row), _reward(found)
        for way, found in row.by_way.items():
            yield f"difference_{way}", _reward(found, of_pair=True)
    for name, found in row.measures.quantiles.items():
        yield f"sample_{name}", _reward(found)
    if row.robust is not None:
        of = _gap if row.robust.of == "gap" else _reward
        yield "iqm", of(row.robust.iqm)
        if row.robust.improvement is not None:
            yield "improvement", Estimate(row.robust.improvement, "1", "higher", of_pair=True)
        for name, found in row.robust.quantiles.items():
            yield f"instance_{name}", of(found)


def _name(kind: str, way: str, row: TrainingRow) -> str:
    """`gap_greedy`, `extra_greedy`, and with the K of their samples `max@64_T=1.5`."""
    return f"{kind}_{way}" if way in EXTRAS else f"{kind}@{row.ks[-1]}_{way}"
