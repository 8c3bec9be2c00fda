"""A gradient study in a sweep file: its block, the units of its plan, conditions, cached files.

This module does not import torch, because the driver reads the cached files of a unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from maxk_lab.environments.catalogue import ENVIRONMENTS, capability_refusal
from maxk_lab.errors import shown
from maxk_lab.estimators.method import Method
from maxk_lab.fields import (
    MOST_SAMPLES,
    Model,
    OneOrMore,
    Positive,
    Samples,
    Selection,
    Start,
    TwoSamples,
    distinct,
)
from maxk_lab.planning.cells import Point, Unit
from maxk_lab.planning.grid import (
    Conditions,
    Refusal,
    Skipped,
    points_of,
    refused_k,
    refused_weight,
)
from maxk_lab.planning.identity import (
    IDENTITY_VERSION,
    content_hash,
    without_paths,
)
from maxk_lab.settings import without_defaults
from maxk_lab.statistics.measures import LEAST_GROUPS, LEAST_SAMPLE, MEASURES
from maxk_lab.sweep_file.fields import AnyStudy, Distances, DistinctAscending, Grid
from maxk_lab.sweep_file.grids import first_problems, grid_problems, is_exact
from maxk_lab.sweep_file.studies import Problem
from maxk_lab.sweep_file.vary import Variant

# Every sample takes memory for each partition.
MOST_PARTITIONS = 10**5
# More instances are not proposed.
MANY_INSTANCES = 64
# The version of records. 2: the groups of an instance are cut into independent blocks, and the
# record has their spread. 3: scores are computed by layers, with other last digits. Cells of older
# versions are measured again.
RECORD_VERSION = 3
# Settings that are newer than the first records, with the value that an old record implies.
LATER: Mapping[str, Any] = {
    "complete": False,
    "behaviour": {"distance": 0.0},
    "scores": {"parameters": ""},
    "start": "iid",
    "selection": "none",
}


class WarmUp(Model):
    """Plain policy gradient for later stages of a policy, one batch of instances per step."""

    batch: Samples = 32
    n: Annotated[int, Field(ge=2, le=MOST_SAMPLES)] = 16
    learning_rate: Positive = 1e-3
    clip: Positive = 1.0


class Behaviour(Model):
    """The policy that draws the trajectories, if it is not the policy of the gradient.

    `distance` is the L2 norm of the change of its parameters, in a direction that depends only on
    the seed. Every distance is measured; 0 is on-policy.
    """

    distance: Distances = (0.0,)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"must be a regular expression, got {shown(text)}: {error}") from None
    return text


class Scores(Model):
    """The scores of the gradients.

    `parameters` is a regular expression: scores are taken in the parameters whose names contain a
    match, such as "lm_head|layers.11"; in all parameters if it is empty.
    """

    parameters: Annotated[str, AfterValidator(_pattern)] = ""


class Study(AnyStudy):
    """Gradient estimates of policies frozen at `stages` steps of warm-up.

    All cells of a stage and seed share `pool` i.i.d. trajectories on each of `instances` instances,
    which are cut `partitions` times into replicates of n. With the start `multistart`, trajectories
    and the samples of a group take forced first actions in turn. The gradient is then that of
    J_K^starts, the mean over the K-subsets of its n starts of E[max]. With `complete`, if all
    groups of n trajectories can be listed, means and variances are exact sums over these groups,
    without replicates. `selection` then says what happens to groups with equal rewards: none (they
    count), drop_equal or resample_equal.
    """

    stages: DistinctAscending = (0,)
    warmup: WarmUp = WarmUp()
    instances: Samples = 16
    pool: TwoSamples = 256
    partitions: Annotated[int, Field(ge=1, le=MOST_PARTITIONS)] = 8
    complete: bool = False
    start: Annotated[OneOrMore[Start], AfterValidator(distinct)] = ("iid",)
    selection: Annotated[OneOrMore[Selection], AfterValidator(distinct)] = ("none",)
    behaviour: Behaviour = Behaviour()
    scores: Scores = Scores()
    grid: OneOrMore[Grid]

    @property
    def off_policy(self) -> bool:
        """Whether there is a behaviour policy: several distances, or one other than 0."""
        return self.behaviour.distance != (0.0,)

    def advice(self) -> tuple[str, ...]:
        """A design with equally many rollouts and narrower intervals about new instances, if any.

        For trained policies, an effective 1 to 5 of 16 instances carried the gradient on TSP5, 2.5
        to 5 of 32 on TSP20. More trajectories on an instance carry no information about other
        instances.
        """
        largest = max(n for entry in self.grid for n in entry.n)
        sentences = []
        if self.pool < LEAST_GROUPS * largest and not self.complete:
            sentences.append(
                f"a pool of {self.pool} holds {self.pool // largest} groups of n = {largest}: "
                f"a verdict on bias needs {LEAST_GROUPS}, so a pool of {LEAST_GROUPS * largest}"
            )
        pool = self.instances * self.pool // MANY_INSTANCES
        smaller = pool >= LEAST_SAMPLE * largest and not self.complete
        if self.stages[-1] > 0 and 1 < self.instances < MANY_INSTANCES and smaller:
            sentences.append(
                "after training a few instances carry most of the gradient; at equal rollouts "
                f"instances: {MANY_INSTANCES}, pool: {pool} says more of instances like these"
            )
        return tuple(sentences)

    def lacks(self, measure: str, points: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
        """Return why the study does not measure this, or None."""
        row = MEASURES.get(measure)
        if row.measured(off_policy=self.off_policy):
            return None
        return row.not_measured


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientUnit(Unit):
    """Cells of one environment, policy, stage and seed.

    `distance` is that of the sampling policy from the policy of the gradient; `parameters` is the
    pattern of the scored parameters.
    """

    study: ClassVar[str] = "gradient"
    sent: ClassVar[tuple[str, ...]] = (
        *("environment", "policy", "warmup", "stage", "seed"),
        *("instances", "pool", "partitions", "complete"),
    )
    warmup: Mapping[str, Any]
    instances: int
    pool: int
    partitions: int
    complete: bool
    distance: float
    start: str = "iid"
    selection: str = "none"
    parameters: str = ""

    def meaning(self) -> dict[str, Any]:
        """Return the part of the unit that distinguishes its cells from cells of other units."""
        return super().meaning() | {"record_version": RECORD_VERSION}

    def as_dict(self) -> dict[str, Any]:
        """Return everything that the pool and its measurement depend on."""
        settings = {
            "behaviour": {"distance": self.distance},
            "scores": {"parameters": self.parameters},
            "start": self.start,
            "selection": self.selection,
        }
        return without_defaults(super().as_dict() | settings, LATER)

    @property
    def label(self) -> str:
        """Return a short description, e.g. `tsp, stage 200, seed 1`."""
        return f"{self.place}, stage {self.stage}, seed {self.seed}"


@dataclass(frozen=True)
class GradientConditions(Conditions):
    """The settings of a gradient study that decide whether a point can run."""

    study: ClassVar[str] = "gradient"
    complete: bool | None = None
    instances: int | None = None

    def refusal(self, point: Point) -> Refusal | None:
        """Return the axis at fault and why the point cannot run, or None."""
        return (
            refused_k(point)
            or self._refused_fit(point)
            or self._refused_prompts(point)
            or refused_weight(point, self.environment)
        )

    def _refused_prompts(self, point: Point) -> Refusal | None:
        """Return why a baseline cannot use the groups of other instances."""
        if not Method.of(point).uses_other_prompts:
            return None
        if self.complete:
            return "baseline", (
                f"{point['baseline']} needs groups of other instances, and complete: true lists "
                "those of one instance: set complete: false"
            )
        if self.instances is not None and self.instances < 2:
            return "baseline", (
                f"{point['baseline']} needs groups of other instances: "
                f"instances must be at least 2, got {self.instances}"
            )
        return None

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


def conditions(study: Study, environment: str) -> GradientConditions:
    """Return the conditions on a point in an environment, which may be unknown."""
    return GradientConditions(environment, study.complete, study.instances)


def left_out(study: Study, environment: str) -> list[Skipped]:
    """Return the points of the grid that are not measured in this environment."""
    return points_of(study.grid, conditions(study, environment))[1]


def units(
    study: Study, seeds: Sequence[int], variants: Sequence[Variant]
) -> Iterator[GradientUnit]:
    """Yield all seeds of a stage before the next stage, all stages of a setting before the next."""
    for variant in variants:
        points, _ = points_of(study.grid, conditions(study, variant.environment["name"]))
        axes = (study.start, study.selection, study.behaviour.distance, study.stages)
        for start, selection, distance, stage in product(*axes):
            moved = {"behaviour.distance": distance} if study.off_policy else {}
            started = {} if study.start == ("iid",) else {"start": start}
            chosen = {} if study.selection == ("none",) else {"selection": selection}
            unit = GradientUnit(
                environment=variant.environment,
                policy=variant.policy,
                # A warm-up without training steps must not distinguish two cells.
                warmup=study.warmup.model_dump() if stage > 0 else {},
                stage=stage,
                seed=seeds[0],
                instances=study.instances,
                pool=study.pool,
                partitions=study.partitions,
                complete=study.complete,
                distance=distance,
                start=start,
                selection=selection,
                parameters=study.scores.parameters,
                setting=variant.setting | started | chosen | moved,
                points=tuple(points),
            )
            yield from unit.with_seeds(seeds)


def check(study: Study, variants: Sequence[Variant]) -> Iterator[Problem]:
    """Yield grids that cannot run, too small a pool, and settings that the environment refuses."""
    yield from grid_problems(
        "gradient", study.grid, variants, lambda _, name: conditions(study, name)
    )
    largest = max(n for grid in study.grid for n in grid.n)
    if study.pool < 2 * largest:
        message = f"must be at least {2 * largest}, two replicates of the largest n = {largest}, "
        yield ("gradient", "pool"), f"{message}got {study.pool}"

    def problems_in(variant: Variant) -> Iterator[Problem]:
        yield from _exact_problems(study, variant)
        reason = capability_refusal(variant.environment["name"], "multistart")
        if "multistart" in study.start and reason is not None:
            yield ("gradient", "start"), f"multistart: {reason}"

    yield from first_problems(variants, problems_in)


def _exact_problems(study: Study, variant: Variant) -> Iterator[Problem]:
    """Yield why an environment cannot give the exact gradients that a study needs.

    With `complete` all trajectories must be listed. Under a behaviour policy, importance ratios
    give an unbiased estimate of the gradient of the maximum only, which replaces the exact
    gradient; the gradients of other objectives must be exact.
    """
    environment, policy = variant.environment, variant.policy
    row = ENVIRONMENTS.get(environment["name"])
    if study.selection != ("none",) and not study.complete:
        yield ("gradient", "selection"), "needs complete: true, which lists all groups"
    if study.complete and "multistart" in study.start:
        words = "lists the groups of i.i.d. samples: leave out the start multistart"
        yield ("gradient", "complete"), words
    exactly = f"{row.name} with {row.exact_when}"
    if study.complete and not row.enumerable({**environment, **policy}):
        where = exactly if row.listable else f"those of {row.name} never can"
        words = f"needs an environment whose trajectories can all be listed: {where}"
        yield ("gradient", "complete"), words
    exact = is_exact(environment, policy) and "multistart" not in study.start
    if not any(study.behaviour.distance) or exact:
        return
    points, _ = points_of(study.grid, conditions(study, environment["name"]))
    others = dict.fromkeys(
        point["estimator"]
        for point in points
        if not Method.parse(point["estimator"], k=point["k"]).objective_at(point["n"]).is_max
    )
    if others and "multistart" in study.start:
        exactly = "which forced starts do not have here"
    if others:
        number = next(i for i, grid in enumerate(study.grid) if set(others) & set(grid.estimator))
        yield (
            ("gradient", "grid", number, "estimator"),
            f"{', '.join(others)} under a behaviour policy "
            f"{'needs' if len(others) == 1 else 'need'} the exact gradient to be judged against: "
            f"{exactly}",
        )


def pool_file(unit: Mapping[str, Any]) -> str:
    """Return the name of the pool for all cells of the unit."""
    # Partitions and enumeration do not change the pool.
    cutting = ("partitions", "complete", "selection")
    axes = {key: value for key, value in unit.items() if key not in cutting}
    version = [IDENTITY_VERSION, RECORD_VERSION, _version(unit)]
    meaning = axes | {"policy": without_paths(unit["policy"]), "version": version}
    return f"pool-{content_hash(meaning)}.pt"


def policy_stem(unit: Mapping[str, Any]) -> str:
    """Return the common prefix of the file names of one training's policies."""
    named = ("environment", "seed", "warmup", "content")
    axes = {key: unit[key] for key in named if key in unit} | {
        "policy": without_paths(unit["policy"]),
        "version": [IDENTITY_VERSION, _version(unit)],
    }
    return f"policy-{content_hash(axes)}"


def policy_file(unit: Mapping[str, Any], stage: int) -> str:
    """Return the name of the policy after `stage` steps."""
    return f"{policy_stem(unit)}-{stage}.pt"


def stage_of(path: Path) -> int:
    """Return the steps of training that the policy in a file of this name has."""
    return int(path.stem.rsplit("-", 1)[1])


def _version(unit: Mapping[str, Any]) -> int:
    """Return the environment's version: it changes with the digits of policies and trajectories."""
    return ENVIRONMENTS.get(unit["environment"]["name"]).version
