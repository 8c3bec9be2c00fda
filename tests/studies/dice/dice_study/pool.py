from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from dice_study.record import Metrics
from maxk_lab.report.naming import GridKey
from maxk_lab.report.tables import Estimate, Pooled, PooledRow, grouped
from maxk_lab.statistics.intervals import exactly

key = GridKey.of


@dataclass(frozen=True, kw_only=True)
class DiceRow(PooledRow):
    largest: Mapping[int, float]


def pool(cells, done, *, level, alpha):
    rows = []
    for point, members in grouped(cells, key).items():
        largest = {c["seed"]: Metrics.of(done[c["id"]]).largest for c in members if c["id"] in done}
        ids = {cell["seed"]: cell["id"] for cell in members}
        rows.append(DiceRow(key=point, cells=ids, finished=tuple(largest), largest=largest))
    return Pooled(tuple(rows))


def estimates(row):
    if not row.all_finished:
        return {}
    return {"largest": Estimate(exactly(fmean(row.largest.values())))}
