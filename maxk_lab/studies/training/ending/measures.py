"""Training records → the end of a training besides Max@K: quantiles, extras, optimality gaps."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, Range
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds.over_seeds import floats, of_instances, of_means
from maxk_lab.statistics.seeds.two_level import QUANTILES
from maxk_lab.studies.training.ending.gap import gap
from maxk_lab.studies.training.ending.ways import (
    EXTRAS,
    SAMPLED,
    at_temperatures,
    per_instance,
    sampled_at,
    ways,
)
from maxk_lab.studies.training.record import Metrics
from maxk_lab.studies.training.row.comparison import seed_pairs
from maxk_lab.studies.training.row.model import Measures, Optimum, Trained, TrainingRow


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
