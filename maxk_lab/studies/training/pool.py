"""Training records → rows pooled over seeds: Max@K during and after training, by decoding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.words import describe_environment
from maxk_lab.errors import LabError
from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, SHARES, Range
from maxk_lab.reports.naming import Setting
from maxk_lab.reports.tables import Pooled, members_by_key
from maxk_lab.statistics.intervals import Interval, exactly, undefined
from maxk_lab.statistics.seeds import (
    FALSE_ALARM,
    Mean,
    floats,
    outlying,
    pool_means,
    pooled_mean,
    seed_mean_ends,
)
from maxk_lab.statistics.units import Array
from maxk_lab.studies.training.record import Metrics, Optima
from maxk_lab.studies.training.row import (
    FORCED,
    OWN_TEMPERATURE,
    SAMPLED,
    Decoding,
    Evaluation,
    TrainingKey,
    TrainingRow,
    place_setting,
    sampled_at,
)
from maxk_lab.training.settings import EXTRAS, Settings
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record

# The decoding of POMO's authors (arXiv 2010.16011, section 4).
POMO_WAY = EXTRAS[-1]
# Rewards are sums in single precision; a tour from another city differs in the last bits. Values
# with a smaller relative difference are equal.
SAME_REWARD = 1e-6


key = TrainingKey.of


def pool(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], *, level: float, alpha: float
) -> Pooled[TrainingRow]:
    """Return one row per key of the planned cells; `compare` compares the rows."""
    rows = [_pooled(*members, level) for members in members_by_key(cells, done, key)]
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    return Pooled(tuple(sorted(rows, key=lambda row: _order(row, settings))))


def _order(row: TrainingRow, settings: Sequence[Setting]) -> tuple[Any, ...]:
    """Return a sort key: environment, place, n, K, catalogue, and the settings as in the file."""
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
    # A cell has only the hash of an evaluation file.
    evaluate = {name: value for name, value in training["evaluate"].items() if name != "data"}
    row = TrainingRow(
        key=key,
        cells={cell["seed"]: cell["id"] for cell in cells},
        finished=tuple(finished),
        catalogued_unbiased=key.method.is_unbiased,
        settings=Settings.from_mapping({**training, "evaluate": evaluate}),
        environment_words=visible_line(describe_environment(cells[0]["environment"])),
    )
    if row.unfinished:
        return replace(row, reason=row.unfinished)
    metrics = [Metrics.of(record) for record in finished.values()]
    first = metrics[0]
    if any(m.schedule != first.schedule for m in metrics):
        return replace(row, reason="the seeds were trained or evaluated in different ways")
    within, passes = _rewards(cells[0]["environment"])
    row = replace(
        row,
        within=within,
        passes=passes,
        steps=first.steps,
        rollouts=first.rollouts,
        optimum=_optimum([m.optima for m in metrics]),
        optima=[floats(m.optima.per_instance) for m in metrics],
        instances=tuple(m.data.instances for m in metrics),
        last=tuple(first.last),
    )
    seeds = list(map(_ends, metrics))
    decoded = {
        name: _decoding(row, name, [of_seed[name] for of_seed in seeds], level)
        for name in seeds[0]
        if all(name in of_seed for of_seed in seeds)
    }
    clocks = [record.timings.get("evaluations_seconds", ()) for record in finished.values()]
    return replace(
        row,
        decoded=decoded,
        evaluations=tuple(_evaluations(metrics, clocks, level, within)),
        log=_log(metrics, level, within),
    )


def _rewards(environment: Mapping[str, Any]) -> tuple[Range, bool]:
    """Return the range of an environment's rewards, and whether all are 0 or 1.

    The range is unknown if the environment is not installed.
    """
    try:
        row = ENVIRONMENTS.get(environment["name"])
        return row.reward_range(environment), row.passes(environment)
    except (LabError, KeyError):
        return ANYWHERE, False


def _optimum(seeds: Sequence[Optima]) -> Optima:
    """Return how the optima of all seeds are known; "none" if a seed lacks them."""
    missing = next((each for each in seeds if each.kind == "none"), None)
    if missing is not None:
        return Optima(kind="none", reason=missing.reason)
    kinds = ", ".join(dict.fromkeys(each.kind for each in seeds))
    return Optima(kind=kinds, reason="", exact=all(each.exact for each in seeds))


class _End(NamedTuple):
    """One seed at the end of training in one decoding: means for K = 1, 2, ..., and values by K.

    `tuning` are the means on the tuning instances, empty without them; `chosen` has the decoding
    that was best on them by K.
    """

    means: Sequence[Mean] = ()
    values: Mapping[int, Sequence[float]] = {}
    tuning: Sequence[float] = ()
    chosen: Mapping[int, str] = {}
    reason: str = ""


def _ends(metrics: Metrics) -> dict[str, _End]:
    """Return the end of one seed in every decoding: each temperature, the extras, and the best."""
    final, tuning = metrics.final, metrics.tuning
    finals = {1.0: final} | {float(t): end for t, end in metrics.tempered.items()}
    tuned = {float(t): floats(means) for t, means in tuning.tempered.items()}
    ends = {
        sampled_at(t): _End(finals[t].means, finals[t].values, tuned.get(t, ()))
        for t in sorted(finals)
    }
    sampled = list(ends)
    for name in EXTRAS:
        extra, best = metrics.extras.get(name), tuning.extras.get(name)
        if extra is not None and extra.value is None:
            ends[name] = _End(reason=extra.reason or "not defined")
        elif extra is not None:
            value = {1: floats(extra.per_instance)}
            ends[name] = _End([extra.mean], value, [] if best is None else [best])
    if len(sampled) > 1 and all(ends[name].tuning for name in sampled):
        # If no temperature scores K samples, all are equally good.
        chosen = {
            k: best_on_tuning({name: ends[name].tuning[k - 1] for name in sampled}) or SAMPLED
            for k in range(1, len(final.value) + 1)
        }
        means = [ends[name].means[k - 1] for k, name in chosen.items()]
        values = {k: ends[chosen[k]].values[k] for k in final.ks}
        ends[OWN_TEMPERATURE] = _End(means, values, chosen=chosen)
    if metrics.forced is not None:
        ends[FORCED] = _End(metrics.forced.means, metrics.forced.values)
    return ends


def best_on_tuning(means: Mapping[str, float]) -> str | None:
    """Return the decoding with the highest mean on the tuning instances; ties go to the first."""
    defined = [name for name, mean in means.items() if not math.isnan(mean)]
    return max(defined, key=lambda name: means[name], default=None)


def _decoding(row: TrainingRow, name: str, ends: Sequence[_End], level: float) -> Decoding:
    """Return the decoding of this name, pooled over the seeds."""
    reason = next((end.reason for end in ends if end.reason), "")
    if reason:
        return Decoding(curve=(undefined(level, reason),))
    curve = name in (SAMPLED, OWN_TEMPERATURE, FORCED)
    ks = tuple(ends[0].values) if curve else (len(ends[0].means),)
    values = {k: np.array([end.values[k] for end in ends]) for k in ends[0].values}
    curves = [floats([value for value, *_ in end.means]) for end in ends]
    decoding = Decoding(
        means=np.array(curves),
        values=values,
        chosen={k: [end.chosen[k] for end in ends] for k in ends[0].chosen},
        ks=ks,
        curve=tuple(
            pool_means(of_seeds, level, row.within)
            for of_seeds in zip(*(end.means for end in ends), strict=True)
        ),
        gaps={k: _gap(row, values[k], level) for k in ks if row.optimum.kind != "none"},
    )
    return replace(decoding, apart=_apart(row, decoding))


def gap(values: Array, optima: Sequence[Sequence[float]]) -> Array:
    """The optimality gaps [S, I] of rewards [S, I] in percent: 100 (optimum − value) / |optimum|.

    Costs are negative rewards, so 0 is optimal and higher is worse in all environments. NaN if the
    optimum is 0. A value equal to the optimum up to rounding has gap 0.
    """
    best = np.asarray(optima, dtype=float)
    share = (best - values) / np.where(best == 0, np.nan, np.abs(best))
    rounded: Array = 100 * np.where(np.abs(share) <= SAME_REWARD, 0.0, share)
    return rounded


def gap_range(optimum: Optima, rewards: Range) -> Range:
    """Return the range of gaps: at least 0 for a proven optimum, at most 100 % for rewards >= 0.

    Rewards can exceed a best known value that is not proven.
    """
    if not optimum.exact:
        return ANYWHERE
    return Range(0.0, 100.0) if rewards.low >= 0 else NOT_NEGATIVE


def _gap(row: TrainingRow, values: Array, level: float) -> Interval:
    """Return the gap in percent of the values [S, I], mean over instances and seeds."""
    if any(0 in of_seed for of_seed in row.optima):
        return undefined(
            level, "the optimum of an instance is 0: a gap in percent of it is not defined"
        )
    within = gap_range(row.optimum, row.within)
    return pooled_mean(gap(values, row.optima).tolist(), level, within)


def _apart(row: TrainingRow, decoding: Decoding) -> tuple[int, ...]:
    """Return the outlying seeds at K = 1 or at all samples, the two ends of a curve.

    Each end gets half of the rate of false alarms. Spread that the instances of each seed explain
    does not count, unless all seeds share their instances.
    """
    same = len(set(row.instances)) == 1 and row.instances[0] not in (None, "")
    apart, tested = [], sorted({decoding.ks[0], decoding.ks[-1]})
    for k in tested:
        values = decoding.values[k]
        scored = (~np.isnan(values)).sum(1)
        # The spread of a seed's instances is unknown.
        if not same and scored.min() < 2:
            continue
        errors = np.zeros(1) if same else np.nanstd(values, 1, ddof=1) / np.sqrt(scored)
        noise = float(np.sqrt(np.mean(np.square(errors))))
        which = outlying(decoding.means[:, k - 1].tolist(), noise, FALSE_ALARM / len(tested))
        apart += [] if which is None else [row.finished[which]]
    return tuple(dict.fromkeys(apart))


def _evaluations(
    metrics: Sequence[Metrics], clocks: Sequence[Sequence[float]], level: float, within: Range
) -> Iterator[Evaluation]:
    first = metrics[0].evaluations
    for i, (step, rollouts) in enumerate(zip(first.step, first.rollouts, strict=True)):
        at = [m.evaluations.means(i) for m in metrics]
        seconds = float(np.mean([clock[i] if i < len(clock) else np.nan for clock in clocks]))
        values = {k: pool_means([means[k] for means in at], level, within) for k in first.ks}
        means = {k: floats([means[k][0] for means in at]) for k in first.ks}
        yield Evaluation(step, rollouts, seconds, values, means)


def _log(metrics: Sequence[Metrics], level: float, within: Range) -> dict[str, dict[int, Interval]]:
    """Return every measure of the training log at the steps that all seeds recorded, by rollouts.

    NaN if a seed has no value; without an interval for a single seed.
    """
    logs = [m.log for m in metrics]
    steps = sorted(set.intersection(*(set(log.step) for log in logs)))
    places = [[log.step.index(step) for step in steps] for log in logs]
    per_step = metrics[0].rollouts // max(1, metrics[0].steps)
    series = {}
    for name in logs[0].series:
        if not all(name in log.series for log in logs):
            continue
        values = np.stack(
            [np.array(floats(log.series[name]))[at] for log, at in zip(logs, places, strict=True)]
        )
        ends = np.full((2, len(steps)), np.nan)
        if len(values) > 1:
            ends = seed_mean_ends(values, level, _range_of_log(name, within))
        columns = zip(steps, values.mean(axis=0).tolist(), *ends.tolist(), strict=True)
        series[name] = {
            per_step * step: Interval(value, low, high, level) for step, value, low, high in columns
        }
    return series


def _range_of_log(name: str, within: Range) -> Range:
    """Return the range of a measure of the training steps, for rewards `within` a range."""
    if name == "reward/mean":
        return within
    if name.startswith(("frac_", "clip_ratio/")) or name == "ess":
        return SHARES
    never_negative = name.startswith("length/") or name in ("grad_norm", "entropy", "reward/std")
    return NOT_NEGATIVE if never_negative else ANYWHERE


def estimates(row: TrainingRow) -> dict[str, Interval]:
    """Return every number of the end, and counts; empty unless all seeds finished."""
    if not row.curve:
        return {}
    numbers = _curve(row.sampled)
    numbers |= {f"gap@{k}": gap for k, gap in row.sampled.gaps.items()}
    numbers |= _decodings(row)
    for name in (OWN_TEMPERATURE, FORCED):
        numbers |= _curve(row.decoded.get(name, Decoding()), f"{name}_")
    if (tuned := row.decoded.get(OWN_TEMPERATURE)) is not None:
        numbers |= {f"{OWN_TEMPERATURE}_gap@{k}": gap for k, gap in tuned.gaps.items()}
    return numbers | {"steps": exactly(row.steps), "rollouts": exactly(row.rollouts)}


def _decodings(row: TrainingRow) -> dict[str, Interval]:
    """Return gaps, best rewards and differences in every decoding; empty if there is one."""
    decodings = {
        name: end for name, end in row.decoded.items() if name in EXTRAS or name.startswith("T=")
    }
    if set(decodings) <= {SAMPLED}:
        return {}
    gaps: dict[str, Interval] = {}
    best: dict[str, Interval] = {}
    differences: dict[str, Interval] = {}
    for name, end in decodings.items():
        # An extra has no K.
        kind, at = ("extra", "") if name in EXTRAS else ("max", f"@{row.sampled.ks[-1]}")
        best[f"{kind}{at}_{name}"] = end.curve[-1]
        top = end.ks[-1] if end.ks else 0
        if top in end.gaps and name != SAMPLED:
            gaps[f"gap{at}_{name}"] = end.gaps[top]
        if top in end.differences:
            differences[f"difference_{name}"] = end.differences[top]
    return gaps | best | differences


def _curve(decoding: Decoding, of: str = "") -> dict[str, Interval]:
    """Return the final Max@K at every recorded K, and its differences."""
    numbers = {}
    for k in decoding.ks:
        numbers[f"{of}max@{k}"] = decoding.curve[k - 1]
        if k in decoding.differences:
            numbers[f"{of}difference@{k}"] = decoding.differences[k]
    return numbers
