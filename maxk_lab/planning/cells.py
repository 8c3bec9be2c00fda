"""Cells, the points of a sweep with a record each, and the units that share their samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, ClassVar, Self

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.fields import start_words
from maxk_lab.planning.identity import (
    IDENTITY_VERSION,
    canonical_json,
    content_hash,
    environment_key,
    policy_key,
    with_removed_defaults,
    without_paths,
)
from maxk_lab.sweep_file.content import Content, named_content, rows_on_axes
from maxk_lab.sweep_file.studies import GRID_AXES

# Keys of a cell's JSON that are no part of its meaning.
OUTSIDE_MEANING = ("id", "setting")
# A grid point: its axes, and its stage and varied settings if it has them.
Point = dict[str, Any]
_json = lru_cache(maxsize=None, typed=True)(canonical_json)


@dataclass(frozen=True, eq=False, kw_only=True)
class Unit:
    """Cells that share their samples and run in one worker; each kind of study has a subclass.

    `sent` names the fields that a worker gets: everything that its numbers depend on except the
    grid points. `stage` counts the steps of training before the measurement; None in kinds without
    stages. `setting` has the values that the sweep varies. `content` has the hashes of user code
    and files. `like` is a unit that differs in its seed only, if any.
    """

    study: ClassVar[str]
    sent: ClassVar[tuple[str, ...]] = ()
    environment: Mapping[str, Any]
    policy: Mapping[str, Any]
    seed: int
    stage: int | None = None
    setting: Mapping[str, Any] = field(default_factory=dict)
    content: Content = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    like: Unit | None = field(default=None, repr=False)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """A cell for each point."""
        return tuple(Cell(self, **point) for point in self.points)

    def as_dict(self) -> dict[str, Any]:
        """Return everything that the worker gets and the cells share, as plain JSON."""
        fields = ((name, getattr(self, name)) for name in self.sent)
        sent = {n: dict(value) if isinstance(value, Mapping) else value for n, value in fields}
        return sent | ({"content": self.shared_content} if self.shared_content else {})

    @cached_property
    def shared_content(self) -> Content:
        """The content of everything that all cells name."""
        if not self.content:
            return {}
        return named_content(self.content, {name: getattr(self, name) for name in self.sent})

    @property
    def on_device(self) -> bool:
        """Whether the unit can use a CUDA device."""
        return False

    @property
    def id(self) -> str:
        """The id of the unit: the least id of its cells."""
        return min(cell.id for cell in self.cells)

    @property
    def label(self) -> str:
        """A short description, e.g. `tsp, weights, seed 1`, unique in its plan."""
        return f"{self.place}, {self.study}, seed {self.seed}"

    @property
    def place(self) -> str:
        """The environment with its varied settings, e.g. `bandit arms=8`."""
        varied = [
            f"{re.sub(r'^(environment|policy|behaviour)[.]', '', key)}={start_words(value)}"
            for key, value in self.setting.items()
            if key != "environment.name"
        ]
        return " ".join([self.environment["name"], *varied])

    def meaning(self) -> dict[str, Any]:
        """Return the settings that the cells of the unit share, without removed settings."""
        settings: dict[str, Any] = without_paths(self.as_dict())
        version = ENVIRONMENTS.get(self.environment["name"]).version
        return settings | ({} if version == 1 else {"environment_version": version})

    @cached_property
    def shared_meaning(self) -> dict[str, Any]:
        """All settings of a cell except its grid point, without removed settings."""
        return {"identity_version": IDENTITY_VERSION, "study": self.study, **self.meaning()}

    @cached_property
    def hashed_meaning(self) -> dict[str, Any]:
        """The shared meaning with removed settings at their old defaults, as ids hash it."""
        settings = dict(self.shared_meaning)
        # The settings of a training are a block; other kinds have fields of the unit.
        if self.study in settings:
            settings[self.study] = with_removed_defaults(settings[self.study], self.study)
        else:
            settings = with_removed_defaults(settings, self.study)
        settings["environment"] = environment_key(settings["environment"])
        if "policy" in settings:
            settings["policy"] = policy_key(settings["policy"], self.environment)
        return settings

    @cached_property
    def id_template(self) -> str:
        """The JSON that ids hash, to be formatted with the seed and the axes of a cell.

        Units that differ in their seeds share it, which makes large plans fast.
        """
        if self.like is not None:
            return self.like.id_template
        settings = {key: canonical_json(value) for key, value in self.hashed_meaning.items()}
        texts = {key: text.replace("%", "%%") for key, text in settings.items()}
        texts |= {name: f"%({name})s" for name in ("seed", *GRID_AXES)}
        return "{" + ",".join(f'"{key}":{texts[key]}' for key in sorted(texts)) + "}"

    def check_machine(self) -> None:
        """Raise `LabError` if this machine lacks a device that the unit needs."""

    def with_seeds(self, seeds: Iterable[int]) -> Iterator[Self]:
        """Yield the unit at each of these seeds."""
        like = self.like or self
        for seed in seeds:
            yield self if seed == self.seed else replace(self, seed=seed, like=like)

    def with_content(self, content: Content) -> Self:
        """Return the unit with the content of everything that the sweep names."""
        return replace(self, content=content, like=None)


@dataclass(frozen=True, eq=False)
class Cell:
    """A point of a grid at one seed, and at one stage if any; equal and hashed by its `id`."""

    unit: Unit = field(repr=False)
    estimator: str
    baseline: str
    n: int
    k: int

    @property
    def axes(self) -> Point:
        """The grid point without stage and setting."""
        return {axis: getattr(self, axis) for axis in GRID_AXES}

    def meaning(self) -> dict[str, Any]:
        """Return everything that distinguishes the cell, with the content that its axes name."""
        return self._with_axes(self.unit.shared_meaning)

    def _with_axes(self, shared: dict[str, Any]) -> dict[str, Any]:
        axes, content = self.axes, self.unit.content
        names = rows_on_axes(axes) if content else ()
        if named := {key: content[key] for key in names if key in content}:
            shared = shared | {"content": {**self.unit.shared_content, **named}}
        return shared | axes

    @cached_property
    def id(self) -> str:
        """The 16 hex digits that depend only on the resolved meaning of the cell."""
        unit = self.unit
        if unit.content:
            return content_hash(self._with_axes(unit.hashed_meaning))
        values = {axis: _json(getattr(self, axis)) for axis in GRID_AXES}
        text = unit.id_template % {"seed": unit.seed, **values}
        return sha256(text.encode()).hexdigest()[:16]

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
        """The values that the sweep varies; the identity has them resolved."""
        return self.unit.setting

    @property
    def seed(self) -> int:
        """The seed of the sweep that all randomness of the cell derives from."""
        return self.unit.seed

    @property
    def point(self) -> Point:
        """The place in the grid as claims and figures name it: axes, stage and varied settings."""
        stage = {} if self.stage is None else {"stage": self.stage}
        return self.axes | stage | {"setting": dict(self.setting)}

    def as_dict(self) -> dict[str, Any]:
        """Return the cell as plain JSON, with its id and its setting besides its meaning."""
        setting = {"setting": dict(self.setting)} if self.setting else {}
        return {"id": self.id, **self.meaning(), **setting}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)
