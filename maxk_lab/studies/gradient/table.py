"""Rows of a gradient study pooled over seeds, their numbers, comparisons and verdicts on claims.

The families that are corrected together: the baselines of each place against the lowest, the
estimators of each gradient against the lowest, baselines against none, and the tests of bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.ranges import Range
from maxk_lab.reports.claims import ClaimVerdict, Verdict, combined, shown, side
from maxk_lab.reports.document import number
from maxk_lab.reports.naming import NOT_PROVED, Setting, environment_label, setting_of
from maxk_lab.reports.tables import ROUNDING, Pooled, grouped, members_by_key
from maxk_lab.statistics.bias import LEAST_P, LEAST_SIGNAL, BiasVerdict, bias_verdicts
from maxk_lab.statistics.deviations import LEAST_CARRYING
from maxk_lab.statistics.estimates import stratified_mean
from maxk_lab.statistics.families import Comparison, Family
from maxk_lab.statistics.intervals import Interval, exactly, interval, undefined
from maxk_lab.statistics.log_ratios import (
    RARE_GROUPS,
    UNPAIRED,
    log_ratio,
    stays_less,
    typical_ratio,
    typical_relative_variance,
)
from maxk_lab.statistics.measures import MEASURES, NEW, Question, group_names, measures_of
from maxk_lab.statistics.seeds import skewed_mean
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.record import Metrics
from maxk_lab.studies.gradient.row import (
    ALONE,
    FOUND_BIASED,
    ROUNDED,
    GradientKey,
    GradientRow,
    OverLeast,
    ProxyKey,
    ProxyRow,
    is_oracle,
    method_order,
    same_mean,
    shared_estimator,
)
from maxk_lab.sweep_file.claims import Claim, evaluate_value

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record

# The distance of the policy that samples from the policy of the gradient.
DISTANCE = "behaviour.distance"
# Measures of every row, measured or undefined.
ALWAYS = tuple(
    row.name for row in measures_of("gradient") if row.source == "moments" and row.heading
)
# Measures of some studies only.
SOMETIMES = (*group_names("gradient", "weights", "value"), *group_names("gradient", "ratios"))
_SQUARED_NORM = MEASURES.get("variance").unit
# A tracker has one run for the policy of a stage and seed, in each setting.
ONE_RUN_PER = ("stage", "setting")
# Above, an exponential is more than a number can be.
_MOST = 700.0
# The baseline that is the best possible.
_OPTIMUM = "joint_optimum"
# So many pairs are compared with the reference, for the time it takes.
_PAIRS = 2000
_NOT_SEEN = ("no bias seen", "unbiased")
# Chance shows a bias in one report of twenty. It is told there, but a claim that is true by proof
# must not be refuted as often.
_REFUTES_AT = 0.2
ALARM = (
    "rejected although proven unbiased: the pool misses trajectories that carry the gradient, or "
    "sampling is not i.i.d."
)
# Why two rows are not significantly different: their variances are equal but for rounding, ...
SAME = "equal on every instance"
FEW = "too few effective instances to speak of new ones"


def key(cell: Mapping[str, Any]) -> GradientKey:
    """The key of the row of a cell."""
    return GradientKey.of(cell, stage=cell["stage"], setting=_setting(cell))


def pool(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], *, level: float, alpha: float
) -> Pooled[GradientRow]:
    """The rows of the planned cells, and the rows of the proxies."""
    read = {cell["id"]: Metrics.of(done[cell["id"]]) for cell in cells if cell["id"] in done}
    rows = [_pooled(*members, read, level) for members in members_by_key(cells, done, key)]
    places = grouped(cells, lambda cell: (environment_label(cell), _setting(cell), cell["stage"]))
    proxies = tuple(_proxy_rows(places, read, level))
    return Pooled(tuple(rows), proxies=proxies)


def _setting(cell: Mapping[str, Any]) -> Setting:
    """The varied values, with the distance of the policy that samples unless it is 0."""
    setting, distance = setting_of(cell), cell.get("behaviour", {}).get("distance", 0.0)
    varied = not distance or DISTANCE in dict(setting)
    return setting if varied else (*setting, (DISTANCE, distance))


def _unbiased(key: GradientKey) -> bool:
    """Whether the estimate is unbiased by proof, with the policy that samples."""
    method = key.method
    # Samples of another policy need importance ratios.
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
    references = {m.against for m in metrics}
    row = GradientRow(
        key=key,
        cells={cell["seed"]: cell["id"] for cell in cells},
        finished=tuple(done),
        intervals={},
        bias=BiasVerdict("undefined"),
        catalogued_unbiased=_unbiased(key),
        instances=cells[0]["instances"],
        pool=cells[0]["pool"],
        # Near the limit of enumeration some groups are enumerated and some are sampled.
        against="exact"
        if references == {"complete", "exact"}
        else " and ".join(sorted(references)),
    )
    several = " and " in row.against
    reason = "the seeds were measured in different ways and cannot be pooled" if several else ""
    if reason := row.unfinished or reason:
        return replace(
            row,
            intervals={measure: undefined(level, reason) for measure in ALWAYS},
            bias=BiasVerdict("undefined", reason=reason),
        )
    units = Units.pool([_units(m, row.pool) for m in metrics])
    if dict(key.setting).get(DISTANCE) == 0:
        # Without another policy the importance ratios are exactly 1.
        count = len(units.m2)
        needing = [measure for measure in measures_of("gradient") if measure.needs == "behaviour"]
        ratios = {measure.name: np.full(count, measure.on_policy) for measure in needing}
        errors = {**units.errors, **{name: np.zeros(count) for name in ratios}}
        units = replace(units, measures={**units.measures, **ratios}, errors=errors)
    measured = (*ALWAYS, *(name for name in SOMETIMES if name in units.measures))
    intervals = {name: _measure(units, name, level) for name in measured}
    if units.no_signal:
        # A row without units has no comparisons.
        verdict = BiasVerdict("undefined", reason=units.no_signal)
        return replace(row, intervals=intervals, bias=verdict, no_signal=units.no_signal)
    return replace(
        row,
        intervals=intervals,
        units=units,
        typical=typical_relative_variance(units, unbiased=row.catalogued_unbiased, level=level),
        carrying=units.effective_instances(),
    )


def _units(metrics: Metrics, pool: int) -> Units:
    """The units of a record; `carrying` from the older `tested_from` where it lacks that."""
    units = Units.of(metrics)
    if units.carrying is not None or metrics.tested_from is None:
        return units
    least = np.array(metrics.tested_from, dtype=float)
    with np.errstate(divide="ignore"):
        carrying = np.nan_to_num(LEAST_CARRYING * pool / least, nan=0.0, posinf=pool)
    return replace(units, carrying=carrying)


def _measure(units: Units, name: str, level: float) -> Interval:
    value = interval(units, name, level=level)
    constant = name in ALWAYS or (name in group_names("gradient", "value") and value.width == 0)
    return undefined(level, units.no_signal) if units.no_signal and constant else value


def estimates(row: GradientRow | ProxyRow) -> dict[str, Interval]:
    """The measures of a row, its ratios to other rows, and its counts."""
    if isinstance(row, ProxyRow):
        counts = {"instances": row.instances, "instances_without": row.without}
        exact = {name: exactly(count) for name, count in counts.items()}
        return {"correlation": _with_ends(row.correlation)} | exact
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
    exact = {name: exactly(value) for name, value in numbers.items() if not math.isnan(value)}
    return {name: _with_ends(each) for name, each in measured.items()} | exact


def _with_ends(value: Interval) -> Interval:
    """The interval; undefined if it has no ends, as in every table."""
    return value if value.known else undefined(value.level, value.reason or "no interval")


def rounding(row: GradientRow, name: str) -> float:
    """The rounding error of a squared norm, a small difference of large numbers.

    For an enumerated bias it is the precision of the policy, as in the verdict on bias.
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
    """Yield a row for each proxy in the records of a place.

    All cells of a stage and seed share one pool, so any of their records has its correlations.
    """
    for (environment, setting, stage), cells in places.items():
        seeds: dict[int, str] = {}
        for cell in sorted(cells, key=lambda cell: int(cell["seed"])):
            has_proxies = cell["id"] in read and bool(read[cell["id"]].proxies)
            seeds[cell["seed"]] = seeds.get(cell["seed"]) or (cell["id"] if has_proxies else "")
        by_seed = [read[cell].proxies for cell in seeds.values() if cell]
        for proxy in dict.fromkeys(name for proxies in by_seed for name in proxies):
            values = [proxies[proxy] for proxies in by_seed if proxy in proxies]
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
    """The rows by environment, estimator, stage, setting, K, n and the order of methods.

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


def judged(pooled: Pooled[GradientRow], *, level: float, alpha: float) -> Pooled[GradientRow]:
    """The rows with their verdicts on bias, their ratios to others, and the lowest marked.

    `best` is set on at most one row of a contest: the one that is significantly lower than every
    other candidate (see `_line`). The level is Bonferroni over all these comparisons of the sweep,
    so the probability of any wrong mark is at most `alpha`. Without a known lowest there is none.

    Every row of the group has its ratio to the lowest. The best possible is the joint optimum of
    the same environment, setting, stage, n and objective. A row derived biased has no ratio to it:
    a shorter or a wrong gradient may well have less variance.
    """
    units = {row.key: row.units for row in pooled.rows if row.units}
    verdicts = bias_verdicts(units, alpha=alpha)
    rows = [
        replace(row, bias=_verdict(row, verdicts.get(row.key, row.bias))) for row in pooled.rows
    ]
    found = contests(rows)
    family = _family_of_best(found, alpha)
    groups = grouped(rows, lambda row: row.key.group)
    over: dict[GradientKey, OverLeast] = {}
    best: set[GradientKey] = set()
    for one in found:
        if (least := one.least) is None:
            continue
        lines = {row.key: _line(family, row, least, level) for row in one.others}
        if all(line.verdict == "worse" for line in lines.values()):
            best.add(least.key)
        for row in groups[least.key.group]:
            if row is not least and row.units is not None:
                line = lines.get(row.key) or _compared(family, row, least, level)
                over[row.key] = _over_least(row, least, line)
    for row, least in _not_proved(rows, over):
        over[row.key] = _over_least(row, least, _compared(family, row, least, level))
    optima = {
        (row.key.gradient, row.key.n): row
        for row in rows
        if row.key.method.baseline.row.name == _OPTIMUM
    }
    return replace(
        pooled,
        rows=tuple(
            replace(
                row,
                best=row.key in best,
                over_least=over.get(row.key),
                over_best=_over_best(row, optima.get((row.key.gradient, row.key.n)), level),
            )
            for row in rows
        ),
    )


def _over_least(row: GradientRow, least: GradientRow, line: Comparison) -> OverLeast:
    """The variance of a row over the lowest; no median where groups that decide it are missing."""
    assert row.units is not None
    assert least.units is not None
    level = line.interval.level
    typical = typical_ratio(row.units, least.units, level=level)
    if line.interval.reason == RARE_GROUPS:
        typical = replace(typical, median=undefined(level, RARE_GROUPS))
    return OverLeast(least.key.baseline, line, typical)


def _not_proved(
    rows: Sequence[GradientRow], over: Mapping[GradientKey, OverLeast]
) -> Iterator[tuple[GradientRow, GradientRow]]:
    """Yield rows of the user's own that lack a ratio, each with the lowest unbiased row.

    Both estimate one gradient with the same n.
    """
    groups = grouped(rows, lambda row: (row.key.gradient, row.key.n)).values()
    for group in groups:
        fair = [
            row
            for row in group
            if row.catalogued_unbiased and row.units is not None and not is_oracle(row)
        ]
        for row in group:
            if row.units is not None and row.bias_state == NOT_PROVED and row.key not in over:
                yield from ((row, least) for least in sorted(fair, key=_variance)[:1])


def _verdict(row: GradientRow, found: BiasVerdict) -> BiasVerdict:
    """The verdict on a row; a test that rejects what is unbiased by proof is an alarm.

    Enumeration proves a bias: there the derivation itself is refuted.
    """
    if not row.catalogued_unbiased or row.enumerated or found.verdict not in FOUND_BIASED:
        return found
    return replace(found, verdict="alarm", reason=ALARM)


def _over_best(row: GradientRow, optimum: GradientRow | None, level: float) -> Interval | None:
    if optimum is None or not row.catalogued_unbiased:
        return None
    if row.key == optimum.key:
        return Interval(1.0, 1.0, 1.0, level)
    if row.units is None or optimum.units is None:
        return undefined(level, (row if row.units is None else optimum).bias.reason)
    return ratio(row, optimum, level)


def ratio(
    row: GradientRow,
    other: GradientRow,
    level: float,
    measure: str = "variance",
    about: Question | None = None,
    *,
    alike: bool = False,
) -> Interval:
    """The paired ratio of a measure of the row to that of the other; `alike`: of one mean."""
    assert row.units is not None
    assert other.units is not None
    found = log_ratio(
        row.units, other.units, measure=measure, level=level, same_mean=alike, question=about
    )
    return found.mapped(lambda value: math.inf if value > _MOST else math.exp(value))


def _compared(family: Family, row: GradientRow, other: GradientRow, level: float) -> Comparison:
    """The variance of a row over that of another, without a verdict."""
    return Comparison(
        family.name,
        row.key.path,
        other.key.path,
        "variance",
        ratio(row, other, level),
        ratio=True,
        paired="seed and instance",
        comparisons=family.size,
        alpha=family.alpha,
    )


def _line(family: Family, row: GradientRow, other: GradientRow, level: float) -> Comparison:
    """The variance of a row over that of another: worse, unless something speaks against it.

    Two paired intervals about instances like these have to agree that the other has less: that of
    the ratio of mean variances, and that of the median over instances of their ratio; and the tail
    of the ratios, were it missing, must not undo it (`stays_less`). The line is `fixed` where too
    few instances carry a mean, and on most of those measured the other has less.
    """
    line = _compared(family, row, other, level)
    assert row.units is not None
    assert other.units is not None
    mean = log_ratio(other.units, row.units, level=family.level)
    if not mean.known:
        unpaired = "enumerated and sampled rows make no pairs"
        reasons = {UNPAIRED: unpaired, RARE_GROUPS: RARE_GROUPS}
        reason = reasons.get(mean.reason, "the ratio has no interval")
        return replace(line, verdict="open", reason=reason)
    typical = typical_ratio(other.units, row.units, level=family.level)
    if not mean.high < -ROUNDED:
        same = typical.ties == typical.instances
        reason = SAME if same else "the corrected interval of the ratio includes 1"
    elif mean.question != NEW:
        few = 2 * typical.below > typical.instances
        return replace(line, verdict="tied", reason=FEW, fixed=few)
    elif not typical.median.high < 1 - ROUNDED:
        reason = "mean and median over instances disagree"
    elif not stays_less(other.units, row.units):
        reason = "one more outlier instance could undo it"
    else:
        return replace(line, verdict="worse")
    return replace(line, verdict="tied", reason=reason)


@dataclass(frozen=True)
class Contest:
    """The unbiased baselines of one estimator at one size, setting and stage; oracles have none."""

    rows: tuple[GradientRow, ...]

    @cached_property
    def candidates(self) -> list[GradientRow]:
        """The rows that were not found biased."""
        return [row for row in self.rows if row.bias.verdict not in FOUND_BIASED]

    @cached_property
    def least(self) -> GradientRow | None:
        """The candidate of lowest variance; None where there is nothing to compare.

        Nor where one is unfinished, and so has no variance: the missing row could have been better.
        """
        variances = [_variance(row) for row in self.candidates]
        if len(variances) < 2 or any(map(math.isnan, variances)):
            return None
        return min(self.candidates, key=_variance)

    @property
    def others(self) -> list[GradientRow]:
        """The candidates but for the least, by their variance."""
        return sorted((row for row in self.candidates if row is not self.least), key=_variance)

    @property
    def against(self) -> list[GradientRow]:
        """The rows that do not differ significantly from the least, and are not the same as it."""
        return [row for row in self.others if _reason(row) not in ("", SAME)]

    @property
    def top(self) -> tuple[str, ...]:
        """The least, and those that are the same as it on every instance, in their usual order."""
        same = (row for row in self.candidates if row is self.least or _reason(row) == SAME)
        return tuple(row.key.baseline for row in same)

    @property
    def one(self) -> bool:
        """All are the same on every instance, so that there is nothing to choose."""
        return len(self.top) == len(self.candidates)

    @cached_property
    def tied(self) -> list[GradientRow]:
        """The least, and the rows that tie with it.

        A row ties where no test says that it has more variance: neither the one that is corrected
        for many, nor its own interval. Rows that lie far above are none, however few their
        instances are.
        """
        if self.least is None:
            return []
        return [self.least, *(row for row in self.others if row.over_least and row.over_least.ties)]

    @property
    def clear(self) -> bool:
        """The `top` differs significantly from all others."""
        return not self.against and not self.one

    @property
    def here(self) -> bool:
        """It is so on the instances that were measured, and nothing can be said of others."""
        lines = [row.over_least.line for row in self.against if row.over_least is not None]
        return bool(lines) and all(line.fixed for line in lines)


def _variance(row: GradientRow) -> float:
    return row.intervals["variance"].value


def _reason(row: GradientRow) -> str:
    """Why the row is not significantly above the least; empty where it is, and of the least."""
    return "" if row.over_least is None else row.over_least.line.reason


def contests(rows: Sequence[GradientRow]) -> list[Contest]:
    """The contests of two baselines and more, in the order of the rows."""
    return _contests(rows, lambda row: row.key.group)


def _contests(rows: Sequence[GradientRow], key: Callable[[GradientRow], Any]) -> list[Contest]:
    """Those of the rows that are unbiased by their formula and can be trained with."""
    fair = (row for row in rows if row.catalogued_unbiased and not is_oracle(row))
    return [Contest(tuple(group)) for group in grouped(fair, key).values() if len(group) > 1]


def simplest(rows: Sequence[GradientRow]) -> GradientRow:
    """The row to use of those that tie: the first in the catalogue that needs rewards alone.

    Where none is such, the first of the rows.
    """
    plain = [row for row in rows if row.key.method.needs_rewards_alone]
    return min(plain, key=lambda row: row.key.method.catalogue_order) if plain else rows[0]


def _family_of_best(found: Sequence[Contest], alpha: float) -> Family:
    return Family("best", sum(max(0, len(one.candidates) - 1) for one in found), alpha)


def compare(pooled: Pooled[GradientRow], *, level: float, alpha: float) -> Iterator[Comparison]:
    """The lines of every family, each with the interval of its comparison alone at `level`.

    The baselines of each contest against the lowest; the lowest of all unbiased estimators of one
    gradient against those of other estimators; the baselines of more variance than no baseline at
    all against that; the bias of every row against 0, relative to the length of the gradient.
    """
    rows, found = pooled.rows, contests(pooled.rows)
    for one in found:
        lines = [row.over_least.line for row in one.candidates if row.over_least is not None]
        yield from lines
        if one.least is not None:
            yield Comparison(
                "best",
                one.least.key.path,
                "",
                "variance",
                Interval(1.0, 1.0, 1.0, level),
                "lowest" if one.least.best else "tied",
                ratio=True,
                comparisons=lines[0].comparisons,
                alpha=alpha,
            )
    pairs = [
        (row, several.least)
        for several in _contests(rows, lambda row: (row.key.gradient, row.key.n))
        for row in several.candidates
        if several.least is not None and row.key.estimator != several.least.key.estimator
    ]
    family = Family("best estimator", len(pairs), alpha)
    yield from (_line(family, *pair, level) for pair in pairs)
    pairs = [
        (row, none)
        for one in found
        for none in one.candidates
        for row in one.candidates
        if none.key.baseline == "none" and row is not none and row.units and none.units
    ]
    family = Family("reference", len(pairs), alpha)
    # Of most the mean alone says that they are no worse than none, which takes no interval.
    more = [pair for pair in pairs[:_PAIRS] if _variance(pair[0]) > _variance(pair[1])]
    yield from (_line(family, *pair, level) for pair in more)
    tested = sum(not math.isnan(row.bias.p_value) for row in rows)
    for row in rows:
        bias = row.bias
        yield Comparison(
            "bias",
            row.key.path,
            "",
            "relative_bias",
            Interval(bias.relative_bias, math.nan, bias.at_most, 1 - alpha),
            bias.verdict,
            p_adjusted=bias.p_value,
            reason=bias.reason,
            comparisons=tested,
            alpha=alpha,
        )


def effect(row: GradientRow, other: GradientRow, name: str, level: float) -> Comparison | None:
    """The ratio of a measure, paired by seed and instance where both rows have the same."""
    if name not in row.intervals or name not in other.intervals or not _paired(row, other):
        return None
    found = ratio(row, other, level, name)
    paths = row.key.path, other.key.path
    paired = Comparison("run", *paths, name, found, ratio=True, paired="seed and instance")
    return paired if found.known else None


def _paired(row: GradientRow, other: GradientRow) -> bool:
    """Whether the instances are the same: they are drawn by environment and seed."""
    there = row.units is not None and other.units is not None
    alike = all(
        getattr(row.key, axis) == getattr(other.key, axis) for axis in ("environment", "setting")
    )
    return there and alike and row.finished == other.finished and row.instances == other.instances


def judge(claim: Claim, met: Sequence[tuple[GradientRow, ...]], alpha: float) -> ClaimVerdict:
    """The verdict on a claim that meets these rows, or pairs or lists of them."""
    for row in (row for found in met for row in found):
        if row.units is None:
            return ClaimVerdict("undecided", f"{row.key.path}: {row.bias.reason}")
        if row.bias.verdict == "alarm":
            return ClaimVerdict("undecided", _evidence(row))
    if claim.kind in ("ratio", "order"):
        return _judge_ratios(claim, met, alpha)
    rows = [row for (row,) in met]
    if claim.kind == "unbiased":
        return _judge_unbiased(claim, rows, alpha)
    if claim.kind == "biased":
        return _judge_biased(claim, rows)
    return _judge_equals(claim, rows, alpha)


def _judge_unbiased(claim: Claim, met: Sequence[GradientRow], alpha: float) -> ClaimVerdict:
    """Refuted by a bias that was found, supported where none was and the claimed one would be.

    A bias that was found, but not at a fifth of the level, leaves it undecided.
    """
    count, level = len(met), _REFUTES_AT * alpha
    if biased := [row for row in met if row.bias.verdict in FOUND_BIASED]:
        # Enumerated rows first, then the smallest p-value.
        worst = min(
            biased,
            key=lambda row: (-1.0 if row.enumerated else row.bias.p_value, -row.bias.relative_bias),
        )
        text = f"{len(biased)} of {count} rows biased, most clearly {_evidence(worst)}"
        if worst.enumerated or worst.bias.p_value < level:
            return ClaimVerdict("refuted", text)
        return ClaimVerdict("undecided", f"{text}, which refutes below {level:g}")
    if unjudged := [row for row in met if row.bias.verdict not in _NOT_SEEN]:
        example = f"{unjudged[0].key.path}: {unjudged[0].bias.reason}"
        return ClaimVerdict(
            "undecided", f"{len(unjudged)} of {count} rows not judged, e.g. {example}"
        )
    seen = f"no bias seen in {count} rows"
    if untold := [row for row in met if math.isnan(row.bias.detectable)]:
        example = f"{untold[0].key.path}: {untold[0].bias.reason}"
        return ClaimVerdict("undecided", f"{seen}, but in {len(untold)} {example}")
    seen += "; the smallest bias along the gradient that could have been seen is at most "
    if all(row.enumerated for row in met):
        seen = f"unbiased by complete enumeration in {count} rows, to a relative bias of at most "
    widest = max(met, key=lambda row: row.bias.detectable)
    seen += f"{widest.bias.detectable:.2g} ({widest.key.path})"
    assert claim.detectable is not None
    if not widest.bias.detectable <= claim.detectable:
        return ClaimVerdict("undecided", f"{seen}, more than the {claim.detectable:g} asked for")
    return ClaimVerdict("supported", seen)


def _judge_biased(claim: Claim, met: Sequence[GradientRow]) -> ClaimVerdict:
    """Supported where every row has the claimed bias.

    Enumeration decides every row. A test refutes only by finding the other kind where it proves it:
    a bias off the gradient, where one of scale alone was claimed; a bias that it does not see
    leaves the claim undecided.
    """
    wanted = "biased" if claim.bias == "direction" else "scale bias"
    verdicts: list[ClaimVerdict] = []
    for row in met:
        proven = row.enumerated and row.bias.verdict in (*FOUND_BIASED, *_NOT_SEEN)
        verdict: Verdict = "refuted" if row.bias.verdict == "biased" or proven else "undecided"
        if row.bias.verdict == wanted:
            verdict = "supported"
        verdicts.append(ClaimVerdict(verdict, _evidence(row)))
    return combined(verdicts, "rows")


def _evidence(row: GradientRow) -> str:
    bias = row.bias
    text = f"{row.key.path}: {bias.verdict}"
    if bias.verdict in ("undefined", "reference", "alarm"):
        return f"{text} ({bias.reason})"
    if row.enumerated:
        return f"{text}, relative bias {number(bias.relative_bias)} by complete enumeration"
    if math.isnan(bias.p_value):
        return text
    sign, least = ("<", LEAST_P) if bias.p_value <= LEAST_P else ("=", bias.p_value)
    return f"{text}, p {sign} {least:.2g} (Holm)"


def _judge_equals(claim: Claim, met: Sequence[GradientRow], alpha: float) -> ClaimVerdict:
    """Supported where every interval lies within the tolerance, refuted where one lies outside."""
    level, verdicts, sampled = 1 - alpha / len(met), [], False
    for row in met:
        assert row.units is not None
        wanted = evaluate_value(claim.value, row.key.n, row.key.k, row.key.setting)
        found = interval(row.units, claim.measure, level=level)
        sampled = sampled or found.width > 0
        slack = claim.slack(wanted)
        low, high = wanted - slack, wanted + slack
        verdict: Verdict = "supported" if low <= found.low and found.high <= high else "undecided"
        if found.low > high or found.high < low:
            verdict = "refuted"
        text = f"{row.key.path}: {shown(found)}, claimed {number(wanted)} ± {slack:.3g}"
        verdicts.append(ClaimVerdict(verdict, text, found))
    return combined(verdicts, "intervals", alpha if sampled else None)


def _judge_ratios(
    claim: Claim, met: Sequence[tuple[GradientRow, ...]], alpha: float
) -> ClaimVerdict:
    """Judge each ratio by its paired interval, which may touch the bound.

    Of an order it is that of each row to the one before it, and must lie above 1; below, it
    refutes. Neighbours suffice, as the order goes from each to the next. Rows of different settings
    have other instances as their units: the ratio is then as good as one of independent rows, and
    its interval still covers.
    """
    pairs: list[tuple[GradientRow, ...]] = list(met)
    if claim.kind == "order":
        pairs = [(upper, lower) for rows in met for lower, upper in pairwise(rows)]
    level, verdicts = 1 - alpha / len(pairs), []
    for row, partner in pairs:
        alike = same_mean(row, partner)
        found = ratio(row, partner, level, claim.measure, claim.about, alike=alike)
        verdict = side(found, 1.0, None, strict=True)
        if claim.kind == "ratio":
            verdict = side(found, claim.at_least, claim.at_most)
        text = f"{row.key.path} over {partner.key.path}: {shown(found)}"
        verdicts.append(ClaimVerdict(verdict, text, found))
    return combined(verdicts, "ratios", alpha)
