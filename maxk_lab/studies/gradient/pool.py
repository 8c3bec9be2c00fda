"""Records of a gradient study → rows pooled over seeds, and the numbers of a row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from maxk_lab.ranges import Range
from maxk_lab.reports.naming import (
    BIASED,
    UNBIASED,
    GridKey,
    Setting,
    environment_label,
    setting_of,
    setting_words,
)
from maxk_lab.reports.tables import ROUNDING, Pooled, PooledRow, grouped, members_by_key
from maxk_lab.statistics.bias import LEAST_SIGNAL, BiasVerdict
from maxk_lab.statistics.estimates import stratified_mean
from maxk_lab.statistics.families import Comparison
from maxk_lab.statistics.intervals import Interval, exactly, interval, undefined
from maxk_lab.statistics.log_ratios import TypicalRatio, typical_relative_variance
from maxk_lab.statistics.measures import MEASURES, group_names, measures_of
from maxk_lab.statistics.seeds import skewed_mean
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.record import Metrics

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record

# The distance of the policy that samples from the one whose gradient is estimated.
DISTANCE = "behaviour.distance"
# The measures that every row is asked for, whether they can be had or not.
ALWAYS = tuple(
    row.name for row in measures_of("gradient") if row.source == "moments" and row.heading
)
# The measures of some studies only.
OF_WEIGHTS = group_names("gradient", "weights", "value")
OF_RATIOS = group_names("gradient", "ratios")
SOMETIMES = (*OF_WEIGHTS, *OF_RATIOS)
FOUND_BIASED = ("biased", "scale bias")
_SQUARED_NORM = MEASURES.get("variance").unit
# Said of the estimators that take no baseline: they are compared as one group.
ALONE = "without baseline"
# Two ways to write one estimator differ by rounding alone, in the same direction on every instance
# that is like the others.
ROUNDED = 1e-9
# The policy of a stage and seed, in each setting, is one run of a tracker.
ONE_RUN_PER = ("stage", "setting")


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
        """The gradient that is estimated: rows of one n or another may have the same.

        That of J_K^starts is of its n starts.
        """
        n = self.n if self.forced else 0
        return self.environment, self.setting, self.stage, self.method.objective.name, n

    @property
    def forced(self) -> bool:
        """Whether its trajectories have forced starts."""
        return bool(dict(self.setting).get("start", "iid") != "iid")

    @property
    def group(self) -> tuple[str, Setting, int, str, int, int]:
        """All but the baseline: the rows of one group compete for `best`."""
        return self.environment, self.setting, self.stage, self.estimator, self.n, self.k


@dataclass(frozen=True)
class OverLeast:
    """The variance of a row over that of `baseline`, the least of its group: paired ratios.

    `line` compares the mean variances, without a verdict for a row that is no candidate; `typical`
    is the ratio on every instance.
    """

    baseline: str
    line: Comparison
    typical: TypicalRatio

    @property
    def mean(self) -> Interval:
        """The ratio of the mean variances."""
        return self.line.interval

    @property
    def ties(self) -> bool:
        """Neither the corrected test nor its own interval says that the row has more variance."""
        return bool(self.line.reason) and self.mean.known and self.mean.low <= 1 + ROUNDED


# Nobody draws a larger pool.
_MOST_POOL = 1e9


@dataclass(frozen=True, kw_only=True)
class GradientRow(PooledRow):
    """One (environment, setting, stage, estimator, baseline, n, K), pooled over seeds.

    Unless all seeds finished, `intervals` and `bias` are undefined and `units` is None: no average
    over a part of the seeds. `intervals` has the measures that every row has, then those that were
    measured here. `over_best` is the variance over that of the best baseline
    there can be, where that was computed, `over_least` that over the lowest of the group. `typical`
    is the median over instances of the relative variance. `carrying` are the effective numbers of
    instances behind the mean of the `variance` and of the `gradient`'s squared norm. `best` is the
    lowest of a group from which all other candidates differ significantly. A row is `testable`
    where the pool of some instance is large enough for a test of bias. `no_signal` says why a row
    whose groups show no variance is compared with no other: it has no units either.
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
    testable: bool = True
    no_signal: str = ""

    @property
    def ratios(self) -> Mapping[str, Interval]:
        """The ratios of its variance to the variance of other rows."""
        ratios = {} if self.over_best is None else {"over_optimum": self.over_best}
        if (over := self.over_least) is not None:
            ratios["over_lowest"] = over.mean
            ratios["median_over_lowest"] = over.typical.median
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
class ProxyKey:
    """A cheap weight of a trajectory, at a stage of training."""

    axes: ClassVar[tuple[str, ...]] = ("stage", "proxy")
    environment: str
    setting: Setting
    stage: int
    proxy: str

    @property
    def path(self) -> str:
        """`stage200/length`, with the varied values between the two."""
        words = setting_words(self.setting)
        return "/".join(filter(None, (f"stage{self.stage}", words, self.proxy)))


