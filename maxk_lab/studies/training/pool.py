"""Training records → rows pooled over seeds: Max@K during and after training, in every decoding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, SHARES, Range
from maxk_lab.report.naming import Setting
from maxk_lab.report.tables import ROUNDING, Estimate, Pooled, members_by_key
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds import (
    FALSE_ALARM,
    QUANTILES,
    ends_over_seeds,
    floats,
    iqm_interval,
    of_instances,
    of_means,
    outlying,
    over_instances,
    quantile_interval,
)
from maxk_lab.statistics.units import Array
from maxk_lab.studies.training.record import Final, Metrics, Optima
from maxk_lab.studies.training.row import (
    FORCED,
    OWN_TEMPERATURE,
    OWN_WAY,
    SAMPLED,
    Evaluation,
    Trained,
    TrainingKey,
    TrainingRow,
    place_setting,
    sampled_at,
)
from maxk_lab.sweeps.spec.environment import plain_words
from maxk_lab.training.settings import Settings
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

# The extras of a record in reading order, which estimate no Max@K. The last is the one in which
# POMO's authors decode (arXiv 2010.16011, section 4).
EXTRAS = (
    "greedy",
    "greedy_augmented",
    "greedy_multistart",
    "multistart_sampling",
    "greedy_multistart_augmented",
)
POMO_WAY = EXTRAS[-1]
# Rewards are sums in single precision; the same tour from another city differs in its last bits:
# values that are so near to each other, relative to their size, are the same.
SAME_REWARD = 1e-6


key = TrainingKey.of


def pool(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], *, level: float, alpha: float
) -> Pooled[TrainingRow]:
    """One row per key of the planned cells; `compare` sets them against each other."""
    rows = [_pooled(*found, level) for found in members_by_key(cells, done, key)]
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    return Pooled(tuple(sorted(rows, key=lambda row: _order(row, settings))))


def _order(row: TrainingRow, settings: Sequence[Setting]) -> tuple[Any, ...]:
    """A key that sorts by environment, n, K and the catalogue; settings as in the sweep file."""
    places = list(dict.fromkeys(map(place_setting, settings)))
    method = row.key.method
    estimator, baseline, _ = method.catalogue_order
    return (
        row.key.environment,
        places.index(place_setting(row.key.setting)),
        row.key.n,
        method.k,
        estimator,
        method.estimator.name,
        baseline,
        method.baseline.name,
        settings.index(row.key.setting),
    )


def _pooled(
    key: TrainingKey,
    cells: Sequence[Mapping[str, Any]],
    finished: Mapping[int, Record],
    level: float,
) -> TrainingRow:
    training = cells[0]["training"]
    # Of an evaluation file a cell has only the hash.
    evaluate = {name: value for name, value in training["evaluate"].items() if name != "data"}
    row = TrainingRow(
        key=key,
        cells={cell["seed"]: cell["id"] for cell in cells},
        finished=tuple(finished),
        catalogued_unbiased=key.method.is_unbiased,
        settings=Settings.from_mapping({**training, "evaluate": evaluate}),
        environment_words=visible_line(plain_words(cells[0]["environment"])),
    )
    if row.unfinished:
        return replace(row, reason=row.unfinished)
    metrics = [Metrics.of(record) for record in finished.values()]
    if len({_schedule(m) for m in metrics}) > 1:
        return replace(row, reason="the seeds were trained or evaluated in different ways")
    first, (within, passes) = metrics[0], _rewards(cells[0]["environment"])
    row = replace(
        row,
        within=within,
        passes=passes,
        steps=first.steps,
        rollouts=first.rollouts,
        optimum=_optimum([m.optima for m in metrics]),
        last=tuple(first.last),
    )
    decodings = {
        seed: _decodings(m, level, within) for seed, m in zip(finished, metrics, strict=True)
    }
    ks, decoded = tuple(first.final.ks), {}
    for name in next(iter(decodings.values())):
        if all(name in of_seed for of_seed in decodings.values()):
            ends = {seed: of_seed[name] for seed, of_seed in decodings.items()}
            samples = len(next(iter(ends.values())).curve)
            whole = name in (OWN_TEMPERATURE, FORCED)
            decoded[name] = _ended(row, ends, ks if whole else (samples,), level)
    clocks = [record.timings.get("evaluations_seconds", ()) for record in finished.values()]
    row = _ended(row, decoded[SAMPLED].by_seed, ks, level)
    return replace(
        row,
        evaluations=tuple(_evaluations(metrics, clocks, level, within)),
        log=_log(metrics, level, within),
        quantiles={
            name: of_means([m.quantiles[name].mean for m in metrics], level, within)
            for name in QUANTILES
            if all(name in m.quantiles for m in metrics)
        },
        decoded=decoded,
        ways=_ways(metrics, decoded, level),
        **_robust(row, level),
    )


def _ways(
    metrics: Sequence[Metrics], decoded: Mapping[str, TrainingRow], level: float
) -> dict[str, Interval]:
    """The mean of the best rewards in every way, with a reason where an extra has none."""
    lacking = {
        name: extra.reason or "not defined"
        for m in reversed(metrics)
        for name, extra in m.extras.items()
        if extra.value is None
    }
    measured = {name for name in EXTRAS if all(name in m.extras for m in metrics)}
    temperatures = [name for name in decoded if name.startswith("T=")]
    return {
        name: undefined(level, lacking[name]) if name in lacking else decoded[name].curve[-1]
        for name in (*temperatures, *EXTRAS)
        if name in temperatures or name in measured
    }


def _schedule(metrics: Metrics) -> tuple[Any, ...]:
    """All that seeds must share to be pooled: how far they were trained, and what was evaluated."""
    evaluated, final = metrics.evaluations, metrics.final
    lists = (metrics.last, evaluated.step, evaluated.rollouts, evaluated.ks, final.ks)
    return metrics.steps, metrics.rollouts, *map(tuple, lists)


def _rewards(environment: Mapping[str, Any]) -> tuple[Range, bool]:
    """The range of an environment's rewards, and whether all are 0 or 1.

    Nothing is known of one that is not installed here.
    """
    try:
        row = ENVIRONMENTS.get(environment["name"])
        return row.reward_range(environment), row.passes(environment)
    except (LabError, KeyError):
        return ANYWHERE, False


def _optimum(seeds: Sequence[Optima]) -> Optima:
    """The way in which the optima of all seeds are known; none where some seed lacks them."""
    missing = next((each for each in seeds if each.kind == "none"), None)
    if missing is not None:
        return Optima(kind="none", reason=missing.reason)
    kinds = ", ".join(dict.fromkeys(each.kind for each in seeds))
    return Optima(kind=kinds, reason="", exact=all(each.exact for each in seeds))


def _decodings(metrics: Metrics, level: float, within: Range) -> dict[str, Trained]:
    """The end of one seed in every decoding: at each temperature, the extras, and its own best."""
    final, tuning = metrics.final, metrics.tuning
    evaluations = metrics.evaluations
    base = Trained(
        (),
        {},
        optima=tuple(floats(metrics.optima.per_instance)),
        instances=metrics.data.instances,
        during=tuple(
            dict(zip(evaluations.ks, floats(values), strict=True)) for values in evaluations.value
        ),
    )
    finals = {1.0: final} | {float(t): other for t, other in metrics.tempered.items()}
    tuned = {float(t): tuple(floats(means)) for t, means in tuning.tempered.items()}
    sampled = {sampled_at(t): _sampled(base, finals[t], tuned.get(t, ())) for t in sorted(finals)}
    found = dict(sampled)
    for name in EXTRAS:
        extra, best = metrics.extras.get(name), tuning.extras.get(name)
        if extra is not None and extra.value is not None:
            found[name] = replace(
                base,
                curve=(extra.value,),
                means=(extra.mean,),
                per_instance={1: tuple(floats(extra.per_instance))},
                tuning=() if best is None else (best,),
            )
    if len(sampled) > 1 and all(each.tuning for each in sampled.values()):
        # Where K samples can be scored at no temperature, all are as good.
        chosen = {
            k: best_on_tuning({name: each.tuning[k - 1] for name, each in sampled.items()})
            or SAMPLED
            for k in range(1, len(final.value) + 1)
        }
        found[OWN_TEMPERATURE] = replace(
            base,
            curve=tuple(sampled[name].curve[k - 1] for k, name in chosen.items()),
            means=tuple(sampled[name].means[k - 1] for k, name in chosen.items()),
            per_instance={k: sampled[chosen[k]].per_instance[k] for k in final.ks},
            chosen=chosen,
        )
    if metrics.forced is not None:
        found[FORCED] = _sampled(base, metrics.forced, ())
    best_way = best_on_tuning({name: way.tuning[-1] for name, way in found.items() if way.tuning})
    if best_way is not None:
        way = found[best_way]
        values = way.per_instance[len(way.curve)]
        mean = over_instances(values, level, within)
        found[OWN_WAY] = replace(
            base,
            curve=(mean.value,),
            means=((mean.value, mean.low, mean.high),),
            per_instance={1: values},
            chosen={1: best_way},
        )
    return found


def _sampled(base: Trained, final: Final, tuning: tuple[float, ...]) -> Trained:
    return replace(
        base,
        curve=tuple(floats(final.value)),
        means=tuple(final.means),
        per_instance={
            k: tuple(floats(values)) for k, values in zip(final.ks, final.per_instance, strict=True)
        },
        tuning=tuning,
    )


def best_on_tuning(means: Mapping[str, float]) -> str | None:
    """The way with the highest mean on the tuning instances, the first of equals; NaN never is."""
    defined = [name for name, mean in means.items() if not math.isnan(mean)]
    return max(defined, key=lambda name: means[name], default=None)


def _ended(
    row: TrainingRow, ends: Mapping[int, Trained], ks: tuple[int, ...], level: float
) -> TrainingRow:
    """The row with these ends of its seeds, of which gaps and differences are told at `ks`."""
    seeds = list(ends.values())
    means = zip(*(end.means for end in seeds), strict=True)
    gaps = {
        k: _gap_of_seeds(seeds, k, level, gap_range(row.optimum, row.within))
        for k in ks
        if row.optimum.kind != "none"
    }
    return replace(
        row,
        ks=ks,
        curve=tuple(of_means(of_seeds, level, row.within) for of_seeds in means),
        gaps=gaps,
        by_seed=ends,
        apart=_apart(ends, ks),
    )


def gap(values: Sequence[float] | Array, optima: Sequence[float]) -> Array:
    """The optimality gaps [I] of rewards [I] in percent: 100 (optimum − value) / |optimum|.

    Costs are rewards below zero, so 0 is optimal and higher is worse there as elsewhere. NaN where
    the optimum is 0. Within rounding of the optimum it is 0.
    """
    best = np.asarray(optima, dtype=float)
    share = (best - np.asarray(values, dtype=float)) / np.where(best == 0, np.nan, np.abs(best))
    rounded: Array = 100 * np.where(np.abs(share) <= SAME_REWARD, 0.0, share)
    return rounded


def gap_range(optimum: Optima, rewards: Range) -> Range:
    """No gap to a proven optimum is below 0, and of rewards from 0 on none is above 100 %.

    The best known may be beaten.
    """
    if not optimum.exact:
        return ANYWHERE
    return Range(0.0, 100.0) if rewards.low >= 0 else NOT_NEGATIVE


def _gap_of_seeds(seeds: Sequence[Trained], k: int, level: float, within: Range) -> Interval:
    """The gap in percent of the values at k, mean over instances and seeds; it lies `within`."""
    if any(0 in seed.optima for seed in seeds):
        return undefined(
            level, "the optimum of an instance is 0: a gap in percent of it is not defined"
        )
    gaps = [gap(seed.per_instance[k], seed.optima).tolist() for seed in seeds]
    return of_instances(gaps, level, within)


def _apart(ends: Mapping[int, Trained], ks: Sequence[int]) -> tuple[int, ...]:
    """The seeds that ended apart at K = 1 or at all samples, the two ends of a curve.

    Each end has half of the rate of false alarms. The spread that the instances of each seed
    explain tells of none, unless all seeds share their instances.
    """
    from scipy import stats

    shared = {seed.instances for seed in ends.values()}
    same = len(shared) == 1 and shared.isdisjoint({None, ""})
    apart, tested = [], sorted({ks[0], ks[-1]})
    for k in tested:
        errors = [0.0 if same else float(stats.sem(end.per_instance[k])) for end in ends.values()]
        noise = float(np.sqrt(np.mean(np.square(errors))))
        values = [end.curve[k - 1] for end in ends.values()]
        which = outlying(values, noise, FALSE_ALARM / len(tested))
        apart += [] if which is None else [list(ends)[which]]
    return tuple(dict.fromkeys(apart))


def _robust(row: TrainingRow, level: float) -> dict[str, Any]:
    """The fields of the summaries of instances at the largest K: gaps, or rewards without these."""
    k, seeds = row.ks[-1], list(row.by_seed.values())
    of_gaps = row.optimum.kind != "none" and not any(0 in seed.optima for seed in seeds)
    values = np.array(
        [
            gap(seed.per_instance[k], seed.optima) if of_gaps else seed.per_instance[k]
            for seed in seeds
        ]
    )
    within = gap_range(row.optimum, row.within) if of_gaps else row.within
    found = {"iqm": iqm_interval(values, level=level, within=within)}
    for name, q in QUANTILES.items():
        found[f"instance_{name}"] = quantile_interval(values, q, level=level, within=within)
    return {"robust": found, "robust_of": "gap" if of_gaps else f"max@{k}"}


def _evaluations(
    metrics: Sequence[Metrics], clocks: Sequence[Sequence[float]], level: float, within: Range
) -> Iterator[Evaluation]:
    first = metrics[0].evaluations
    for i, (step, rollouts) in enumerate(zip(first.step, first.rollouts, strict=True)):
        at = [m.evaluations.means(i) for m in metrics]
        seconds = float(np.mean([clock[i] if i < len(clock) else np.nan for clock in clocks]))
        values = {k: of_means([means[k] for means in at], level, within) for k in first.ks}
        yield Evaluation(step, rollouts, seconds, values)


def _log(metrics: Sequence[Metrics], level: float, within: Range) -> dict[str, dict[int, Interval]]:
    """Every measure of the training log at the steps that all seeds have kept, by rollouts.

    NaN where it is not defined in every seed; without an interval where there is one seed.
    """
    logs = [m.log for m in metrics]
    steps = sorted(set.intersection(*(set(log.step) for log in logs)))
    kept = [[log.step.index(step) for step in steps] for log in logs]
    per_step = metrics[0].rollouts // max(1, metrics[0].steps)
    found = {}
    for name in logs[0].series:
        if not all(name in log.series for log in logs):
            continue
        values = np.stack(
            [np.array(floats(log.series[name]))[at] for log, at in zip(logs, kept, strict=True)]
        )
        ends = np.full((2, len(steps)), np.nan)
        if len(values) > 1:
            ends = ends_over_seeds(values, level, _range_of_log(name, within))
        columns = zip(steps, values.mean(axis=0).tolist(), *ends.tolist(), strict=True)
        found[name] = {
            per_step * step: Interval(value, low, high, level) for step, value, low, high in columns
        }
    return found


def _range_of_log(name: str, within: Range) -> Range:
    """The range of a measure of the training steps, the rewards being `within` theirs."""
    if name == "reward/mean":
        return within
    if name.startswith(("frac_", "clip_ratio/")) or name == "ess":
        return SHARES
    never_negative = name.startswith("length/") or name in ("grad_norm", "entropy", "reward/std")
    return NOT_NEGATIVE if never_negative else ANYWHERE


# Of 100 %, from which a gap is the distance.
_OF_GAP = 100 * ROUNDING


def estimates(row: TrainingRow) -> dict[str, Estimate]:
    """Every number of the end; none unless all seeds finished."""
    found = dict(_curve(row, "max", "difference"))
    found |= {f"gap@{k}": _gap(one) for k, one in row.gaps.items()}
    found |= _of_ways(row)
    found |= {f"sample_{name}": _reward(one) for name, one in row.quantiles.items()}
    for name, one in row.robust.items():
        share = Estimate(one, "1", "higher", of_pair=True)
        of_instances = _gap(one) if row.robust_of == "gap" else _reward(one)
        found[name] = share if name == "improvement" else of_instances
    for decoding in (OWN_TEMPERATURE, FORCED):
        if (whole := row.decoded.get(decoding)) is not None:
            found |= dict(_curve(whole, f"{decoding}_max", f"{decoding}_difference"))
    if (best_way := row.decoded.get(OWN_WAY)) is not None:
        found["own_way_reward"] = _reward(best_way.curve[0])
        if 1 in best_way.gaps:
            found["own_way_gap"] = _gap(best_way.gaps[1])
        if 1 in best_way.differences:
            found["own_way_difference"] = _reward(best_way.differences[1], of_pair=True)
    return found


def _of_ways(row: TrainingRow) -> dict[str, Estimate]:
    """The gap, the best reward and the difference in every way of decoding, if there are others."""
    found: dict[str, Estimate] = {}
    for way, decoded in row.decoded.items():
        if way in row.ways and way != SAMPLED:
            found |= {_name("gap", way, row): _gap(one) for one in decoded.gaps.values()}
    if set(row.ways) == {SAMPLED}:
        return found
    for way, best in row.ways.items():
        found[_name("extra" if way in EXTRAS else "max", way, row)] = _reward(best)
    for way in row.ways:
        if way in row.decoded:
            differences = row.decoded[way].differences.values()
            found |= {f"difference_{way}": _reward(one, of_pair=True) for one in differences}
    return found


def _curve(row: TrainingRow, final: str, difference: str) -> Iterator[tuple[str, Estimate]]:
    """The final Max@K at every K that is kept, and its differences."""
    for k in row.ks:
        yield f"{final}@{k}", _reward(row.curve[k - 1])
        if k in row.differences:
            yield f"{difference}@{k}", _reward(row.differences[k], of_pair=True)


def _reward(found: Interval, *, of_pair: bool = False) -> Estimate:
    return Estimate(found, "reward", "higher", of_pair)


def _gap(found: Interval) -> Estimate:
    return Estimate(found, "% of the optimum", "lower", rounding=_OF_GAP)


def _name(kind: str, way: str, row: TrainingRow) -> str:
    """`gap_greedy`, `extra_greedy`, and with the K of their samples `max@64_T=1.5`."""
    return f"{kind}_{way}" if way in EXTRAS else f"{kind}@{row.ks[-1]}_{way}"
