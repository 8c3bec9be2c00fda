from collections.abc import Mapping
from dataclasses import dataclass

from dice_study.record import Metrics
from maxk_lab.report.keys import GridKey
from maxk_lab.report.rows import PooledRow, Rows, grouped


@dataclass(frozen=True, kw_only=True)
class DiceKey(GridKey):
    @property
    def path(self):
        return self.named("dice")


@dataclass(frozen=True, kw_only=True)
class DiceRow(PooledRow):
    largest: Mapping[int, float]


def key(cell):
    return DiceKey.of(cell)


def pool(cells, done, *, level, alpha):
    rows = []
    for found, members in grouped(cells, key).items():
        records = {cell["seed"]: done[cell["id"]] for cell in members if cell["id"] in done}
        largest = {seed: Metrics.of(record).largest for seed, record in records.items()}
        ids = {cell["seed"]: cell["id"] for cell in members}
        rows.append(DiceRow(key=found, cells=ids, finished=tuple(largest), largest=largest))
    return Rows(tuple(rows))
