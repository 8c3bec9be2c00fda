"""The shape of a training study in a sweep file: the settings of every step, their defaults unbiased."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from maxk_lab.sweeps.fields import (
    AtLeastOne,
    AtLeastTwo,
    Grid,
    Model,
    NotNegative,
    Positive,
    as_tuple,
)

STAGES_OF_REWARDS = ("clip", "kl")


def _ascending_pair(values: Any) -> Any:
    if values is not None and (len(values) != 2 or not values[0] < values[1]):
        raise ValueError(f"must be null or [low, high] with low < high, got {list(values)}")
    return values


def _each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    if sorted(values) != sorted(STAGES_OF_REWARDS):
        raise ValueError(f"must list {' and '.join(STAGES_OF_REWARDS)} once each, got {list(values)}")
    return values


def _as_tuple_if_given(value: Any) -> Any:
    return None if value is None else as_tuple(value)


Finite = Annotated[float, Field(allow_inf_nan=False)]
Clip = Annotated[
    tuple[Finite, ...] | None, BeforeValidator(_as_tuple_if_given), AfterValidator(_ascending_pair)
]
Order = Annotated[tuple[Literal["clip", "kl"], ...], BeforeValidator(as_tuple), AfterValidator(_each_once)]


class KL(Model):
    """The penalty that holds the policy near a reference: part of the reward, part of the loss, or absent.

    `reference` is the initial policy, or with `moving` the policy of the latest multiple of `reference_every`.
    """

    place: Literal["none", "reward", "loss"] = "none"
    type: Literal["k1", "k2", "k3"] = "k1"
    beta: NotNegative = 0.05
    reference: Literal["frozen", "moving"] = "frozen"
    reference_every: AtLeastOne = 50


class Loss(Model):
    """The clipped surrogate: importance ratio, its bounds and how the terms of a batch are put together.

    `divisor` is read by the aggregation `fixed`, which needs it, and by no other.
    """

    ratio: Literal["sequence", "token"] = "sequence"
    epsilon_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    epsilon_high: Positive = 0.2
    dual_clip: Annotated[float, Field(gt=1, allow_inf_nan=False)] | None = None
    aggregation: Literal["seq_sum", "seq_mean", "token_mean", "fixed"] = "seq_sum"
    divisor: Positive | None = None


class Evaluation(Model):
    """The Max@K curve of `samples` trajectories on each of `instances` held-out instances."""

    every: AtLeastOne = 50
    instances: AtLeastTwo = 128
    samples: AtLeastOne = 64


class TrainingStudy(Model):
    """Policies trained by every point of the grid from the same start: what becomes of their Max@K curves.

    A step draws `batch` trajectories, n on each of batch / n instances. Rewards are clipped and given their
    KL penalty in `reward_order`. Of truncated trajectories `mask_loss` drops the loss term, `mask_all` the
    part in their group's baseline too.
    """

    steps: AtLeastOne = 300
    batch: AtLeastOne = 256
    learning_rate: Positive = 1e-3
    max_grad_norm: Positive | None = None
    entropy_bonus: NotNegative = 0.0
    inner_epochs: AtLeastOne = 1
    reward_clip: Clip = None
    reward_order: Order = STAGES_OF_REWARDS  # type: ignore[assignment]
    kl: KL = KL()
    normalize_advantages: bool = False
    weight_normalization: Literal["none", "zscore", "sum_to_zero"] = "none"
    min_gap_scale: Positive | None = None
    loss: Loss = Loss()
    truncated: Literal["keep", "mask_loss", "mask_all"] = "keep"
    checkpoint_every: AtLeastOne = 50
    evaluate: Evaluation = Evaluation()
    grid: Grid

    def settings(self) -> dict[str, Any]:
        """Everything but the grid, as plain JSON: what a worker is told of the training."""
        return self.model_dump(mode="json", exclude={"grid"})


def evaluated_ks(samples: int, *ks: int) -> tuple[int, ...]:
    """The K at which a final curve is kept: powers of two up to `samples`, `samples` itself, and `ks`."""
    powers = {2**power for power in range(samples.bit_length()) if 2**power <= samples}
    return tuple(sorted(powers | {samples, *ks}))
