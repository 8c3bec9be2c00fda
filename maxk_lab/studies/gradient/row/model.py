"""The rows of a gradient study as plain values: of a method, and of a proxy for ‖ψ‖²."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from maxk_lab.report.naming import GridKey, Setting
from maxk_lab.report.tables import PooledRow
from maxk_lab.statistics.bias import BiasVerdict
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.typical import TypicalRatio
from maxk_lab.statistics.units import Units

# The distance of the policy that samples from the one whose gradient is estimated.
DISTANCE = "behaviour.distance"


@dataclass(frozen=True, kw_only=True)
class GradientKey(GridKey):
    """The point of a grid at a stage of training."""

    stage: int

    @property
    def path(self) -> str:
        """`stage200/maxk/centred/n16/k8`; see `row_path`."""
        return self.named(f"stage{self.stage}")

    @property
    def gradient(self) -> tuple[str, Setting, int, str]:
        """The gradient that is estimated: rows of one n or another may have the same."""
        return self.environment, self.setting, self.stage, self.method.objective.name

    @property
    def group(self) -> tuple[str, Setting, int, str, int, int]:
        """All but the baseline: the rows of one group compete for `best`."""
        return self.environment, self.setting, self.stage, self.estimator, self.n, self.k


@dataclass(frozen=True)
class OverLeast:
    """The variance of a row over that of `baseline`, the least of its group: paired ratios.

    `mean` is that of the mean variances, `typical` that of every instance, None where the two rest
    on different instances.
    """

    baseline: str
    mean: Interval
    typical: TypicalRatio | None


# Why two baselines are not told apart: their variances are equal on every instance, up to rounding;
# the paired interval of the means holds both signs; too few instances carry the mean to speak of
# others; the median over instances does not agree; an instance not drawn could undo it; their
# instances or the ways in which they were measured differ.
Why = Literal[
    "same", "both signs", "few instances", "median", "one instance", "unpaired", "no interval"
]


@dataclass(frozen=True)
class Rival:
    """A baseline that the least of its group is not told apart from, at the level of the stars.

    `reason` has the words of the statistics for `why`, if any. `here`: on the instances that were
    measured the least has less all the same, beyond doubt and on most of them.
    """

    baseline: str
    why: Why
    reason: str = ""
    here: bool = False


@dataclass(frozen=True)
class Untested:
    """So many of the instances have pools that miss too much of the gradient to test a bias there.

    `pool` is the size that would do for all of them, infinite where that is not known.
    """

    instances: int
    of: int
    pool: float

    @property
    def everywhere(self) -> bool:
        """Whether no instance is left."""
        return self.instances == self.of

    @property
    def reason(self) -> str:
        """`not testable: ...; a pool of y would do`."""
        would = f"; a pool of {self.pool:,.0f} would do" if self.pool < _MOST_POOL else ""
        return (
            "not testable: too few trajectories in the pool carry the gradient on "
            f"{self.instances} of {self.of} instances{would}"
        )


# Nobody draws a larger pool.
_MOST_POOL = 1e9


@dataclass(frozen=True, kw_only=True)
class GradientRow(PooledRow):
    """One (environment, setting, stage, estimator, baseline, n, K), pooled over seeds.

    Unless all seeds finished, `intervals` and `bias` are undefined and `units` is None: no average
    over a part of the seeds. `intervals` has the measures that every row has, then those that were
    measured here. `anatomy` are the parts that sum to the variance, exact for these instances,
    where every group was enumerated. `over_best` is the variance over that of the best baseline
    there can be, where that was computed, `over_least` that over the least of the group. `typical`
    is the median over instances of the relative variance. `carrying` are the effective numbers of
    instances behind the mean of the `variance` and of the `gradient`'s squared norm. `rivals` are
    those that the least of a group is not told apart from: without any, it is `best`. `untested`
    are the instances that no test of bias rests on, if any. `no_signal` says why a row whose groups
    show no variance is compared with no other: it has no units either.
    """

    key: GradientKey
    intervals: Mapping[str, Interval]
    bias: BiasVerdict
    catalogued_unbiased: bool
    instances: int
    pool: int
    against: str
    units: Units | None = field(default=None, repr=False)
    anatomy: Mapping[str, float] = field(default_factory=dict)
    over_best: Interval | None = None
    over_least: OverLeast | None = None
    typical: Interval | None = None
    carrying: Mapping[str, float] = field(default_factory=dict)
    best: bool = False
    best_note: str = ""
    rivals: tuple[Rival, ...] = ()
    untested: Untested | None = None
    no_signal: str = ""

    @property
    def told(self) -> list[Interval]:
        """The intervals of its measures and of its ratios to other rows."""
        ratios = (self.over_best, None if self.over_least is None else self.over_least.mean)
        return [*self.intervals.values(), *(found for found in ratios if found is not None)]

    @property
    def enumerated(self) -> bool:
        """Mean and variance of the estimate are sums over every possible group, not sampled."""
        return self.against == "complete"


def same_mean(one: GradientRow, other: GradientRow) -> bool:
    """Whether both are estimates of one gradient that are unbiased by proof."""
    return (
        one.key.gradient == other.key.gradient
        and one.catalogued_unbiased
        and other.catalogued_unbiased
    )


# The public name of these rows.
SummaryRow = GradientRow


@dataclass(frozen=True)
class ProxyRow:
    """The correlation of a trajectory weight with ‖ψ‖², pooled over instances and seeds.

    `without` of the `instances` have no correlation, because one of the two is constant there.
    """

    environment: str
    stage: int
    proxy: str
    correlation: Interval
    seeds: int
    instances: int
    without: int
    setting: Setting = ()
