"""Cells, points of a sweep with a record each, and the units that a worker measures at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.planning.content import named_content, named_on_axes
from maxk_lab.planning.identity import (
    IDENTITY_VERSION,
    Content,
    content_hash,
    environment_key,
    with_removed_defaults,
    without_paths,
)
from maxk_lab.sweep_file.studies import GRID_AXES

# Keys of a cell as JSON that are no part of its meaning.
OUTSIDE_MEANING = ("id", "setting")
# A grid point: its axes, and its stage and varied settings where it has them.
Point = dict[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Unit:
    """Cells that share their samples and run in one worker; every kind of study has its own.

    `stage` counts the steps of training before anything is measured, None in kinds without stages.
    `setting` has the values of what the sweep varies. `content` tells what is behind the names in
    the sweep where that is not the lab's own. `told` names the fields that a worker is told, all
    that what it measures depends on but the grid points.
    """

    study: ClassVar[str]
    told: ClassVar[tuple[str, ...]] = ()
    # Whether the cells rest on work that is done once for all of them; else each is on its own.
    shares: ClassVar[bool] = True
    environment: Mapping[str, Any]
    policy: Mapping[str, Any]
    seed: int
    stage: int | None = None
    setting: Mapping[str, Any] = field(default_factory=dict)
    content: Content = field(default_factory=dict)
    cells: tuple[Cell, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return all that the worker is told, as plain JSON: what the cells share."""
        fields = ((name, getattr(self, name)) for name in self.told)
        told = {n: dict(value) if isinstance(value, Mapping) else value for n, value in fields}
        return told | ({"content": self.own_content} if self.own_content else {})

    @cached_property
    def own_content(self) -> Content:
        """The content of what all of its cells name."""
        if not self.content:
            return {}
        told = {name: getattr(self, name) for name in self.told}
        return named_content(self.content, told)

    @property
    def on_device(self) -> bool:
        """Whether it can use a CUDA device."""
        return False

    @property
    def id(self) -> str:
        """The id of the unit: the least of those of its cells, which no other unit has."""
        return min(cell.id for cell in self.cells)

    @property
    def label(self) -> str:
        """A few words for people, e.g. `tsp, weights, seed 1`; no two units share them."""
        return f"{self.place}, {self.study}, seed {self.seed}"

    def meaning(self) -> dict[str, Any]:
        """Return the settings that the cells of the unit share, without removed ones."""
        settings: dict[str, Any] = without_paths(self.as_dict())
        version = ENVIRONMENTS.get(self.environment["name"]).version
        return settings | ({} if version == 1 else {"environment_version": version})

    @cached_property
    def shared_meaning(self) -> dict[str, Any]:
        """All settings of a cell except its grid point, without removed ones."""
        return {"identity_version": IDENTITY_VERSION, "study": self.study, **self.meaning()}

    @cached_property
    def hashed_meaning(self) -> dict[str, Any]:
        """The same with removed settings at their old defaults, as ids hash it."""
        settings = dict(self.shared_meaning)
        # The settings of most kinds are fields of the unit, those of a training a block of it.
        if self.study in settings:
            settings[self.study] = with_removed_defaults(settings[self.study], self.study)
        else:
            settings = with_removed_defaults(settings, self.study)
        settings["environment"] = environment_key(settings["environment"])
        if "policy" in settings:
            owner = f"policy.{self.environment['name']}"
            settings["policy"] = with_removed_defaults(settings["policy"], owner)
        return settings

    def check_machine(self) -> None:
        """Raise `LabError` if this machine lacks a device that the unit needs."""

    def with_points(self, points: Iterable[Point]) -> Self:
        """Return the unit with a cell for each of these grid points."""
        return replace(self, cells=tuple(Cell(self, **point) for point in points))

    def with_content(self, content: Content) -> Self:
        """Return the unit with the content of what the sweep names."""
        bare = replace(self, content=content, cells=())
        return replace(bare, cells=tuple(replace(cell, unit=bare) for cell in self.cells))

    @property
    def place(self) -> str:
        """The environment with what is varied, e.g. `bandit arms=8`."""
        varied = [
            f"{key.removeprefix('environment.').removeprefix('policy.').removeprefix('behaviour.')}"
            f"={value}"
            for key, value in self.setting.items()
            if key != "environment.name"
        ]
        return " ".join([self.environment["name"], *varied])


@dataclass(frozen=True, eq=False)
class Cell:
    """A point of a grid at one seed, and stage if there are any; equal and hashed by its `id`."""

    unit: Unit = field(repr=False)
    estimator: str
    baseline: str
    n: int
    k: int

    @property
    def _axes(self) -> Point:
        return {axis: getattr(self, axis) for axis in GRID_AXES}

    def meaning(self) -> dict[str, Any]:
        """Return all that tells the cell from others, with the content of what its axes name."""
        return self._with_axes(self.unit.shared_meaning)

    def _with_axes(self, shared: dict[str, Any]) -> dict[str, Any]:
        axes, content = self._axes, self.unit.content
        names = named_on_axes(axes) if content else ()
        if own := {key: content[key] for key in names if key in content}:
            shared = shared | {"content": {**self.unit.own_content, **own}}
        return shared | axes

    @cached_property
    def id(self) -> str:
        """16 hex digits that depend on the resolved meaning of the cell and on nothing else."""
        return content_hash(self._with_axes(self.unit.hashed_meaning))

    @property
    def study(self) -> str:
        """The kind of study, by its name in the catalogue."""
        return self.unit.study

    @property
    def stage(self) -> int | None:
        """The stage of the unit."""
        return self.unit.stage

    @property
    def setting(self) -> Mapping[str, Any]:
        """The values of what the sweep varies; no part of the identity, which has them resolved."""
        return self.unit.setting

    @property
    def seed(self) -> int:
        """The seed of the spec that all randomness of the cell derives from."""
        return self.unit.seed

    @property
    def point(self) -> Point:
        """The place in the grid as claims and figures name it: axes, stage and varied settings."""
        stage = {} if self.stage is None else {"stage": self.stage}
        return self._axes | stage | {"setting": dict(self.setting)}

    @property
    def place(self) -> str:
        """The place in the sweep but for the grid point: `stage 200`, or the name of the study."""
        return self.study if self.stage is None else f"stage {self.stage}"

    def as_dict(self) -> dict[str, Any]:
        """Return the cell as plain JSON, with its id and, outside its meaning, its setting."""
        setting = {"setting": dict(self.setting)} if self.setting else {}
        return {"id": self.id, **self.meaning(), **setting}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)
