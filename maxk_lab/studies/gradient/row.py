"""Rows of a gradient study, their keys, and the names of their methods in tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from maxk_lab.reports.naming import BIASED, UNBIASED, GridKey, Setting, setting_words
from maxk_lab.reports.tables import PooledRow
from maxk_lab.statistics.bias import BiasVerdict
from maxk_lab.statistics.families import Comparison
from maxk_lab.statistics.intervals import Interval, exactly
from maxk_lab.statistics.log_ratios import RARE_ALONE, RARE_GROUPS, TypicalRatio
from maxk_lab.statistics.units import Units

# Verdicts of a test that detects a bias.
FOUND_BIASED = ("biased", "scale bias")
# The group of the estimators without baseline.
ALONE = "without baseline"
# Two formulas of one estimator differ by rounding of this size.
ROUNDED = 1e-9


@dataclass(frozen=True, kw_only=True)
class GradientKey(GridKey):
    """The point of a grid at a stage of training."""

    stage: int

    @property
    def path(self) -> str:
        """`stage200/maxk/centred/n16/k8`."""
        return self.named(f"stage{self.stage}")

    @property
    def gradient(self) -> tuple[str, Setting, int, str, int]:
        """The estimated gradient: rows with different n may share it.

        J_K^starts depends on n, so it belongs to its n.
        """
        n = self.n if self.forced else 0
        return self.environment, self.setting, self.stage, self.objective, n

    @property
    def objective(self) -> str:
        """The objective of the estimator: `max@8`."""
        return self.method.objective_at(self.n).name

    @property
    def forced(self) -> bool:
        """Whether its trajectories have forced starts."""
        return bool(dict(self.setting).get("start", "iid") != "iid")

    @property
    def selected(self) -> bool:
        """Whether groups are selected by their rewards, which biases every method."""
        return bool(dict(self.setting).get("selection", "none") != "none")

    @property
    def bias_state(self) -> str:
        """The state of the bias by formula; biased if groups are selected."""
        return BIASED if self.selected else super().bias_state

    @property
    def group(self) -> tuple[str, Setting, int, str, int, int]:
        """All fields but the baseline: the rows of one group compete for `best`."""
        return self.environment, self.setting, self.stage, self.estimator, self.n, self.k


@dataclass(frozen=True)
class OverLeast:
    """The variance of a row over that of `baseline`, the lowest of its group, as paired ratios.

    `line` compares the mean variances; it has no verdict if the row is no candidate. `typical` is
    the ratio on every instance.
    """

    baseline: str
    line: Comparison
    typical: TypicalRatio

    @property
    def mean(self) -> Interval:
        """The ratio of the mean variances."""
        return self.line.interval

    @property
    def close(self) -> bool:
        """Whether neither the corrected test nor the row's own interval finds more variance."""
        if self.mean.reason == RARE_GROUPS:
            return True
        return bool(self.line.reason) and self.mean.defined and self.mean.low <= 1 + ROUNDED


@dataclass(frozen=True, kw_only=True)
class GradientRow(PooledRow):
    """One (environment, setting, stage, estimator, baseline, n, K), pooled over seeds.

    Unless all seeds finished, `intervals` and `bias` are undefined and `units` is None: there is no
    average over some of the seeds. `intervals` has the measures of every row, then the measures of
    this study only. `over_best` is the variance over that of the joint optimum, if it was computed;
    `over_least` is the variance over the lowest of the group. `typical` is the median over
    instances of the relative variance. `carrying` are the effective numbers of instances behind the
    mean of the `variance` and of the `gradient`'s squared norm. `best` is set on the lowest row of
    a group if all other candidates differ significantly. `no_signal` is the reason for a row whose
    groups show no variance: it has no units and no comparisons.
    """

    key: GradientKey
    intervals: Mapping[str, Interval]
    bias: BiasVerdict
    catalogued_unbiased: bool
    instances: int
    pool: int
    against: str
    units: Units | None = field(default=None, repr=False)
    over_best: Interval | None = None
    over_least: OverLeast | None = None
    typical: Interval | None = None
    carrying: Mapping[str, float] = field(default_factory=dict)
    best: bool = False
    no_signal: str = ""

    @property
    def ratios(self) -> Mapping[str, Interval]:
        """The ratios of its variance to the variance of other rows."""
        ratios = {} if self.over_best is None else {"over_optimum": self.over_best}
        if (over := self.over_least) is not None:
            ratios["over_lowest"] = over.mean
            ratios["median_over_lowest"] = over.typical.median
            if over.typical.median.reason not in (RARE_GROUPS, RARE_ALONE):
                ratios["lower_on"] = exactly(over.typical.below)
        return ratios

    @property
    def bias_state(self) -> str:
        """Unbiased (proved), not proved or biased: as measured, else by the formula."""
        if self.bias.verdict in FOUND_BIASED:
            return BIASED
        if self.catalogued_unbiased or self.enumerated_unbiased:
            return UNBIASED
        # Trajectories of another policy bias an estimate without importance ratios.
        formula = self.key.bias_state
        return BIASED if formula == UNBIASED else formula

    @property
    def enumerated_unbiased(self) -> bool:
        """Whether enumeration proves that the estimate is unbiased here."""
        return self.enumerated and self.bias.verdict == "unbiased"

    @property
    def enumerated(self) -> bool:
        """Whether mean and variance of the estimate are sums over every possible group."""
        return self.against == "complete"


def same_mean(first: GradientRow, second: GradientRow) -> bool:
    """Return whether both rows estimate one gradient and are unbiased by proof."""
    return (
        first.key.gradient == second.key.gradient
        and first.catalogued_unbiased
        and second.catalogued_unbiased
    )


@dataclass(frozen=True)
class ProxyKey:
    """A trajectory weight (proxy) at a stage of training."""

    axes: ClassVar[tuple[str, ...]] = ("stage", "proxy")
    environment: str
    setting: Setting
    stage: int
    proxy: str

    @property
    def path(self) -> str:
        """The path `stage200/length`, with the varied values in the middle."""
        words = setting_words(self.setting)
        return "/".join(filter(None, (f"stage{self.stage}", words, self.proxy)))


@dataclass(frozen=True, kw_only=True)
class ProxyRow(PooledRow):
    """The correlation of a trajectory weight with ‖ψ‖², pooled over instances and seeds.

    `without` of the `instances` have no correlation, because one variable is constant there.
    """

    key: ProxyKey
    correlation: Interval
    instances: int
    without: int

    bias_state = ""


def shared_estimator(row: GradientRow) -> str:
    """Return the estimator whose baselines are compared with each other, or `ALONE`."""
    return row.key.estimator if row.key.method.takes_baseline else ALONE


def method(row: GradientRow) -> str:
    """Return the name of the row in its table: the baseline, else the estimator."""
    return row.key.estimator if shared_estimator(row) == ALONE else row.key.baseline


def method_order(row: GradientRow) -> tuple[int, int, str]:
    """Return a key that sorts the methods of a table as the catalogue lists them."""
    estimator, baseline, _ = row.key.method.catalogue_order
    return estimator, baseline, method(row)


def is_oracle(row: GradientRow) -> bool:
    """Return whether its baseline is fitted to every possible group of samples.

    A report compares with an oracle, but a training cannot use it.
    """
    return row.key.method.fit == "oracle"
