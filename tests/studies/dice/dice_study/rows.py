from collections.abc import Mapping
from dataclasses import dataclass

from dice_study.record import Metrics
from maxk_lab.report.naming import Setting, environment_label, row_path, setting_of, setting_words
from maxk_lab.report.rows import PooledRow, grouped


@dataclass(frozen=True)
class DiceKey:
    environment: str
    estimator: str
    baseline: str
    n: int
    k: int
    setting: Setting

    @property
    def path(self):
        point = {"estimator": self.estimator, "baseline": self.baseline, "n": self.n, "k": self.k}
        return row_path("dice", setting_words(self.setting), **point)


@dataclass(frozen=True, kw_only=True)
class DiceRow(PooledRow):
    largest: Mapping[int, float]


@dataclass(frozen=True)
class DiceRows:
    rows: tuple[DiceRow, ...]


def key(cell):
    axes = {axis: cell[axis] for axis in ("estimator", "baseline", "n", "k")}
    return DiceKey(environment_label(cell), **axes, setting=setting_of(cell))


def pool(cells, done, *, level, alpha):
    rows = []
    for found, members in grouped(cells, key).items():
        records = {cell["seed"]: done[cell["id"]] for cell in members if cell["id"] in done}
        largest = {seed: Metrics.of(record).largest for seed, record in records.items()}
        ids = {cell["seed"]: cell["id"] for cell in members}
        rows.append(DiceRow(key=found, cells=ids, finished=tuple(largest), largest=largest))
    return DiceRows(tuple(rows))
