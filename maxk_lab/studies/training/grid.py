"""The grid of a training study: its points, each with the settings that it is trained with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.studies.training.schema import Study
from maxk_lab.sweeps.plan.cells import Point
from maxk_lab.sweeps.plan.grid import (
    Conditions,
    Refusal,
    Skipped,
    refused_k,
    refused_weight,
    repeated,
)
from maxk_lab.sweeps.plan.identity import canonical_json, without_paths
from maxk_lab.training.refusals import Weighting, fit_refusal, schedule_refusal
from maxk_lab.training.settings import KScheduleSettings

# Settings that change nothing that is measured.
WITHOUT_MEANING = ("checkpoint_every", "device", "snapshots")


@dataclass(frozen=True)
class TrainingConditions(Conditions):
    """The settings of a training that decide whether a point can run."""

    study: ClassVar[str] = "training"
    batch: int | None = None
    steps: int | None = None
    k_schedule: KScheduleSettings | None = None

    def refusal(self, point: Point) -> Refusal | None:
        """Return the axis that is at fault and why the point cannot run, or None."""
        if (refused := refused_k(point)) is not None:
            return refused
        weighting, schedule = Weighting(**point), self.k_schedule
        if schedule is not None:
            reason = schedule_refusal(weighting, schedule, self.steps)
            if reason is not None:
                return "k", reason
        if (reason := fit_refusal(weighting, self.batch)) is not None:
            return "baseline", reason
        return refused_weight(point, self.environment)


@dataclass(frozen=True)
class Training:
    """A point of the grid and the settings of its training.

    `setting` has those that are not the same for all points.
    """

    point: Point
    settings: Mapping[str, Any]
    setting: Mapping[str, Any]


def conditions(study: Study | None, environment: str | None) -> TrainingConditions:
    """Return what decides whether a point can run, as far as study and environment are known."""
    if study is None:
        return TrainingConditions(environment)
    return TrainingConditions(environment, study.batch, study.steps, study.k_schedule)


def meaning_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a training that change what is measured."""
    kept = {name: value for name, value in settings.items() if name not in WITHOUT_MEANING}
    meaning: dict[str, Any] = without_paths(kept)
    return meaning


# The checks of a spec, its claims and its plan all ask for the same grid.
@lru_cache(maxsize=8)
def training_points(
    study: Study, environment: str
) -> tuple[tuple[Training, ...], tuple[Skipped, ...]]:
    """Return the trainings of a study in this environment, and the points left out with why."""
    found: dict[str, Training] = {}
    skipped: list[Skipped] = []
    keys = varied_settings(study)
    for entry in study.grid:
        own = study.of_entry(entry)
        points, left_out = conditions(own, environment).points(own.grid[0])
        told = _setting(own, tuple(_leaves(entry.overrides.given())))
        skipped += [replace(one, point={**one.point, **told}) for one in left_out]
        for point in points:
            trained = _as_trained(own, point)
            settings = trained.settings()
            meaning = canonical_json({"point": point, "training": meaning_of(settings)})
            if meaning in found:
                skipped.append(repeated({**point, **told}, "training"))
                continue
            found[meaning] = Training(point, settings, _setting(trained, keys))
    return tuple(found.values()), tuple(skipped)


def varied_settings(study: Study) -> tuple[str, ...]:
    """Return the dotted names of all settings that an entry of the grid has for itself.

    They are in the order of the file.
    """
    return tuple(
        dict.fromkeys(key for entry in study.grid for key in _leaves(entry.overrides.given()))
    )


def _as_trained(study: Study, point: Point) -> Study:
    """Return the study with the settings that say something at the point.

    An estimator that takes no K has no schedule of it, and nothing reads the ends of one that is
    fixed.
    """
    takes_k = choose_estimator(point["estimator"]).row.fixed_k is None
    if takes_k and study.k_schedule.kind != "fixed":
        return study
    return study.model_copy(update={"k_schedule": KScheduleSettings()})


def _leaves(given: Mapping[str, Any], inside: Sequence[str] = ()) -> Iterator[str]:
    for name, value in given.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*inside, name))
        else:
            yield ".".join((*inside, name))


def _setting(study: Study, keys: Sequence[str]) -> dict[str, Any]:
    written = study.model_dump(mode="json", exclude={"grid"})
    # Where K is fixed, nothing reads the ends of a schedule.
    unread = ("k_schedule.first", "k_schedule.until") if study.k_schedule.kind == "fixed" else ()
    return {key: _single(_at(written, key)) for key in keys if key not in unread}


def _at(written: Any, key: str) -> Any:
    for step in key.split("."):
        written = written[step]
    return written


def _single(value: Any) -> Any:
    """Return a value as claims and figures can name it: lists as text, null as none."""
    if value is None:
        return "none"
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else value
