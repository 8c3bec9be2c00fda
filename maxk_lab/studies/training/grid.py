"""A training study in a sweep file, the points of its grid, and its units: one policy each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.fields import OneOrMore
from maxk_lab.planning.cells import Point, Unit
from maxk_lab.planning.grid import (
    Conditions,
    Refusal,
    Skipped,
    refused_k,
    refused_weight,
    repeated,
)
from maxk_lab.planning.identity import canonical_json, without_paths
from maxk_lab.removed import removed_row
from maxk_lab.settings import without_defaults
from maxk_lab.sweep_file.fields import AnyStudy, Grid
from maxk_lab.sweep_file.vary import Variant
from maxk_lab.training.settings import (
    WAYS,
    KScheduleSettings,
    Settings,
    StepSettings,
    Weighting,
    fit_refusal,
    schedule_refusal,
)

# Settings that are newer than the first records: see `without_defaults`.
LATER = ("start", "reward_scale", "device", "snapshots", "k_schedule")
LATER_EVALUATION = ("extras", "data", "reference", "temperatures", "tuning", "last")


class Overrides(StepSettings):
    """Settings for one entry of the grid; they replace the settings of the study."""

    def settings(self) -> dict[str, Any]:
        """Return the settings of the entry, as plain JSON."""
        return self.model_dump(mode="json", exclude_unset=True)

    # A default in the file counts as a setting of the entry.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Overrides) and self.settings() == other.settings()

    def __hash__(self) -> int:
        return hash(canonical_json(self.settings()))


class TrainingGrid(Grid):
    """An entry of the grid of a training study, with settings for its points only."""

    overrides: Overrides = Field(default=Overrides(), alias="with")

    @model_serializer(mode="wrap")
    def _written(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        axes = {
            axis: value
            for axis, value in serialize(self).items()
            if axis not in ("with", "overrides")
        }
        settings = self.overrides.settings()
        return axes | ({"with": settings} if settings else {})


class Study(Settings, AnyStudy):
    """Policies trained at every grid point from the same start, with their Max@K curves."""

    grid: OneOrMore[TrainingGrid]

    def settings(self) -> dict[str, Any]:
        """Return everything but the grid as plain JSON: the training for a worker."""
        settings = self.model_dump(mode="json", exclude={"grid"})
        written = Settings().model_dump(mode="json")
        later = {name: written[name] for name in LATER}
        later_evaluation = {name: written["evaluate"][name] for name in LATER_EVALUATION}
        evaluate = without_defaults(settings["evaluate"], later_evaluation)
        return without_defaults(settings, later) | {"evaluate": evaluate}

    def with_entry(self, entry: TrainingGrid) -> Study:
        """Return the study with this entry as its grid, and the settings of its points."""
        settings = merged(self.model_dump(exclude={"grid"}), entry.overrides.settings())
        axes = {axis: getattr(entry, axis) for axis in Grid.model_fields}
        return Study.model_validate(settings | {"grid": axes})

    def lacks(self, measure: str, points: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
        """Return why the K of `measure`, as in max@8, is not evaluated at both points of a pair.

        It may also be that a decoding is not measured.
        """
        if measure != "mean" and not measure.startswith("max@"):
            decodings = [name for extra in self.evaluate.extras for name in WAYS[extra]]
            among = f"; or a way of decoding: {', '.join(decodings)}" if decodings else ""
            if measure in decodings:
                return None
            unknown = f"must be mean or max@K{among}; got {measure}"
            return removed_row("measure", measure) or unknown
        at = 1 if measure == "mean" else int(measure.removeprefix("max@"))
        for pair in points:
            ks = [set(evaluated_ks(self.evaluate.samples, point["k"])) for point in pair]
            if at not in (common := set.intersection(*ks)):
                among = ", ".join(map(str, sorted(common)))
                return f"must be mean or max@K with K one of {among}, got {measure}"
        return None

    def lacks_decoding(self, decoding: str) -> str | None:
        """Return why a decoding is missing: no temperature is chosen, or no start is forced."""
        if decoding == "forced" and "multistart" not in self.evaluate.extras:
            return "forced needs multistart among evaluate.extras"
        if decoding == "best" and not (
            self.evaluate.tuning and len(self.evaluate.temperatures) > 1
        ):
            return (
                "best needs several evaluate.temperatures, and evaluate.tuning instances to choose "
                "one of them for each policy"
            )
        return None


def merged(settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` with the values of `overrides`, block by block."""
    return dict(settings) | {
        name: merged(settings[name], value)
        if isinstance(value, Mapping) and isinstance(settings.get(name), Mapping)
        else value
        for name, value in overrides.items()
    }


def evaluated_ks(samples: int, *ks: int) -> tuple[int, ...]:
    """Return the K at which a final curve is recorded.

    These are the powers of two up to `samples`, `samples` itself, and `ks`.
    """
    powers = {2**power for power in range(samples.bit_length()) if 2**power <= samples}
    return tuple(sorted(powers | {samples, *ks}))


# Settings that do not change a measured number.
WITHOUT_MEANING = ("checkpoint_every", "device", "snapshots")


@dataclass(frozen=True)
class TrainingConditions(Conditions):
    """The settings of a training that decide whether a point can run."""

    study: ClassVar[str] = "training"
    k_schedule: KScheduleSettings | None = None

    def refusal(self, point: Point) -> Refusal | None:
        """Return the axis at fault and why the point cannot run, or None."""
        if (refused := refused_k(point)) is not None:
            return refused
        weighting, schedule = Weighting(**point), self.k_schedule
        if schedule is not None:
            reason = schedule_refusal(weighting, schedule)
            if reason is not None:
                return "k", reason
        if (reason := fit_refusal(weighting)) is not None:
            return "baseline", reason
        return refused_weight(point, self.environment)


