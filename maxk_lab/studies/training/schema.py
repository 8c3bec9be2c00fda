"""The shape of a training study in a sweep file: the settings of every step, their defaults unbiased."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from maxk_lab.fields import (
    AtLeastOne,
    AtLeastTwo,
    Model,
    NotNegative,
    OneOrMore,
    Positive,
    WholeNumber,
    as_tuple,
    distinct,
)
from maxk_lab.sweeps.plan.identity import canonical_json
from maxk_lab.sweeps.spec.fields import Grid

STAGES_OF_REWARDS = ("clip", "kl")
# Settings that came later than the identity of cells: at their default they are left out of what a worker is told, so
# that older cells keep their ids.
LATER = ("start", "reward_scale", "amp", "device", "snapshots")
LATER_OF_EVALUATION = ("extras", "data", "reference")


def _ascending_pair(values: Any) -> Any:
    if values is not None and (len(values) != 2 or not values[0] < values[1]):
        raise ValueError(f"must be null or [low, high] with low < high, got {list(values)}")
    return values


def _each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    if sorted(values) != sorted(STAGES_OF_REWARDS):
        raise ValueError(
            f"must list {' and '.join(STAGES_OF_REWARDS)} once each, got {list(values)}"
        )
    return values


def _as_tuple_if_given(value: Any) -> Any:
    return None if value is None else as_tuple(value)


Finite = Annotated[float, Field(allow_inf_nan=False)]
Clip = Annotated[
    tuple[Finite, ...] | None, BeforeValidator(_as_tuple_if_given), AfterValidator(_ascending_pair)
]
Order = Annotated[
    tuple[Literal["clip", "kl"], ...], BeforeValidator(as_tuple), AfterValidator(_each_once)
]


Steps = Annotated[tuple[WholeNumber, ...], BeforeValidator(as_tuple), AfterValidator(distinct)]
Extra = Literal["greedy", "augmentation", "multistart"]
Extras = Annotated[tuple[Extra, ...], BeforeValidator(as_tuple), AfterValidator(distinct)]


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


class KSchedule(Model):
    """How K comes to that of the grid: it is `fixed`, or goes there from `first` by step `until`, linearly or in one step."""

    kind: Literal["fixed", "linear", "step"] = "fixed"
    first: AtLeastOne = 1
    until: AtLeastOne = 100


def _as_file(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class DataFile(Model):
    """A file, or a folder of files, and the hash of its content, which a sweep file need not give."""

    path: str
    sha256: str | None = None


class Evaluation(Model):
    """The Max@K curve of `samples` trajectories on each of `instances` held-out instances, or on those in a file.

    `extras` are measured at the end, and labelled: no estimates of Max@K. `reference` is the optimum of every
    instance that the optimality gap is told from.
    """

    every: AtLeastOne = 50
    instances: AtLeastTwo = 128
    samples: AtLeastOne = 64
    extras: Extras = ()
    data: Annotated[DataFile | None, BeforeValidator(_as_file)] = None
    reference: Literal["auto", "none", "exact", "pyvrp"] = "auto"


class TrainingSettings(Model):
    """The settings of a step, which may be others for some points of the grid.

    A step draws `batch` trajectories, n on each of batch / n instances: i.i.d., or with `multistart` each from a
    first action of its own, which is another objective. Rewards are multiplied by `reward_scale`, clipped and
    given their KL penalty in `reward_order`. Of truncated trajectories `mask_loss` drops the loss term,
    `mask_all` the part in their group's baseline too.
    """

    steps: AtLeastOne = 300
    batch: AtLeastOne = 256
    learning_rate: Positive = 1e-3
    max_grad_norm: Positive | None = None
    entropy_bonus: NotNegative = 0.0
    inner_epochs: AtLeastOne = 1
    start: Literal["iid", "multistart"] = "iid"
    reward_scale: Positive = 1.0
    reward_clip: Clip = None
    reward_order: Order = STAGES_OF_REWARDS  # type: ignore[assignment]
    kl: KL = KL()
    normalize_advantages: bool = False
    weight_normalization: Literal["none", "zscore", "sum_to_zero"] = "none"
    min_gap_scale: Positive | None = None
    loss: Loss = Loss()
    truncated: Literal["keep", "mask_loss", "mask_all"] = "keep"
    k_schedule: KSchedule = KSchedule()
    amp: bool = False


class Overrides(TrainingSettings):
    """Settings that hold for one entry of the grid only; what is not given is as everywhere."""

    def given(self) -> dict[str, Any]:
        """What is given, as plain JSON."""
        return self.model_dump(mode="json", exclude_unset=True)

    # A default that is given says more than one that is not.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Overrides) and self.given() == other.given()

    def __hash__(self) -> int:
        return hash(canonical_json(self.given()))


class TrainingGrid(Grid):
    """An entry of the grid of a training study, with the settings that hold for its points only."""

    overrides: Overrides = Field(default=Overrides(), alias="with")

    @model_serializer(mode="wrap")
    def _written(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        axes = {
            axis: value
            for axis, value in serialize(self).items()
            if axis not in ("with", "overrides")
        }
        given = self.overrides.given()
        return axes | ({"with": given} if given else {})


class TrainingStudy(TrainingSettings):
    """Policies trained by every point of the grid from the same start: what becomes of their Max@K curves.

    The policies after `snapshots` steps are kept.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    checkpoint_every: AtLeastOne = 50
    snapshots: Steps = ()
    evaluate: Evaluation = Evaluation()
    grid: OneOrMore[TrainingGrid]

    def settings(self) -> dict[str, Any]:
        """Everything but the grid, as plain JSON: what a worker is told of the training."""
        written = self.model_dump(mode="json", exclude={"grid"})
        told = _without_defaults(self, written, LATER)
        # Nothing reads the ends of a schedule that is none.
        if self.k_schedule.kind == "fixed":
            del told["k_schedule"]
        return told | {
            "evaluate": _without_defaults(self.evaluate, told["evaluate"], LATER_OF_EVALUATION)
        }

    def of_entry(self, entry: TrainingGrid) -> TrainingStudy:
        """The study whose grid is this entry alone, with the settings that hold for its points."""
        settings = merged(self.model_dump(exclude={"grid"}), entry.overrides.given())
        axes = {axis: getattr(entry, axis) for axis in Grid.model_fields}
        return TrainingStudy.model_validate(settings | {"grid": axes})


def _without_defaults(
    model: Model, written: Mapping[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    defaults = {name: field.default for name, field in type(model).model_fields.items()}
    return {
        name: value
        for name, value in written.items()
        if name not in names or getattr(model, name) != defaults[name]
    }


def merged(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with those of `given` in their place, block by block."""
    return dict(settings) | {
        name: merged(settings[name], value)
        if isinstance(value, Mapping) and isinstance(settings.get(name), Mapping)
        else value
        for name, value in given.items()
    }


def evaluated_ks(samples: int, *ks: int) -> tuple[int, ...]:
    """The K at which a final curve is kept: powers of two up to `samples`, `samples` itself, and `ks`."""
    powers = {2**power for power in range(samples.bit_length()) if 2**power <= samples}
    return tuple(sorted(powers | {samples, *ks}))
