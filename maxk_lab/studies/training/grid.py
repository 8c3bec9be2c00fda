"""The grid of a training study: its points, each with the settings that it is trained with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.studies.training.schema import TrainingStudy
from maxk_lab.sweeps.plan.cells import training_meaning
from maxk_lab.sweeps.plan.grid import Conditions, Point, Skipped, grid_points, repeated
from maxk_lab.sweeps.plan.identity import canonical_json
from maxk_lab.training.settings import KScheduleSettings


@dataclass(frozen=True)
class Training:
    """A point of the grid, the settings of its training, and those of them that are not the same for all points."""

    point: Point
    settings: Mapping[str, Any]
    setting: Mapping[str, Any]


def training_points(study: TrainingStudy, environment: str) -> tuple[list[Training], list[Skipped]]:
    """The trainings of a study in the environment of this name, and what is left out of its grid, with why."""
    trainings, skipped = _training_points(study, environment)
    return list(trainings), list(skipped)


# The checks of a spec, its claims and its plan all ask for the same grid.
@lru_cache(maxsize=8)
def _training_points(
    study: TrainingStudy, environment: str
) -> tuple[tuple[Training, ...], tuple[Skipped, ...]]:
    found: dict[str, Training] = {}
    skipped: list[Skipped] = []
    keys = varied_settings(study)
    for entry in study.grid:
        own = study.of_entry(entry)
        points, left_out = grid_points(own.grid[0], Conditions.of(own, environment))
        told = _setting(own, tuple(_leaves(entry.overrides.given())))
        skipped += [replace(one, point={**one.point, **told}) for one in left_out]
        for point in points:
            trained = _as_trained(own, point)
            settings = trained.settings()
            meaning = canonical_json({"point": point, "training": training_meaning(settings)})
            if meaning in found:
                skipped.append(repeated({**point, **told}, "training"))
                continue
            found[meaning] = Training(point, settings, _setting(trained, keys))
    return tuple(found.values()), tuple(skipped)


def varied_settings(study: TrainingStudy) -> tuple[str, ...]:
    """The dotted names of all settings that an entry of the grid has for itself, in the order of the file."""
    return tuple(
        dict.fromkeys(key for entry in study.grid for key in _leaves(entry.overrides.given()))
    )


def _as_trained(study: TrainingStudy, point: Point) -> TrainingStudy:
    """The settings that say something at the point: an estimator that takes no K has no schedule of it."""
    if choose_estimator(point["estimator"]).row.fixed_k is None:
        return study
    return study.model_copy(update={"k_schedule": KScheduleSettings()})


def _leaves(given: Mapping[str, Any], inside: Sequence[str] = ()) -> Iterator[str]:
    for name, value in given.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*inside, name))
        else:
            yield ".".join((*inside, name))


def _setting(study: TrainingStudy, keys: Sequence[str]) -> dict[str, Any]:
    written = study.model_dump(mode="json", exclude={"grid"})
    # Where K is fixed, nothing reads the ends of a schedule.
    unread = ("k_schedule.first", "k_schedule.until") if study.k_schedule.kind == "fixed" else ()
    return {key: _single(_at(written, key)) for key in keys if key not in unread}


def _at(written: Any, key: str) -> Any:
    for step in key.split("."):
        written = written[step]
    return written


def _single(value: Any) -> Any:
    """A value as claims and figures can name it: lists as text, null as none."""
    if value is None:
        return "none"
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else value
