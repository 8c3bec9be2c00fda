"""The shape of a training study in a sweep file: the settings of every step, their defaults unbiased."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from maxk_lab.fields import (
    Model,
    OneOrMore,
)
from maxk_lab.sweeps.plan.identity import canonical_json
from maxk_lab.sweeps.spec.fields import Grid
from maxk_lab.training.settings import Settings, StepSettings

# Settings that came later than the identity of cells: at their default they are left out of what a worker is told, so
# that older cells keep their ids.
LATER = ("start", "reward_scale", "amp", "device", "snapshots")
LATER_OF_EVALUATION = ("extras", "data", "reference")


class Overrides(StepSettings):
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


class TrainingStudy(Settings):
    """Policies trained by every point of the grid from the same start: their Max@K curves."""

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
