"""The units of a gradient study: the cells of a place, stage and seed share one score pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.estimators.method import Method
from maxk_lab.studies.gradient.schema import Study
from maxk_lab.sweeps.plan.cells import Point, Unit
from maxk_lab.sweeps.plan.grid import (
    Conditions,
    Refusal,
    Skipped,
    points_of,
    refused_k,
    refused_tokens,
    refused_weight,
)
from maxk_lab.sweeps.plan.identity import without_defaults
from maxk_lab.sweeps.plan.needs import Need
from maxk_lab.sweeps.spec.variation import Variant

# Cost of a decision of a trajectory in the warm-up, when a pool is drawn, and when it is scored, as
# measured on TSP20.
WARMUP_COST = 0.17
SAMPLE_COST = 0.03
SCORE_COST = 0.47
# What a record holds: 2 since the groups of an instance are cut into independent blocks, of which
# it keeps the spread; 3 since the layers of a policy tell its scores, with other last digits. Cells
# measured before that are measured anew.
RECORD_VERSION = 3
# Bytes of a member of a group under one partition: its place, twice, its row, reward and ratio.
PER_MEMBER = 40
# The share of trajectories that differ from all others, at least: of a policy that is not trained,
# and of one that is.
DISTINCT = (0.5, 0.1)
# Scores of up to this many parameters are kept as they are, as `gradients.scores.parts` has it.
FEW_PARAMETERS = 64
# Settings that came later than the first records, each with the value that stands for its absence.
LATER: Mapping[str, Any] = {"complete": False, "behaviour": {"distance": 0.0}}


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientUnit(Unit):
    """Cells of one environment, policy, stage and seed.

    `distance` is how far the policy that draws the trajectories is from the one whose gradient is
    estimated.
    """

    study: ClassVar[str] = "gradient"
    told: ClassVar[tuple[str, ...]] = (
        *("environment", "policy", "warmup", "stage", "seed"),
        *("instances", "pool", "partitions", "complete"),
    )
    warmup: Mapping[str, Any]
    instances: int
    pool: int
    partitions: int
    complete: bool
    distance: float

    def meaning(self) -> dict[str, Any]:
        """Return the part of the unit that tells its cells from others."""
        return super().meaning() | {"record_version": RECORD_VERSION}

    def as_dict(self) -> dict[str, Any]:
        """Return all that the pool depends on and how it is measured."""
        return without_defaults(
            super().as_dict() | {"behaviour": {"distance": self.distance}}, LATER
        )

    def work(self) -> dict[str, float]:
        """Return the work of the warm-up and of the scores."""
        steps = self.stage or 0
        trained = steps * self.warmup["batch"] * self.warmup["n"] if self.warmup else 0
        return {
            "warmup": WARMUP_COST * self.decisions * trained,
            "scores": self.decisions * self.instances * self._cost_of_scores(),
        }

    def memory(self) -> Sequence[Need]:
        """Return the warm-up, the trajectories of an instance, their products, and their groups."""
        each, pool, sizes = self.footprint, self.pool, self.sizes
        number = {"gradient.pool": pool, "gradient.instances": self.instances}
        found = [
            Need(
                pool * each.sampled + each.policy,
                f"the rollouts of {pool:,} trajectories",
                {"gradient.pool": pool, **sizes},
            ),
            Need(
                self.instances * each.instance,
                f"{self.instances:,} instances",
                {"gradient.instances": self.instances, **sizes},
            ),
            Need(
                PER_MEMBER * self.partitions * self.instances * pool,
                f"the groups of {self.instances:,} × {pool:,} trajectories, "
                f"cut in {self.partitions:,} ways",
                {**number, "gradient.partitions": self.partitions},
            ),
            *self._products(number),
        ]
        if self.warmup:
            batch, n = self.warmup["batch"], self.warmup["n"]
            found.append(
                Need(
                    batch * n * each.taught + 4 * each.policy,
                    f"a step of {batch:,} × {n:,} trajectories with its backward pass",
                    {"gradient.warmup.batch": batch, "gradient.warmup.n": n, **sizes},
                )
            )
        return found

    def _products(self, number: Mapping[str, float]) -> Iterator[Need]:
        """Yield the matrices of all products of scores; none where trajectories may be listed."""
        row, each = ENVIRONMENTS.get(self.environment["name"]), self.footprint
        if row.enumerable({**self.environment, **self.policy}):
            return
        # Equal trajectories share a row. Of few parameters the scores themselves are kept, else
        # the matrix is there twice: as made, and with those of the other instances.
        rows = min(DISTINCT[bool(self.stage)] * self.pool, each.different / 2)
        few = each.policy / 8 <= FEW_PARAMETERS
        columns = each.policy / 8 if few else rows * min(2, self.instances)
        yield Need(
            8 * self.instances * rows * columns,
            f"the products of the scores of {self.instances:,} × {self.pool:,} trajectories",
            {**number, "gradient.pool": self.pool**2},
        )

    def lengths(self) -> Mapping[str, float]:
        """Return the settings that its work grows with."""
        warmup = self.warmup
        trained = {
            "gradient.stages": self.stage or 0,
            "gradient.warmup.batch": warmup["batch"],
            "gradient.warmup.n": warmup["n"],
        }
        own = {"gradient.pool": self.pool, "gradient.instances": self.instances}
        return {**own, **(trained if warmup else {}), **self.sizes}

    def _cost_of_scores(self) -> float:
        """Return the work of a decision on one instance: equal trajectories share a score."""
        different = min(self.pool, self.footprint.different)
        return SAMPLE_COST * self.pool + SCORE_COST * different

    @property
    def label(self) -> str:
        """A few words for people, e.g. `tsp, stage 200, seed 1`."""
        return f"{self.place}, stage {self.stage}, seed {self.seed}"


@dataclass(frozen=True)
class GradientConditions(Conditions):
    """The settings of a gradient study that decide whether a point can run."""

    study: ClassVar[str] = "gradient"
    complete: bool | None = None
    instances: int | None = None

    def refusal(self, point: Point) -> Refusal | None:
        """Return the axis that is at fault and why the point cannot run, or None."""
        return (
            refused_tokens(point)
            or refused_k(point)
            or self._refused_fit(point)
            or refused_weight(point, self.environment)
        )

    def _refused_fit(self, point: Point) -> Refusal | None:
        """Return why the coefficients of a fitted baseline cannot be fitted."""
        baseline, fit = point["baseline"], Method.of(point).fit
        if fit == "oracle" and self.complete is False:
            return "baseline", (
                f"{baseline} is fitted by complete enumeration: "
                "gradient studies with complete: true only"
            )
        if fit == "cross_fit" and self.instances is not None and self.instances < 2:
            return "baseline", (
                f"{baseline} is fitted on other instances: "
                f"instances must be at least 2, got {self.instances}"
            )
        return None


def conditions(study: Study | None, environment: str | None) -> GradientConditions:
    """Return what decides whether a point can run, as far as study and environment are known."""
    if study is None:
        return GradientConditions(environment)
    return GradientConditions(environment, study.complete, study.instances)


def left_out(study: Study, environment: str) -> list[Skipped]:
    """Return the points of the grid that are not measured in this environment."""
    return points_of(study.grid, conditions(study, environment))[1]


def units(study: Study, seeds: Sequence[int], found: Sequence[Variant]) -> Iterator[GradientUnit]:
    """Yield all seeds of a stage before the next stage, all stages of a setting before the next."""
    for variant in found:
        points, _ = points_of(study.grid, conditions(study, variant.environment["name"]))
        for distance, stage, seed in product(study.behaviour.distance, study.stages, seeds):
            moved = {"behaviour.distance": distance} if study.off_policy else {}
            unit = GradientUnit(
                environment=variant.environment,
                policy=variant.policy,
                # A warm-up that trains no policy must not tell two cells apart.
                warmup=study.warmup.model_dump() if stage > 0 else {},
                stage=stage,
                seed=seed,
                instances=study.instances,
                pool=study.pool,
                partitions=study.partitions,
                complete=study.complete,
                distance=distance,
                setting=variant.setting | moved,
            )
            yield unit.with_points(points)
