"""Records of the weights study → rows: the weights that an estimator gives some groups of rewards, as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maxk_lab.estimators.method import Method
from maxk_lab.report.naming import Setting, environment_label, row_path, setting_of, setting_words
from maxk_lab.statistics.measures import measures_of

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record


@dataclass(frozen=True)
class WeightsKey:
    """What the seeds of one row share."""

    environment: str
    estimator: str
    baseline: str
    n: int
    k: int
    setting: Setting = ()

    @property
    def path(self) -> str:
        """`weights/maxk/centred/n16/k8`; see `row_path`."""
        return row_path(
            "weights",
            setting_words(self.setting),
            estimator=self.estimator,
            baseline=self.baseline,
            n=self.n,
            k=self.k,
        )

    @property
    def method(self) -> str:
        """Estimator and baseline, if it takes one."""
        takes = Method.parse(self.estimator).takes_baseline
        return f"{self.estimator} {self.baseline}" if takes else self.estimator


@dataclass(frozen=True)
class Weighed:
    """The groups of one seed: `rewards` and `weights` [groups, n], and their numbers by name."""

    rewards: tuple[tuple[float, ...], ...]
    weights: tuple[tuple[float, ...], ...]
    numbers: Mapping[str, float]


@dataclass(frozen=True)
class WeightsRow:
    """One (environment, setting, estimator, baseline, n, K): the groups of each finished seed."""

    key: WeightsKey
    cells: Mapping[int, str]
    catalogued_unbiased: bool
    by_seed: Mapping[int, Weighed] = field(default_factory=dict, repr=False)

    @property
    def finished(self) -> tuple[int, ...]:
        """The seeds that have a result."""
        return tuple(self.by_seed)

    @property
    def complete(self) -> bool:
        """Every planned seed finished."""
        return len(self.by_seed) == len(self.cells)

    @property
    def groups(self) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
        """(rewards, weights) of every group, seed by seed."""
        return [
            pair
            for one in self.by_seed.values()
            for pair in zip(one.rewards, one.weights, strict=True)
        ]


def weights_key(cell: Mapping[str, Any]) -> WeightsKey:
    """The row that a cell of the weights study belongs to."""
    axes = {axis: cell[axis] for axis in ("estimator", "baseline", "n", "k")}
    return WeightsKey(environment_label(cell), **axes, setting=setting_of(cell))


def weights_rows(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record]
) -> list[WeightsRow]:
    """One row per (environment, setting, estimator, baseline, n, K) of the planned cells; settings in their order."""
    grouped: dict[WeightsKey, list[Mapping[str, Any]]] = {}
    for cell in cells:
        grouped.setdefault(weights_key(cell), []).append(cell)
    rows = [
        WeightsRow(
            key=key,
            cells={cell["seed"]: cell["id"] for cell in members},
            catalogued_unbiased=Method.parse(key.estimator, key.baseline).is_unbiased,
            by_seed={
                cell["seed"]: _weighed(done[cell["id"]].metrics or {})
                for cell in members
                if cell["id"] in done
            },
        )
        for key, members in grouped.items()
    ]
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    return sorted(
        rows,
        key=lambda row: (
            row.key.environment,
            settings.index(row.key.setting),
            row.key.n,
            row.key.k,
            Method.parse(row.key.estimator, row.key.baseline).catalogue_order,
        ),
    )


def _weighed(metrics: Mapping[str, Any]) -> Weighed:
    return Weighed(
        tuple(map(tuple, metrics["rewards"])),
        tuple(map(tuple, metrics["weights"])),
        {row.name: metrics[row.name] for row in measures_of("weights")},
    )
