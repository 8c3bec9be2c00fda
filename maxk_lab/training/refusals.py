"""The settings and weightings that do not go together. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.estimators.method import Method
from maxk_lab.training.schedule import scheduled_ks
from maxk_lab.training.settings import KScheduleSettings, Settings, StepSettings

# The path of a setting and what is wrong with its value.
Problem = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class Weighting:
    """A point of the grid: how the n rewards of an instance become n weights, for J_K."""

    estimator: str
    baseline: str
    n: int
    k: int

    @cached_property
    def method(self) -> Method:
        """The estimator with its baseline at K."""
        return Method.parse(self.estimator, self.baseline, self.k)

    def refusal(self, n: int) -> str | None:
        """Return why this pair cannot weight `n` samples, or None."""
        return self.method.refusal(n)


def check(settings: Settings, weighting: Weighting) -> None:
    """Raise one `LabError` with everything that forbids training so."""
    refused = (
        weighting.refusal(weighting.n)
        or schedule_refusal(weighting, settings.k_schedule, settings.steps)
        or fit_refusal(weighting, settings.batch)
    )
    n, k = max(weighting.n, 1), weighting.k
    found = [
        *batch_problems(settings.batch, [n]),
        *sample_problems(settings, k),
        *snapshot_problems(settings, settings.steps),
        *ending_problems(settings, settings.steps),
        *step_problems(settings, [weighting.estimator], [weighting.baseline], n),
    ]
    problems = [f"{'.'.join(path)} {message}" for path, message in found]
    if refused is not None:
        problems.insert(0, refused)
    if problems:
        raise LabError("; ".join(problems))


def schedule_refusal(
    weighting: Weighting, schedule: KScheduleSettings, steps: int | None
) -> str | None:
    """Return why a weighting cannot run with a K that the schedule comes by, or None.

    Estimators that take no K have no schedule.
    """
    k = weighting.k
    if steps is None or replace(weighting, k=k + 1).method.k != k + 1:
        return None
    for other in scheduled_ks(schedule, k, steps):
        reason = replace(weighting, k=other).refusal(weighting.n)
        if reason is not None:
            return f"k_schedule comes by K = {other}: {reason}"
    return None


def fit_refusal(weighting: Weighting, batch: int | None) -> str | None:
    """Return why the coefficients of a baseline cannot be fitted in a step, or None."""
    baseline, fit = weighting.baseline, weighting.method.fit
    if fit == "oracle":
        return (
            f"{baseline} is fitted by complete enumeration: "
            "gradient studies with complete: true only"
        )
    if fit == "cross_fit" and batch is not None and batch < 2 * weighting.n:
        return (
            f"{baseline} is fitted on other instances: "
            f"batch / n must be at least 2, got {batch // weighting.n}"
        )
    return None


def batch_problems(batch: int, sizes: Sequence[int]) -> Iterator[Problem]:
    """Yield what is wrong with `batch` where a step cannot be cut into groups of every size."""
    odd = [n for n in dict.fromkeys(sizes) if batch % n]
    if odd:
        common = math.lcm(*sizes)
        below = batch // common * common
        near = [str(size) for size in (below, below + common) if size > 0]
        yield (
            ("batch",),
            f"must be a multiple of every n of the grid; {', '.join(map(str, odd))} "
            f"{'does' if len(odd) == 1 else 'do'} not divide {batch}; "
            f"the nearest that fit all: {' and '.join(near)}",
        )


def sample_problems(settings: Settings, largest_k: int) -> Iterator[Problem]:
    """Yield what is wrong with `evaluate.samples` where Max@K needs more of them."""
    samples = settings.evaluate.samples
    if samples < largest_k:
        yield (
            ("evaluate", "samples"),
            f"must be at least {largest_k}, the largest K of the grid, got {samples}",
        )


def snapshot_problems(settings: Settings, fewest_steps: int) -> Iterator[Problem]:
    """Yield what is wrong with `snapshots` where a training ends before one of them."""
    late = [step for step in settings.snapshots if step > fewest_steps]
    if late:
        yield (
            ("snapshots",),
            f"must be at most {fewest_steps}, the steps of a training, "
            f"got {', '.join(map(str, late))}",
        )


def ending_problems(settings: Settings, fewest_steps: int) -> Iterator[Problem]:
    """Yield what is wrong with the evaluations at the end of a training."""
    evaluate = settings.evaluate
    there = len(range(0, fewest_steps, evaluate.every))
    if evaluate.last > there:
        yield (
            ("evaluate", "last"),
            f"must be at most {there}, the evaluations of a training of {fewest_steps} steps "
            f"without that of step 0, got {evaluate.last}",
        )
    if evaluate.tuning and len(evaluate.temperatures) == 1 and not evaluate.extras:
        yield (
            ("evaluate", "tuning"),
            f"{evaluate.tuning} has nothing to choose between: "
            "give several temperatures, or extras",
        )


def step_problems(
    settings: StepSettings, estimators: Sequence[str], baselines: Sequence[str], least_n: int
) -> Iterator[Problem]:
    """Yield the settings of a step that contradict each other or some weighting of a grid."""
    yield from _of_divisor(settings)
    yield from _of_normalization(settings, least_n)
    yield from _of_tokens(
        settings, [name for name in baselines if choose_baseline(name).row.token_level]
    )
    binary = [name for name in estimators if choose_estimator(name).row.binary_rewards]
    binary += [name for name in baselines if choose_baseline(name).row.binary_rewards]
    if binary:
        yield from _of_binary_rewards(settings, ", ".join(binary))
    ratios = [name for name in estimators if Method.parse(name).needs_ratios]
    if ratios:
        yield from _of_ratios(settings, ", ".join(ratios))


def _of_divisor(settings: StepSettings) -> Iterator[Problem]:
    loss, path = settings.loss, ("loss", "divisor")
    if loss.aggregation == "fixed" and loss.divisor is None:
        yield path, "is missing: the aggregation fixed divides the sum over all tokens by it"
    if loss.aggregation != "fixed" and loss.divisor is not None:
        yield (
            path,
            f"is read by the aggregation fixed only, got aggregation {loss.aggregation}",
        )


def _of_normalization(settings: StepSettings, least_n: int) -> Iterator[Problem]:
    how = settings.weight_normalization
    if how != "none" and least_n < 2:
        lost = "has no standard deviation" if how == "zscore" else "is left with the weight 0"
        yield (
            ("weight_normalization",),
            f"{how} needs every n of the grid to be at least 2: a group of one {lost}",
        )


def _of_tokens(settings: StepSettings, baselines: Sequence[str]) -> Iterator[Problem]:
    for name, given in (
        ("weight_normalization", settings.weight_normalization != "none"),
        ("min_gap_scale", settings.min_gap_scale is not None),
    ):
        if baselines and given:
            yield (
                (name,),
                f"needs one weight per trajectory, but {', '.join(baselines)} gives one per token",
            )


def _of_binary_rewards(settings: StepSettings, names: str) -> Iterator[Problem]:
    """Yield the settings that make something else of rewards of 0 and 1."""
    clip, lost = settings.reward_clip, f"leaves no rewards of 0 and 1, which {names} needs"
    if settings.kl.place == "reward":
        yield ("kl", "place"), f"reward {lost}; place it in the loss"
    if settings.reward_scale != 1:
        yield ("reward_scale",), f"{settings.reward_scale} {lost}"
    if clip is not None and (clip[0] > 0 or clip[1] < 1):
        yield ("reward_clip",), f"{list(clip)} {lost}"


def _of_ratios(settings: StepSettings, estimators: str) -> Iterator[Problem]:
    """Yield the settings of a clipped ratio, of which off-policy weights leave none."""
    for name, value, fine in (
        ("ratio", settings.loss.ratio, ("sequence",)),
        ("aggregation", settings.loss.aggregation, ("seq_sum", "fixed")),
        ("dual_clip", settings.loss.dual_clip, (None,)),
    ):
        if value not in fine:
            allowed = " or ".join("null" if one is None else one for one in fine)
            yield (
                ("loss", name),
                f"must be {allowed} for {estimators}, "
                f"whose weights hold the ratios of whole trajectories; got {value}",
            )
