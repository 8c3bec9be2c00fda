"""The settings of training, for sweep files and trainers, and their contradictions.

The defaults are unbiased. This module does not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from maxk_lab.environments.catalogue import hash_of_data
from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.estimators.method import Method
from maxk_lab.fields import (
    MOST_IN_MEMORY,
    AtLeastOne,
    Different,
    Finite,
    Model,
    NotNegative,
    Positive,
    Samples,
    Start,
    TwoSamples,
    WholeNumber,
    as_tuple,
)
from maxk_lab.files import resolved_file


def _low_and_high(values: Any) -> Any:
    if values is not None and (len(values) != 2 or not values[0] < values[1]):
        raise ValueError(f"must be null or [low, high] with low < high, got {list(values)}")
    return values


def _ascending_with_one(temperatures: tuple[float, ...]) -> tuple[float, ...]:
    if 1 not in temperatures:
        raise ValueError(
            f"must hold 1, the policy as it was trained, got {', '.join(map(str, temperatures))}"
        )
    return tuple(sorted(temperatures))


Clip = Annotated[
    tuple[Finite, ...] | None,
    BeforeValidator(lambda value: None if value is None else as_tuple(value)),
    AfterValidator(_low_and_high),
]
Temperature = Annotated[float, Field(ge=0.01, allow_inf_nan=False)]
# Rotated and mirrored copies of an instance, for the extras with augmentation.
AUGMENTATIONS = 8
Extra = Literal["greedy", "augmentation", "multistart", "multistart_augmentation"]
# The decodings of each extra: `training.evaluation.decoded`.
WAYS: dict[str, tuple[str, ...]] = {
    "greedy": ("greedy",),
    "augmentation": ("greedy_augmented",),
    "multistart": ("greedy_multistart", "multistart_sampling"),
    "multistart_augmentation": ("greedy_multistart_augmented",),
}
EXTRAS = tuple(decoding for decodings in WAYS.values() for decoding in decodings)


def trajectories_of_extras(starts: float, samples: int) -> dict[str, float]:
    """Return the number of trajectories per instance of each decoding."""
    costs = (1, AUGMENTATIONS, starts, samples, starts * AUGMENTATIONS)
    return dict(zip(EXTRAS, costs, strict=True))


WeightNormalization = Literal["none", "zscore", "sum_to_zero"]


class KLSettings(Model):
    """The penalty for the distance to the initial policy (the anchor): its place and size.

    `k1` in the reward is unbiased for β ∇KL(π‖anchor) at K = 1. At larger K the penalty is inside
    the maximum.
    """

    place: Literal["none", "reward", "loss"] = "none"
    type: Literal["k1", "k3"] = "k1"
    beta: NotNegative = 0.05


class LossSettings(Model):
    """The clipped surrogate loss (see `training.loss`): its ratio, clipping and aggregation.

    Only the aggregation `fixed` uses `divisor`, and requires it.
    """

    ratio: Literal["sequence", "token"] = "sequence"
    epsilon_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    epsilon_high: Positive = 0.2
    aggregation: Literal["seq_sum", "seq_mean", "token_mean", "fixed"] = "seq_sum"
    divisor: Positive | None = None


class KScheduleSettings(Model):
    """The K of every step: that of the grid (`fixed`), or `first` before step `until` (`step`)."""

    kind: Literal["fixed", "step"] = "fixed"
    first: AtLeastOne = 1
    until: AtLeastOne = 100

    def at(self, step: int, k: int) -> int:
        """Return the K of step `step`, which counts from 0; `k` is the K of the grid."""
        return self.first if self.kind == "step" and step < self.until else k

    def all(self, k: int) -> list[int]:
        """Return every K of the schedule, ascending; `k` is the K of the grid."""
        return sorted({k, self.at(0, k)})


class DataFile(Model):
    """A file or a folder of files; a sweep file may leave out the hash of its content."""

    path: str
    sha256: str | None = None


def _resolve_data(written: Any, info: ValidationInfo) -> Any:
    """Return the path of a file with its hash, if the environment of a sweep file is known."""
    environment = (info.context or {}).get("environment")
    if written is None or environment is None:
        return {"path": written} if isinstance(written, str) else written
    return resolved_file(written, "data", partial(hash_of_data, environment=environment))


Data = Annotated[DataFile | None, BeforeValidator(_resolve_data)]


class EvaluationSettings(Model):
    """The held-out evaluation: `samples` trajectories on each of `instances` instances.

    The instances are drawn, or read from the file `data`. `reference` is the source of their
    optima, for the optimality gap. At the end, samples are drawn at all `temperatures`, which
    divide the policy's log-probabilities, and the `extras` are measured, which estimate no Max@K.
    On `tuning` other instances, the best decoding is chosen for each policy; 0 means no choice.
    Final numbers are means over the `last` evaluations.
    """

    every: AtLeastOne = 50
    instances: TwoSamples = 128
    samples: Samples = 64
    extras: Different[Extra] = ()
    temperatures: Annotated[Different[Temperature], AfterValidator(_ascending_with_one)] = (1.0,)
    tuning: Annotated[int, Field(ge=0, le=MOST_IN_MEMORY)] = 0
    last: AtLeastOne = 1
    data: Data = None
    reference: Literal["auto", "none", "exact"] = "auto"

    def after(self, steps: int) -> tuple[int, ...]:
        """Return the numbers of steps after which a training of `steps` is evaluated."""
        return (*range(0, steps, self.every), steps)

    def final_steps(self, steps: int) -> tuple[int, ...]:
        """Return the steps of the last evaluations, without that of the untrained policy."""
        return self.after(steps)[1:][-self.last :]


class StepSettings(Model):
    """The settings of a step, which may differ between entries of a grid.

    A step draws `batch` trajectories, n on each of batch / n instances. They are i.i.d., or with
    `multistart` each has its own first action. The objective is then J_K^starts, the mean over the
    K-subsets of these starts of E[max]. Rewards are multiplied by `reward_scale`, then clipped,
    then given their KL penalty.
    """

    steps: AtLeastOne = 300
    batch: Samples = 256
    learning_rate: Positive = 1e-3
    max_grad_norm: Positive | None = None
    entropy_bonus: NotNegative = 0.0
    inner_epochs: AtLeastOne = 1
    start: Start = "iid"
    reward_scale: Positive = 1.0
    reward_clip: Clip = None
    kl: KLSettings = KLSettings()
    normalize_advantages: bool = False
    weight_normalization: WeightNormalization = "none"
    loss: LossSettings = LossSettings()
    k_schedule: KScheduleSettings = KScheduleSettings()


class Settings(StepSettings):
    """All settings of a training except its weighting.

    The policies after `snapshots` steps are saved; 0 is the initial policy.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    checkpoint_every: AtLeastOne = 50
    snapshots: Different[WholeNumber] = ()
    evaluate: EvaluationSettings = EvaluationSettings()


