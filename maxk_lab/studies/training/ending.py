"""The end of a training: the ways of decoding and their costs, gaps, quantiles, outlier seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, Range
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds.apart import FALSE_ALARM, outlying
from maxk_lab.statistics.seeds.over_seeds import floats, of_instances, of_means
from maxk_lab.statistics.seeds.two_level import (
    QUANTILES,
    improvement,
    iqm_interval,
    probability_interval,
    quantile_interval,
)
from maxk_lab.statistics.units import Array
from maxk_lab.studies.training.pairs import seed_pairs, why_not_paired
from maxk_lab.studies.training.record import Final, Metrics
from maxk_lab.studies.training.row import (
    Apart,
    AtTemperature,
    Measures,
    Optimum,
    Robust,
    Trained,
    TrainingRow,
    Way,
)

# The extras of a record in reading order, and their headings.
EXTRAS = {
    "greedy": "greedy",
    "greedy_augmented": "greedy, best of 8 augmentations",
    "greedy_multistart": "greedy, best of all forced starts",
    "multistart_sampling": "best sample over forced starts",
    "greedy_multistart_augmented": "greedy, best of all forced starts × 8 augmentations",
}
# The one in which POMO's authors decode (arXiv 2010.16011, section 4).
POMO_WAY = "greedy_multistart_augmented"


def sampled_at(temperature: float) -> str:
    """The name of sampling at a temperature among the ways."""
    return f"T={str(temperature).removesuffix('.0')}"


# The policy as it was trained.
SAMPLED = sampled_at(1.0)


def at_temperatures(metrics: Metrics) -> dict[float, AtTemperature]:
    """The policy sampled at each temperature, in ascending order."""
    finals = {1.0: metrics.final} | {float(t): final for t, final in metrics.tempered.items()}
    tuning = {float(t): floats(means) for t, means in metrics.tuning.tempered.items()}
    return {t: _at(finals[t], tuning.get(t, ())) for t in sorted(finals)}


def ways(metrics: Metrics) -> dict[str, Way]:
    """Every way: sampling at each temperature at all samples, then the extras that have a value."""
    found = {
        sampled_at(t): Way(
            each.per_instance[len(each.means)],
            len(each.means),
            each.tuning[-1] if each.tuning else None,
        )
        for t, each in at_temperatures(metrics).items()
    }
    for name in EXTRAS:
        extra = metrics.extras.get(name)
        if extra is not None and extra.value is not None:
            tuned = metrics.tuning.extras.get(name)
            found[name] = Way(tuple(floats(extra.per_instance)), extra.trajectories, tuned)
    return found


def per_instance(final: Final) -> Mapping[int, tuple[float, ...]]:
    """The values of every instance at the K that are kept."""
    return {k: tuple(floats(row)) for k, row in zip(final.ks, final.per_instance, strict=True)}


def _at(final: Final, tuning: Sequence[float]) -> AtTemperature:
    return AtTemperature(tuple(final.means), per_instance(final), tuple(tuning))


# Rewards are sums in single precision; the same tour from another city differs in its last bits:
# values that are so near to each other, relative to their size, are the same.
ROUNDING = 1e-6


def gap(values: Sequence[float] | Array, optima: Sequence[float]) -> Array:
    """The optimality gaps [I] of rewards [I] in percent: 100 (optimum − value) / |optimum|.

    Costs are rewards below zero, so 0 is optimal and higher is worse there as elsewhere. NaN where
    the optimum is 0. Within rounding of the optimum it is 0.
    """
    best = np.asarray(optima, dtype=float)
    found = (best - np.asarray(values, dtype=float)) / np.where(best == 0, np.nan, np.abs(best))
    rounded: Array = 100 * np.where(np.abs(found) <= ROUNDING, 0.0, found)
    return rounded


def trained(metrics: Metrics) -> Trained:
    """The end of one seed."""
    final, during = metrics.final, metrics.evaluations
    return Trained(
        tuple(floats(final.value)),
        per_instance(final),
        tuple(floats(metrics.optima.per_instance)),
        metrics.data.instances,
        at_temperatures(metrics),
        ways(metrics),
        during=tuple(dict(zip(during.ks, floats(values), strict=True)) for values in during.value),
    )


def measures(
    metrics: Sequence[Metrics], ends: Sequence[Trained], level: float, within: Range
) -> Measures:
    """The measures of a row, from the metrics of every seed and its end; rewards lie `within`."""
    quantiles = {
        name: of_means([m.quantiles[name].mean for m in metrics], level, within)
        for name in QUANTILES
        if all(name in m.quantiles for m in metrics)
    }
    optimum = _optimum(metrics)
    decoded = _ways(metrics, ends, level, within)
    gaps = _gaps(ends, optimum, level, gap_range(optimum, within))
    costs = {name: way.trajectories for name, way in ends[0].ways.items() if way.trajectories}
    return Measures(optimum, quantiles, decoded, gaps, costs)


def _optimum(metrics: Sequence[Metrics]) -> Optimum:
    """The way in which the optima of all seeds are known; none where some seed lacks them."""
    found = [m.optima for m in metrics]
    missing = next((each for each in found if each.kind == "none"), None)
    if missing is not None:
        return Optimum("none", reason=missing.reason)
    kinds = ", ".join(dict.fromkeys(each.kind for each in found))
    return Optimum(kinds, exact=all(each.exact for each in found))


def _ways(
    metrics: Sequence[Metrics], ends: Sequence[Trained], level: float, within: Range
) -> dict[str, Interval]:
    """The mean of every way of decoding, the extras with a reason where they have none."""
    found = {
        sampled_at(t): of_means([end.tempered[t].means[-1] for end in ends], level, within)
        for t in ends[0].tempered
    }
    for name in EXTRAS:
        if any(name not in m.extras for m in metrics):
            continue
        parts = [m.extras[name] for m in metrics]
        reasons = [part.reason or "not defined" for part in parts if part.value is None]
        found[name] = (
            undefined(level, reasons[0])
            if reasons
            else of_means([part.mean for part in parts], level, within)
        )
    return found


def _gaps(
    ends: Sequence[Trained], optimum: Optimum, level: float, within: Range
) -> dict[int | str, Interval]:
    """The gap at every K that has values per instance, and in every other way that has any."""
    if optimum.kind == "none":
        return {}
    values: dict[int | str, list[tuple[float, ...]]] = {
        k: [end.per_instance[k] for end in ends] for k in ends[0].per_instance
    }
    for name in ends[0].ways:
        if name != SAMPLED and all(name in end.ways for end in ends):
            values[name] = [end.ways[name].per_instance for end in ends]
    optima = [end.optima for end in ends]
    return {
        name: gap_of_seeds(of_seeds, optima, level, within) for name, of_seeds in values.items()
    }


def gap_range(optimum: Optimum, rewards: Range) -> Range:
    """No gap to a proven optimum is below 0, and of rewards from 0 on none is above 100 %.

    The best known may be beaten.
    """
    if not optimum.exact:
        return ANYWHERE
    return Range(0.0, 100.0) if rewards.low >= 0 else NOT_NEGATIVE


def gap_of_seeds(
    values: Sequence[Sequence[float]],
    optima: Sequence[Sequence[float]],
    level: float,
    within: Range,
) -> Interval:
    """The gap in percent of values [S, I] of S seeds, mean over instances; it lies `within`."""
    if any(0 in best for best in optima):
        return undefined(
            level, "the optimum of an instance is 0: a gap in percent of it is not defined"
        )
    return of_instances(
        [gap(mine, best).tolist() for mine, best in zip(values, optima, strict=True)],
        level,
        within,
    )


def gap_difference(row: TrainingRow, other: TrainingRow, k: int, level: float) -> Interval:
    """The gap of `row` at K = k minus that of `other`, which has the same seeds and instances."""
    pairs = seed_pairs(row, other)
    if not all(one.optima and k in one.per_instance for pair in pairs for one in pair):
        return undefined(level, f"no optima, or no values per instance, at K = {k}")
    gaps = [[gap(one.per_instance[k], one.optima) for one in pair] for pair in pairs]
    optima = [each.measures.optimum for each in (row, other) if each.measures is not None]
    known = min(optima, key=lambda optimum: optimum.exact, default=Optimum("none"))
    # Of rewards whose range is known it is on the same scale as their difference: of rewards of 0
    # or 1 the two are one quantity.
    within = gap_range(known, row.within).of_differences
    return of_instances([(mine - theirs).tolist() for mine, theirs in gaps], level, within)


def with_seeds_apart(row: TrainingRow) -> TrainingRow:
    """The row with the seeds that ended apart at K = 1 or at all samples, the two ends of a curve.

    Each end has half of the rate of false alarms.
    """
    ends = sorted({*row.ks[:1], *row.ks[-1:]})
    seeds = sorted(row.by_seed)
    found = []
    for k in ends:
        values = [row.by_seed[seed].curve[k - 1] for seed in seeds]
        which = outlying(values, _noise(list(row.by_seed.values()), k), FALSE_ALARM / len(ends))
        if which is not None:
            others = values[:which] + values[which + 1 :]
            found.append(Apart(seeds[which], k, values[which], min(others), max(others)))
    return replace(row, apart=tuple(found))


def _noise(seeds: Sequence[Trained], k: int) -> float:
    """The spread between seeds that the instances of each explain; 0 where all share them."""
    known = {seed.instances for seed in seeds}
    if len(known) == 1 and known.isdisjoint({None, ""}):
        return 0.0
    from scipy import stats

    errors = [float(stats.sem(seed.per_instance[k])) for seed in seeds]
    return float(np.sqrt(np.mean(np.square(errors))))


def with_robust(row: TrainingRow, rows: Sequence[TrainingRow], level: float) -> TrainingRow:
    """The row with its robust summary, where all seeds finished."""
    if row.measures is None or not row.ks:
        return row
    k = row.ks[-1]
    known = row.measures.optimum.kind != "none" and all(
        np.all(np.array(seed.optima) != 0) for seed in row.by_seed.values()
    )
    values = np.array([_worth(row.by_seed[seed], k, known) for seed in sorted(row.by_seed)])
    within = gap_range(row.measures.optimum, row.within) if known else row.within
    found = Robust(
        "gap" if known else f"max@{k}",
        iqm_interval(values, level=level, within=within),
        {
            name: quantile_interval(values, q, level=level, within=within)
            for name, q in QUANTILES.items()
        },
    )
    if row.compared_with:
        other = next(
            each for each in rows if each.key.path == row.compared_with and _shares_place(each, row)
        )
        found = replace(found, improvement=improvement_over(row, other, k, level))
    return replace(row, robust=found)


def improvement_over(row: TrainingRow, other: TrainingRow, k: int, level: float) -> Interval:
    """P(Max@k of `row` on an instance of a seed is higher than that of `other`), ties half.

    Paired by instance and seed. Every optimum is that of both rows, so for gaps it is the same.
    Values within rounding of each other are ties: else of two rows that both found the optimum,
    that which found it in more ways would win.
    """
    reason = why_not_paired(row, other, k)
    if not reason and any(
        k not in each.per_instance for pair in seed_pairs(row, other) for each in pair
    ):
        reason = f"no values per instance at K = {k}"
    if reason:
        return undefined(level, reason)
    pairs = [
        (np.array(mine.per_instance[k]), np.array(theirs.per_instance[k]))
        for mine, theirs in seed_pairs(row, other)
    ]
    wins = [
        improvement(np.where(np.isclose(mine, theirs, rtol=ROUNDING, atol=0), theirs, mine), theirs)
        for mine, theirs in pairs
    ]
    return probability_interval(np.array(wins), level=level)


def _worth(seed: Trained, k: int, known: bool) -> Array:
    values: Array = np.array(seed.per_instance[k])
    return gap(values, seed.optima) if known else values


def _shares_place(row: TrainingRow, other: TrainingRow) -> bool:
    return (row.key.environment, row.key.n) == (other.key.environment, other.key.n)
