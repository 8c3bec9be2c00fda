"""Cells, the points of a sweep that each get a record, and the units of work that a worker measures at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from maxk_lab.sweeps.plan.identity import IDENTITY_VERSION, content_hash

STUDIES = ("gradient", "training", "objective", "weights")
GRID_AXES = ("estimator", "baseline", "n", "k")
# Keys of a cell as JSON that are no part of its meaning.
OUTSIDE_MEANING = ("id", "setting")
# Settings of a training study that change nothing that is measured.
WITHOUT_MEANING = ("checkpoint_every", "device", "snapshots")


def policy_meaning(policy: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved policy without the path of its checkpoint: the file's content is what tells policies apart."""
    if "checkpoint" not in policy:
        return dict(policy)
    return {**policy, "checkpoint": {"sha256": policy["checkpoint"]["sha256"]}}


def training_meaning(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a training that change what is measured; of its evaluation set, the content."""
    evaluate = dict(settings["evaluate"])
    if "data" in evaluate:
        evaluate["data"] = {"sha256": evaluate["data"]["sha256"]}
    kept = {name: value for name, value in settings.items() if name not in WITHOUT_MEANING}
    return kept | {"evaluate": evaluate}


@dataclass(frozen=True, eq=False)
class Unit:
    """Cells of one environment, policy, stage and seed: they share one score pool and run in one worker."""

    study: ClassVar[str] = "gradient"
    environment: Mapping[str, Any]
    policy: Mapping[str, Any]
    warmup: Mapping[str, Any]
    stage: int
    seed: int
    instances: int
    pool: int
    partitions: int
    complete: bool = False
    # How far the policy that draws the trajectories is from the one whose gradient is estimated.
    distance: float = 0.0
    setting: Mapping[str, Any] = field(default_factory=dict)
    cells: tuple[Cell, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Everything that the shared pool depends on, and how it is measured: plain JSON."""
        shared = ("environment", "policy", "warmup")
        # Only where they are asked for, so that all other cells are what they were before they could be.
        single = ("stage", "seed", "instances", "pool", "partitions", *["complete"] * self.complete)
        behaviour = {"behaviour": {"distance": self.distance}} if self.distance > 0 else {}
        return (
            {name: dict(getattr(self, name)) for name in shared}
            | {name: getattr(self, name) for name in single}
            | behaviour
        )

    def meaning(self) -> dict[str, Any]:
        """The part of the unit that tells its cells from those of others."""
        return self.as_dict() | {"policy": policy_meaning(self.policy)}

    @property
    def label(self) -> str:
        """A few words for people, e.g. `tsp, stage 200, seed 1`."""
        return f"{_place(self.environment, self.setting)}, stage {self.stage}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class TrainingUnit:
    """One policy to train, which is one cell: workers train different ones side by side."""

    study: ClassVar[str] = "training"
    stage: ClassVar[None] = None
    environment: Mapping[str, Any]
    policy: Mapping[str, Any]
    seed: int
    training: Mapping[str, Any]
    setting: Mapping[str, Any] = field(default_factory=dict)
    cells: tuple[Cell, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Everything that the training depends on but its point of the grid: plain JSON."""
        names = ("environment", "policy", "training")
        return {name: dict(getattr(self, name)) for name in names} | {"seed": self.seed}

    def meaning(self) -> dict[str, Any]:
        """The part of the unit that tells its cell from others."""
        return self.as_dict() | {
            "policy": policy_meaning(self.policy),
            "training": training_meaning(self.training),
        }

    @property
    def label(self) -> str:
        """A few words for people, e.g. `toy_llm, maxk/centred n=16 k=8, seed 1`."""
        points = ", ".join(f"{c.estimator}/{c.baseline} n={c.n} k={c.k}" for c in self.cells)
        return f"{_place(self.environment, self.setting)}, {points}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class ObjectiveUnit:
    """The exact objectives of one environment along one of its policy's parameters, or its own."""

    study: ClassVar[str] = "objective"
    stage: ClassVar[None] = None
    setting: ClassVar[Mapping[str, Any]] = {}
    environment: Mapping[str, Any]
    policy: Mapping[str, Any]
    seed: int
    objective: Mapping[str, Any]
    cells: tuple[Cell, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Everything that the values depend on but the objective: plain JSON, `objective` has parameter, from, to, points."""
        names = ("environment", "policy", "objective")
        return {name: dict(getattr(self, name)) for name in names} | {"seed": self.seed}

    def meaning(self) -> dict[str, Any]:
        """The part of the unit that tells its cells from those of others."""
        return self.as_dict() | {"policy": policy_meaning(self.policy)}

    @property
    def label(self) -> str:
        """A few words for people, e.g. `gaussian, along policy.mean, seed 0`."""
        return f"{self.environment['name']}, along {self.objective['parameter']}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class WeightsUnit:
    """Groups of rewards of one environment, policy and seed, whose weights are shown."""

    study: ClassVar[str] = "weights"
    stage: ClassVar[None] = None
    environment: Mapping[str, Any]
    policy: Mapping[str, Any]
    seed: int
    groups: int
    setting: Mapping[str, Any] = field(default_factory=dict)
    cells: tuple[Cell, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Everything that the groups depend on but their size: plain JSON."""
        names = ("environment", "policy")
        return {name: dict(getattr(self, name)) for name in names} | {
            "seed": self.seed,
            "groups": self.groups,
        }

    def meaning(self) -> dict[str, Any]:
        """The part of the unit that tells its cells from those of others."""
        return self.as_dict() | {"policy": policy_meaning(self.policy)}

    @property
    def label(self) -> str:
        """A few words for people, e.g. `gaussian mean=1.0, weights, seed 0`."""
        return f"{_place(self.environment, self.setting)}, weights, seed {self.seed}"


AnyUnit = Unit | TrainingUnit | ObjectiveUnit | WeightsUnit


def _place(environment: Mapping[str, Any], setting: Mapping[str, Any]) -> str:
    """The environment with what is varied, e.g. `bandit arms=8`."""
    varied = (
        f"{key.removeprefix('environment.').removeprefix('policy.').removeprefix('behaviour.')}={value}"
        for key, value in setting.items()
        if key != "environment.name"
    )
    return " ".join([environment["name"], *varied])


@dataclass(frozen=True, eq=False)
class Cell:
    """One point of a grid at one seed (and stage of a gradient study); equal and hashed by its `id`."""

    unit: AnyUnit = field(repr=False)
    estimator: str
    baseline: str
    n: int
    k: int

    @cached_property
    def _meaning(self) -> dict[str, Any]:
        return {
            "identity_version": IDENTITY_VERSION,
            "study": self.study,
            **self.unit.meaning(),
            **{axis: getattr(self, axis) for axis in GRID_AXES},
        }

    @cached_property
    def id(self) -> str:
        """16 hex digits that depend on the resolved meaning of the cell and on nothing else."""
        return content_hash(self._meaning)

    @property
    def study(self) -> str:
        """One of `STUDIES`."""
        return self.unit.study

    @property
    def stage(self) -> int | None:
        """Steps of warm-up before measuring; None outside a gradient study."""
        return self.unit.stage

    @property
    def setting(self) -> Mapping[str, Any]:
        """What the sweep varies, with its values here; no part of the identity, which has them resolved."""
        return self.unit.setting

    @property
    def seed(self) -> int:
        """The seed of the spec that all randomness of the cell derives from."""
        return self.unit.seed

    @property
    def place(self) -> str:
        """Where in the sweep the cell is, but for its point of the grid: `stage 200` or `training`."""
        return self.study if self.stage is None else f"stage {self.stage}"

    def as_dict(self) -> dict[str, Any]:
        """The cell as plain JSON, with its id and, outside its meaning, its setting."""
        setting = {"setting": dict(self.setting)} if self.setting else {}
        return {"id": self.id, **self._meaning, **setting}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)
