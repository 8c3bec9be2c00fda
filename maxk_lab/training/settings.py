"""The settings of training, of a sweep file and of a trainer alike: unbiased by default.

Imports no torch.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from maxk_lab.fields import (
    AtLeastOne,
    AtLeastTwo,
    Different,
    Finite,
    Model,
    NotNegative,
    Positive,
    WholeNumber,
    as_tuple,
)

REWARD_STAGES: tuple[Literal["clip"], Literal["kl"]] = ("clip", "kl")


def _low_and_high(values: Any) -> Any:
    if values is not None and (len(values) != 2 or not values[0] < values[1]):
        raise ValueError(f"must be null or [low, high] with low < high, got {list(values)}")
    return values


def _each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    if sorted(values) != sorted(REWARD_STAGES):
        raise ValueError(f"must list {' and '.join(REWARD_STAGES)} once each, got {list(values)}")
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
Order = Annotated[
    tuple[Literal["clip", "kl"], ...], BeforeValidator(as_tuple), AfterValidator(_each_once)
]
Temperature = Annotated[float, Field(ge=0.01, allow_inf_nan=False)]
# Rotated and mirrored copies of an instance, for the extras with augmentation.
AUGMENTATIONS = 8
Extra = Literal["greedy", "augmentation", "multistart", "multistart_augmentation"]
# The ways of decoding that an extra has measured: `training.evaluation.decoded`.
WAYS: dict[str, tuple[str, ...]] = {
    "greedy": ("greedy",),
    "augmentation": ("greedy_augmented",),
    "multistart": ("greedy_multistart", "multistart_sampling"),
    "multistart_augmentation": ("greedy_multistart_augmented",),
}
WeightNormalization = Literal["none", "zscore", "sum_to_zero"]
Start = Literal["iid", "multistart"]


class KLSettings(Model):
    """The penalty that holds the policy near an anchor policy, in the reward, in the loss, or none.

    The anchor (`reference`) is the initial policy, or with `moving` the policy of the latest
    multiple of `reference_every`. `k1` in the reward is unbiased for β ∇KL(π‖anchor).
    """

    place: Literal["none", "reward", "loss"] = "none"
    type: Literal["k1", "k2", "k3"] = "k1"
    beta: NotNegative = 0.05
    reference: Literal["frozen", "moving"] = "frozen"
    reference_every: AtLeastOne = 50


class LossSettings(Model):
    """The clipped surrogate loss (see `training.loss`): its ratio, clipping and aggregation.

    `divisor` is read by the aggregation `fixed`, which needs it, and by no other.
    """

    ratio: Literal["sequence", "token"] = "sequence"
    epsilon_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    epsilon_high: Positive = 0.2
    dual_clip: Annotated[float, Field(gt=1, allow_inf_nan=False)] | None = None
    aggregation: Literal["seq_sum", "seq_mean", "token_mean", "fixed"] = "seq_sum"
    divisor: Positive | None = None


class KScheduleSettings(Model):
    """The K of every step: that of the grid (`fixed`), or on the way to it.

    It starts from `first` and arrives by step `until`, linearly or in one step.
    """

    kind: Literal["fixed", "linear", "step"] = "fixed"
    first: AtLeastOne = 1
    until: AtLeastOne = 100

    def at(self, step: int, k: int) -> int:
        """Return the K of step `step`, which counts from 0, on the way to `k`.

        fixed   k
        linear  first + (k − first) min(1, step / until), rounded to the nearest integer, halves
                to even ones
        step    first while step < until, k from then on
        """
        if self.kind == "fixed":
            return k
        if self.kind == "linear":
            return round(self.first + (k - self.first) * min(1.0, step / self.until))
        return self.first if step < self.until else k

    def all(self, steps: int, k: int) -> list[int]:
        """Return every K that one of `steps` steps trains for, and `k` itself; ascending."""
        if self.kind == "fixed":
            return [k]
        return sorted({k, *(self.at(step, k) for step in range(min(steps, self.until)))})


class DataFile(Model):
    """A file or a folder of files; a sweep file may leave out the hash of its content."""

    path: str
    sha256: str | None = None


Data = Annotated[
    DataFile | None,
    BeforeValidator(lambda value: {"path": value} if isinstance(value, str) else value),
]


class EvaluationSettings(Model):
    """The held-out evaluation: `samples` trajectories on each of `instances` instances.

    The instances are drawn, or read from the file `data`. `reference` is the source of their
    optima, for the optimality gap. At the end samples are drawn at all `temperatures`, which divide
    the policy's log-probabilities, and the `extras` measured, which estimate no Max@K. On `tuning`
    other instances the best of these ways is chosen for each policy; 0: none is. All that is told
    of the end is the mean over the `last` evaluations.
    """

    every: AtLeastOne = 50
    instances: AtLeastTwo = 128
    samples: AtLeastOne = 64
    extras: Different[Extra] = ()
    temperatures: Annotated[Different[Temperature], AfterValidator(_ascending_with_one)] = (1.0,)
    tuning: WholeNumber = 0
    last: AtLeastOne = 1
    data: Data = None
    reference: Literal["auto", "none", "exact", "pyvrp"] = "auto"

    def after(self, steps: int) -> tuple[int, ...]:
        """Return the numbers of steps after which a training of `steps` is evaluated."""
        return (*range(0, steps, self.every), steps)

    def at_the_end(self, steps: int) -> tuple[int, ...]:
        """Return those of the last evaluations; that of the untrained policy is none of them."""
        return self.after(steps)[1:][-self.last :]


class StepSettings(Model):
    """The settings of a step, which may differ between entries of a grid.

    A step draws `batch` trajectories, n on each of batch / n instances. They are i.i.d., or with
    `multistart` each has a first action of its own, which makes another objective. Rewards are
    multiplied by `reward_scale`, then clipped and given their KL penalty in `reward_order`. Of
    truncated trajectories `mask_loss` drops the loss term, `mask_all` also the part in their
    group's baseline.
    """

    steps: AtLeastOne = 300
    batch: AtLeastOne = 256
    learning_rate: Positive = 1e-3
    max_grad_norm: Positive | None = None
    entropy_bonus: NotNegative = 0.0
    inner_epochs: AtLeastOne = 1
    start: Start = "iid"
    reward_scale: Positive = 1.0
    reward_clip: Clip = None
    reward_order: Order = REWARD_STAGES
    kl: KLSettings = KLSettings()
    normalize_advantages: bool = False
    weight_normalization: WeightNormalization = "none"
    min_gap_scale: Positive | None = None
    loss: LossSettings = LossSettings()
    truncated: Literal["keep", "mask_loss", "mask_all"] = "keep"
    k_schedule: KScheduleSettings = KScheduleSettings()


class Settings(StepSettings):
    """All settings of a training but its weighting.

    The policies after `snapshots` steps, 0 the start, are kept.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    checkpoint_every: AtLeastOne = 50
    snapshots: Different[WholeNumber] = ()
    evaluate: EvaluationSettings = EvaluationSettings()
