"""The settings and weightings that do not go together. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.estimators.method import Method
from maxk_lab.training.settings import KScheduleSettings, LossSettings, Settings, StepSettings

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
    n = max(weighting.n, 1)
    problems = (
        *batch_problems(settings.batch, [n]),
        *evaluation_problems(settings, weighting.k, settings.steps),
        *step_problems(settings, [weighting.estimator], [weighting.baseline], n),
    )
    messages = [] if refused is None else [refused]
    messages += [f"{'.'.join(path)} {message}" for path, message in problems]
    if messages:
        raise LabError("; ".join(messages))


def schedule_refusal(
    weighting: Weighting, schedule: KScheduleSettings, steps: int | None
) -> str | None:
    """Return why a weighting cannot run with a K that the schedule comes by, or None.

    Estimators that take no K have no schedule.
    """
    k = weighting.k
    if steps is None or replace(weighting, k=k + 1).method.k != k + 1:
        return None
    for other in schedule.all(steps, k):
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


def evaluation_problems(settings: Settings, largest_k: int, fewest_steps: int) -> Iterator[Problem]:
    """Yield what is wrong with the evaluations and snapshots of trainings of so few steps."""
    evaluate = settings.evaluate
    if evaluate.samples < largest_k:
        message = f"must be at least {largest_k}, the largest K of the grid, got {evaluate.samples}"
        yield ("evaluate", "samples"), message
    late = ", ".join(str(step) for step in settings.snapshots if step > fewest_steps)
    if late:
        message = f"must be at most {fewest_steps}, the steps of a training, got {late}"
        yield ("snapshots",), message
    most = len(range(0, fewest_steps, evaluate.every))
    if evaluate.last > most:
        message = f"must be at most {most}, the evaluations of a training of {fewest_steps} steps "
        message += f"without that of step 0, got {evaluate.last}"
        yield ("evaluate", "last"), message
    if evaluate.tuning and len(evaluate.temperatures) == 1 and not evaluate.extras:
        message = "has nothing to choose between: give several temperatures, or extras"
        yield ("evaluate", "tuning"), f"{evaluate.tuning} {message}"


def step_problems(
    settings: StepSettings, estimators: Sequence[str], baselines: Sequence[str], least_n: int
) -> Iterator[Problem]:
    """Yield the settings of a step that contradict each other or some weighting of a grid."""
    loss, how = settings.loss, settings.weight_normalization
    if loss.aggregation == "fixed" and loss.divisor is None:
        message = "is missing: the aggregation fixed divides the sum over all tokens by it"
        yield ("loss", "divisor"), message
    if loss.aggregation != "fixed" and loss.divisor is not None:
        message = f"is read by the aggregation fixed only, got aggregation {loss.aggregation}"
        yield ("loss", "divisor"), message
    if how != "none" and least_n < 2:
        lost = "has no standard deviation" if how == "zscore" else "is left with the weight 0"
        message = f"{how} needs every n of the grid to be at least 2: a group of one {lost}"
        yield ("weight_normalization",), message
    rows = {name: choose_baseline(name).row for name in baselines}
    token_level = ", ".join(name for name, row in rows.items() if row.token_level)
    changed = {"weight_normalization": how, "min_gap_scale": settings.min_gap_scale}
    for setting in changed if token_level else ():
        if changed[setting] not in ("none", None):
            message = f"needs one weight per trajectory, but {token_level} gives one per token"
            yield (setting,), message
    chosen = {name: choose_estimator(name).row for name in estimators}
    binary = ", ".join(name for name, row in (chosen | rows).items() if row.binary_rewards)
    clip, lost = settings.reward_clip, f"leaves no rewards of 0 and 1, which {binary} needs"
    if binary and settings.kl.place == "reward":
        yield ("kl", "place"), f"reward {lost}; place it in the loss"
    if binary and settings.reward_scale != 1:
        yield ("reward_scale",), f"{settings.reward_scale} {lost}"
    if binary and clip is not None and (clip[0] > 0 or clip[1] < 1):
        yield ("reward_clip",), f"{list(clip)} {lost}"
    ratios = ", ".join(name for name in estimators if Method.parse(name).needs_ratios)
    if ratios:
        yield from _ratio_problems(loss, ratios)


def _ratio_problems(loss: LossSettings, estimators: str) -> Iterator[Problem]:
    """Yield the settings of a clipped ratio, of which off-policy weights leave none."""
    for name, allowed in (
        ("ratio", ("sequence",)),
        ("aggregation", ("seq_sum", "fixed")),
        ("dual_clip", (None,)),
    ):
        value = getattr(loss, name)
        if value not in allowed:
            listed = " or ".join(one or "null" for one in allowed)
            yield (
                ("loss", name),
                f"must be {listed} for {estimators}, "
                f"whose weights hold the ratios of whole trajectories; got {value}",
            )