@dataclass(frozen=True, kw_only=True)
class ProxyRow(PooledRow):
    """The correlation of a trajectory weight with ‖ψ‖², pooled over instances and seeds.

    `without` of the `instances` have no correlation, because one of the two is constant there.
    """

    key: ProxyKey
    correlation: Interval
    instances: int
    without: int

    bias_state = ""


def key(cell: Mapping[str, Any]) -> GradientKey:
    """The row that a cell belongs to."""
    return GradientKey.of(cell, stage=cell["stage"], setting=_setting(cell))


def pool(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], *, level: float, alpha: float
) -> Pooled[GradientRow]:
    """One row per key of the planned cells, and the rows of the proxies; `compare` judges them."""
    read = {cell["id"]: Metrics.of(done[cell["id"]]) for cell in cells if cell["id"] in done}
    rows = [_pooled(*found, read, level) for found in members_by_key(cells, done, key)]
    places = grouped(cells, lambda cell: (environment_label(cell), _setting(cell), cell["stage"]))
    proxies = tuple(_proxy_rows(places, read, level))
    return Pooled(tuple(rows), proxies=proxies)


def _setting(cell: Mapping[str, Any]) -> Setting:
    """The varied values; with the distance of the policy that samples, wherever that is another."""
    found, distance = setting_of(cell), cell.get("behaviour", {}).get("distance", 0.0)
    return found if not distance or DISTANCE in dict(found) else (*found, (DISTANCE, distance))


def _unbiased(key: GradientKey) -> bool:
    """Whether the estimate is unbiased by proof, of trajectories as these are drawn."""
    method = key.method
    # Of trajectories of another policy only estimates that are weighed by ratios are.
    on_policy = dict(key.setting).get(DISTANCE, 0) <= 0 or method.needs_ratios
    return method.is_unbiased and on_policy


def _pooled(
    key: GradientKey,
    cells: Sequence[Mapping[str, Any]],
    done: Mapping[int, Record],
    read: Mapping[str, Metrics],
    level: float,
) -> GradientRow:
    finished = [cell for cell in cells if cell["seed"] in done]
    metrics = [read[cell["id"]] for cell in finished]
    ways = {m.against for m in metrics}
    row = GradientRow(
        key=key,
        cells={cell["seed"]: cell["id"] for cell in cells},
        finished=tuple(done),
        intervals={},
        bias=BiasVerdict("undefined"),
        catalogued_unbiased=_unbiased(key),
        instances=cells[0]["instances"],
        pool=cells[0]["pool"],
        # Near the limit of enumeration some of their groups are enumerated and some sampled.
        against="exact" if ways == {"complete", "exact"} else " and ".join(sorted(ways)),
    )
    apart = " and " in row.against
    reason = "the seeds were measured in different ways and cannot be pooled" if apart else ""
    if reason := row.unfinished or reason:
        return replace(
            row,
            intervals={measure: undefined(level, reason) for measure in ALWAYS},
            bias=BiasVerdict("undefined", reason=reason),
        )
    units = Units.pool([Units.of(m) for m in metrics])
    if untestable := _untestable(finished, metrics):
        verdict = BiasVerdict("undefined", reason=untestable)
        row = replace(row, bias=verdict, testable=False)
    if dict(key.setting).get(DISTANCE) == 0:
        # The measures that need another policy are exact where there is none.
        count = len(units.m2)
        needing = [measure for measure in measures_of("gradient") if measure.needs == "behaviour"]
        known = {measure.name: np.full(count, measure.on_policy) for measure in needing}
        errors = {**units.errors, **{name: np.zeros(count) for name in known}}
        units = replace(units, measures={**units.measures, **known}, errors=errors)
    measured = (*ALWAYS, *(name for name in SOMETIMES if name in units.measures))
    intervals = {name: _measure(units, name, level) for name in measured}
    if units.no_signal:
        # Without units a row takes part in no comparison; how often groups are dead stays.
        verdict = BiasVerdict("undefined", reason=units.no_signal)
        return replace(row, intervals=intervals, bias=verdict, no_signal=units.no_signal)
    return replace(
        row,
        intervals=intervals,
        units=units,
        typical=typical_relative_variance(units, unbiased=row.catalogued_unbiased, level=level),
        carrying=units.effective_instances(),
    )


def _untestable(cells: Sequence[Mapping[str, Any]], metrics: Sequence[Metrics]) -> str:
    """Why no instance has a pool that is large enough for a test of bias; empty where one has.

    The pool that would do for all of them is named, where that is known.
    """
    needed = [
        (math.inf if least is None else least, cell["pool"])
        for cell, found in zip(cells, metrics, strict=True)
        if not found.is_reference
        for least in found.tested_from or ()
    ]
    count, largest = sum(cell["instances"] for cell in cells), max(needed, default=(0.0, 0))[0]
    if sum(least > size for least, size in needed) < count:
        return ""
    would = f"; a pool of {largest:,.0f} would do" if largest < _MOST_POOL else ""
    return (
        "not testable: too few trajectories in the pool carry the gradient on "
        f"{count} of {count} instances{would}"
    )


