"""The shape of a training study in a sweep file: its settings and its grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from maxk_lab.fields import Model, OneOrMore
from maxk_lab.sweeps.plan.identity import canonical_json, without_defaults
from maxk_lab.sweeps.spec.fields import AnyStudy, Grid
from maxk_lab.training.settings import WAYS, EvaluationSettings, Settings, StepSettings

# Settings that came later than the first records: see `without_defaults`.
LATER = ("start", "reward_scale", "device", "snapshots", "k_schedule")
LATER_EVALUATION = ("extras", "data", "reference", "temperatures", "tuning", "last")


class Overrides(StepSettings):
    """Settings that hold for one entry of the grid only; what is not given is as everywhere."""

    def given(self) -> dict[str, Any]:
        """Return what is given, as plain JSON."""
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


class Study(Settings, AnyStudy):
    """Policies trained by every point of the grid from the same start: their Max@K curves."""

    grid: OneOrMore[TrainingGrid]

    def settings(self) -> dict[str, Any]:
        """Return everything but the grid, as plain JSON: what a worker is told of the training."""
        told = self.model_dump(mode="json", exclude={"grid"})
        evaluate = without_defaults(
            told["evaluate"], _defaults(EvaluationSettings, LATER_EVALUATION)
        )
        return without_defaults(told, _defaults(Settings, LATER)) | {"evaluate": evaluate}

    def of_entry(self, entry: TrainingGrid) -> Study:
        """Return the study whose grid is this entry alone, with the settings of its points."""
        settings = merged(self.model_dump(exclude={"grid"}), entry.overrides.given())
        axes = {axis: getattr(entry, axis) for axis in Grid.model_fields}
        return Study.model_validate(settings | {"grid": axes})

    def lacks(self, measure: str, points: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
        """Return why the K of `measure`, as in max@8, is not evaluated at both points of a pair.

        Or why a way of decoding is not measured.
        """
        if measure != "mean" and not measure.startswith("max@"):
            return self._lacks_way(measure)
        at = 1 if measure == "mean" else int(measure.removeprefix("max@"))
        for pair in points:
            known = [evaluated_ks(self.evaluate.samples, point["k"]) for point in pair]
            if any(at not in ks for ks in known):
                common = sorted(set(known[0]).intersection(*known[1:]))
                among = ", ".join(map(str, common))
                return f"must be mean or max@K with K one of {among}, got {measure}"
        return None

    def _lacks_way(self, way: str) -> str | None:
        known = [way for extra in self.evaluate.extras for way in WAYS[extra]]
        known += ["own_way"] if self.evaluate.tuning else []
        if way in known:
            return None
        among = f"; or a way of decoding: {', '.join(known)}" if known else ""
        return f"must be mean or max@K{among}; got {way}"

    def lacks_decoding(self, decoding: str) -> str | None:
        """Return why no temperature is chosen for each policy, where `best` asks for one."""
        if decoding == "best" and not (
            self.evaluate.tuning and len(self.evaluate.temperatures) > 1
        ):
            return (
                "best needs several evaluate.temperatures, and evaluate.tuning instances to choose "
                "one of them for each policy"
            )
        return None


def _defaults(model: type[Model], names: Iterable[str]) -> dict[str, Any]:
    written = model().model_dump(mode="json")
    return {name: written[name] for name in names}


def merged(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` with those of `given` in their place, block by block."""
    return dict(settings) | {
        name: merged(settings[name], value)
        if isinstance(value, Mapping) and isinstance(settings.get(name), Mapping)
        else value
        for name, value in given.items()
    }


def evaluated_ks(samples: int, *ks: int) -> tuple[int, ...]:
    """Return the K at which a final curve is kept.

    These are the powers of two up to `samples`, `samples` itself, and `ks`.
    """
    powers = {2**power for power in range(samples.bit_length()) if 2**power <= samples}
    return tuple(sorted(powers | {samples, *ks}))