# The path of a setting and the problem of its value.
Problem = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class Weighting:
    """A point of the grid: the method that turns the n rewards of an instance into weights."""

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
    """Raise one `LabError` with all problems of a training."""
    refused = (
        weighting.refusal(weighting.n)
        or schedule_refusal(weighting, settings.k_schedule)
        or fit_refusal(weighting)
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


def schedule_refusal(weighting: Weighting, schedule: KScheduleSettings) -> str | None:
    """Return why a weighting cannot run with a K of the schedule, or None.

    Estimators with their own K (`fixed_k`) follow no schedule.
    """
    k = weighting.k
    if weighting.method.estimator.row.fixed_k is not None:
        return None
    for scheduled in schedule.all(k):
        reason = replace(weighting, k=scheduled).refusal(weighting.n)
        if reason is not None:
            return f"k_schedule comes by K = {scheduled}: {reason}"
    return None


def fit_refusal(weighting: Weighting) -> str | None:
    """Return why a training step cannot fit the coefficients of a baseline, or None."""
    if weighting.method.fit is None:
        return None
    return f"{weighting.baseline} is fitted to gradients: gradient studies only"


def batch_problems(batch: int, sizes: Sequence[int]) -> Iterator[Problem]:
    """Yield the problems of `batch` if a step cannot be cut into groups of every size."""
    odd = [str(n) for n in dict.fromkeys(sizes) if batch % n]
    if odd:
        common = math.lcm(*sizes)
        below = batch // common * common
        near = [str(size) for size in (below, below + common) if size > 0]
        do = "does" if len(odd) == 1 else "do"
        rule = (
            f"must be a multiple of every n of the grid; {', '.join(odd)} {do} not divide {batch}"
        )
        yield ("batch",), f"{rule}; the nearest that fit all: {' and '.join(near)}"


def evaluation_problems(settings: Settings, largest_k: int, fewest_steps: int) -> Iterator[Problem]:
    """Yield the problems of evaluations and snapshots in trainings of so few steps."""
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
    """Yield the settings of a step that contradict each other or a weighting of the grid."""
    loss, how = settings.loss, settings.weight_normalization
    if loss.aggregation == "fixed" and loss.divisor is None:
        message = "is missing: the aggregation fixed divides the sum over all tokens by it"
        yield ("loss", "divisor"), message
    if loss.aggregation != "fixed" and loss.divisor is not None:
        message = f"is read by the aggregation fixed only, got aggregation {loss.aggregation}"
        yield ("loss", "divisor"), message
    if how != "none" and least_n < 2:
        fault = "has no standard deviation" if how == "zscore" else "is left with the weight 0"
        message = f"{how} needs every n of the grid to be at least 2: a group of one {fault}"
        yield ("weight_normalization",), message
    rows = {name: choose_baseline(name).row for name in baselines}
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
    """Yield the settings of a clipped ratio, which off-policy weights already contain."""
    why = f"for {estimators}, whose weights hold the ratios of whole trajectories"
    if loss.ratio != "sequence":
        yield ("loss", "ratio"), f"must be sequence {why}; got {loss.ratio}"
    if loss.aggregation not in ("seq_sum", "fixed"):
        yield ("loss", "aggregation"), f"must be seq_sum or fixed {why}; got {loss.aggregation}"