def _measure(units: Units, name: str, level: float) -> Interval:
    found = interval(units, name, level=level)
    never_varied = name in ALWAYS or (name in group_names("gradient", "value") and found.width == 0)
    return undefined(level, units.no_signal) if units.no_signal and never_varied else found


def estimates(row: GradientRow | ProxyRow) -> dict[str, Interval]:
    """Its measures, its ratios to other rows, and its counts."""
    if isinstance(row, ProxyRow):
        counts = {"instances": row.instances, "instances_without": row.without}
        known = {name: exactly(count) for name, count in counts.items()}
        return {"correlation": _with_ends(row.correlation)} | known
    measured = {**row.intervals, **row.ratios}
    if row.typical is not None:
        measured["median_relative_variance"] = row.typical
    numbers = {
        "bias_at_most": row.bias.at_most,
        "detectable_bias": row.bias.detectable,
        "instances": row.instances,
        "pool": row.pool,
        **{f"effective_instances_{name}": value for name, value in row.carrying.items()},
    }
    known = {name: exactly(value) for name, value in numbers.items() if not math.isnan(value)}
    return {name: _with_ends(each) for name, each in measured.items()} | known


def _with_ends(found: Interval) -> Interval:
    """The interval; without a value where it has no ends, as in every table."""
    return found if found.known else undefined(found.level, found.reason or "no interval")


def rounding(row: GradientRow, name: str) -> float:
    """How far rounding may move a squared norm, which can be a small difference of large ones.

    For an enumerated bias the precision of the policy counts, as in the verdict on bias.
    """
    units = row.units
    if units is None or name not in MEASURES or MEASURES.get(name).unit != _SQUARED_NORM:
        return 0.0
    share, size = ROUNDING, units.m2
    if units.tolerance is not None and name == "squared_bias":
        share = units.tolerance**2
        size = np.maximum(units.truth, LEAST_SIGNAL**2 * units.m2)
    return float(share * np.nan_to_num(stratified_mean(size[np.newaxis], units.stratum)[0]))


def _proxy_rows(
    places: Mapping[tuple[str, Setting, int], Sequence[Mapping[str, Any]]],
    read: Mapping[str, Metrics],
    level: float,
) -> Iterator[ProxyRow]:
    """One row per proxy that any finished one of the cells of a place reports.

    All cells of a stage and seed share one pool, so any of them tells its correlations.
    """
    for (environment, setting, stage), cells in places.items():
        seeds: dict[int, str] = {}
        for cell in sorted(cells, key=lambda cell: int(cell["seed"])):
            told = cell["id"] in read and bool(read[cell["id"]].proxies)
            seeds[cell["seed"]] = seeds.get(cell["seed"]) or (cell["id"] if told else "")
        known = [read[cell].proxies for cell in seeds.values() if cell]
        for proxy in dict.fromkeys(name for proxies in known for name in proxies):
            values = [proxies[proxy] for proxies in known if proxy in proxies]
            defined = [[value for value in each if value is not None] for each in values]
            total = sum(map(len, values))
            yield ProxyRow(
                key=ProxyKey(environment, setting, stage, proxy),
                cells=seeds,
                finished=tuple(seed for seed, cell in seeds.items() if cell),
                correlation=_correlation(defined, len(seeds), level),
                instances=total,
                without=total - sum(map(len, defined)),
            )


def _correlation(defined: Sequence[Sequence[float]], seeds: int, level: float) -> Interval:
    if len(defined) < seeds:
        return undefined(level, f"incomplete: {len(defined)} of {seeds} seeds finished")
    if not all(defined):
        return undefined(level, "constant on every instance of a seed: no correlation")
    seed = np.repeat(np.arange(len(defined)), [len(values) for values in defined])
    return skewed_mean(
        np.concatenate(defined), level, within=Range(-1.0, 1.0), stratum=seed, of="instances"
    )


def sorted_rows(rows: Sequence[GradientRow]) -> list[GradientRow]:
    """Return the rows by environment, estimator, stage, setting, K, n and the order of methods.

    Never by value. Settings come in the order of the rows, which is that of the sweep file.
    """
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    return sorted(
        rows,
        key=lambda row: (
            row.key.environment,
            shared_estimator(row) == ALONE,
            shared_estimator(row),
            row.key.stage,
            settings.index(row.key.setting),
            row.key.k,
            row.key.n,
            method_order(row),
        ),
    )


def shared_estimator(row: GradientRow) -> str:
    """The estimator whose baselines are compared with each other, or `ALONE`."""
    return row.key.estimator if row.key.method.takes_baseline else ALONE


def method(row: GradientRow) -> str:
    """The name that tells the row from others of its table: the baseline, else the estimator."""
    return row.key.estimator if shared_estimator(row) == ALONE else row.key.baseline


def method_order(row: GradientRow) -> tuple[int, int, str]:
    """A key that sorts the methods of a table as the catalogue lists them."""
    estimator, baseline, _ = row.key.method.catalogue_order
    return estimator, baseline, method(row)


def is_oracle(row: GradientRow) -> bool:
    """Whether its baseline is fitted to every possible group of samples.

    A report compares with an oracle, and no training can have it.
    """
    return row.key.method.fit == "oracle"