@dataclass(frozen=True)
class Training:
    """A point of the grid and the settings of its training.

    `setting` has the settings that differ between points.
    """

    point: Point
    settings: Mapping[str, Any]
    setting: Mapping[str, Any]


def conditions(study: Study, environment: str | None) -> TrainingConditions:
    """Return the conditions on a point in an environment, which may be unknown."""
    return TrainingConditions(environment, study.k_schedule)


def meaning_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a training that change a measured number."""
    named = {name: value for name, value in settings.items() if name not in WITHOUT_MEANING}
    meaning: dict[str, Any] = without_paths(named)
    return meaning


# Cached: the checks of a spec, its claims and its plan need the same grid.
@lru_cache(maxsize=8)
def training_points(
    study: Study, environment: str
) -> tuple[tuple[Training, ...], tuple[Skipped, ...]]:
    """Return the trainings of a study in an environment, and the skipped points with reasons."""
    trainings: dict[str, Training] = {}
    skipped: list[Skipped] = []
    # The settings that entries of the grid set, in the order of the file.
    varied = (key for entry in study.grid for key in _leaves(entry.overrides.settings()))
    keys = tuple(dict.fromkeys(varied))
    for entry in study.grid:
        single = study.with_entry(entry)
        points, left_out = conditions(single, environment).points(single.grid[0])
        setting = _setting(single, tuple(_leaves(entry.overrides.settings())))
        skipped += [replace(each, point={**each.point, **setting}) for each in left_out]
        for point in points:
            trained = _as_trained(single, point)
            settings = trained.settings()
            meaning = canonical_json({"point": point, "training": meaning_of(settings)})
            if meaning in trainings:
                skipped.append(repeated({**point, **setting}, "training"))
                continue
            trainings[meaning] = Training(point, settings, _setting(trained, keys))
    return tuple(trainings.values()), tuple(skipped)


def _as_trained(study: Study, point: Point) -> Study:
    """Return the study with the settings that have an effect at the point.

    An estimator without K has no schedule, and a fixed schedule has no ends.
    """
    takes_k = choose_estimator(point["estimator"]).row.fixed_k is None
    if takes_k and study.k_schedule.kind != "fixed":
        return study
    return study.model_copy(update={"k_schedule": KScheduleSettings()})


def _leaves(settings: Mapping[str, Any], inside: Sequence[str] = ()) -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*inside, name))
        else:
            yield ".".join((*inside, name))


def _setting(study: Study, keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of these keys as claims and figures name them."""
    # A fixed schedule has no ends.
    unread = ("k_schedule.first", "k_schedule.until") if study.k_schedule.kind == "fixed" else ()
    setting = {}
    for key in keys:
        value: Any = study.model_dump(mode="json", exclude={"grid"})
        for step in key.split("."):
            value = value[step]
        if key not in unread:
            setting[key] = setting_text(value)
    return setting


def setting_text(value: Any) -> Any:
    """Return the value of a setting as claims and figures name it: a list as text, null as none."""
    text = f"[{', '.join(map(str, value))}]" if isinstance(value, list | tuple) else value
    return "none" if value is None else text


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingUnit(Unit):
    """The unit of one trained policy, with one cell."""

    study: ClassVar[str] = "training"
    sent: ClassVar[tuple[str, ...]] = ("environment", "policy", "training", "seed")
    training: Mapping[str, Any]

    def meaning(self) -> dict[str, Any]:
        """Return the part of the unit that distinguishes its cell."""
        return super().meaning() | {"training": meaning_of(self.training)}

    @property
    def label(self) -> str:
        """Return a short description, e.g. `toy_llm, maxk/centred n=16 k=8, seed 1`."""
        points = ", ".join(f"{c.estimator}/{c.baseline} n={c.n} k={c.k}" for c in self.cells)
        return f"{self.place}, {points}, seed {self.seed}"

    @property
    def on_device(self) -> bool:
        """Return whether it trains on a CUDA device if there is one."""
        places = "cuda" in ENVIRONMENTS.get(self.environment["name"]).supports
        return places and bool(self.training.get("device", "auto") != "cpu")

    def check_machine(self) -> None:
        """Raise `LabError` if the training asks for a CUDA device and there is none.

        Imports torch in this case.
        """
        if self.training.get("device") == "cuda":
            from maxk_lab.training.evaluation import resolve_device

            resolve_device("cuda")


def left_out(study: Study, environment: str) -> list[Skipped]:
    """Return the points of the grid that are not measured in this environment."""
    return list(training_points(study, environment)[1])


def units(
    study: Study, seeds: Sequence[int], variants: Sequence[Variant]
) -> Iterator[TrainingUnit]:
    """Yield all settings and points of a seed before the next seed.

    An unfinished sweep then has complete seeds to compare.
    """
    first = [
        TrainingUnit(
            environment=variant.environment,
            policy=variant.policy,
            seed=seeds[0],
            training=training.settings,
            setting={**variant.setting, **training.setting},
            points=(training.point,),
        )
        for variant in variants
        for training in training_points(study, variant.environment["name"])[0]
    ]
    for seed in seeds:
        for unit in first:
            yield from unit.with_seeds([seed])
