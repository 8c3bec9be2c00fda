"""What the studies of a sweep file must satisfy beyond their shape: grids that run, settings that fit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import choose_estimator, objective
from maxk_lab.sweeps.plan.grid import Conditions, Skipped, describe, grid_points, study_points
from maxk_lab.sweeps.spec.environment import moved
from maxk_lab.sweeps.spec.fields import Grid
from maxk_lab.sweeps.spec.schema import GradientStudy, ObjectiveGrid, ObjectiveStudy
from maxk_lab.sweeps.spec.source import Source, TreePath, entry_path
from maxk_lab.sweeps.spec.variation import parameters_of


def check_grid(
    grid: Grid | ObjectiveGrid, conditions: Conditions, path: TreePath, source: Source
) -> None:
    """Note a problem if no point of the grid at `path` can run; single points that cannot are the plan's to list."""
    points, skipped = grid_points(grid, conditions)
    if points:
        return
    first: Skipped = skipped[0]
    if len(skipped) == 1:
        source.add((*path, first.axis), f"{describe(first.point)} cannot run: {first.reason}")
        return
    reasons = "; ".join(dict.fromkeys(point.reason for point in skipped[:3]))
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    source.add(path, f"none of its {len(skipped)} points can run: {reasons}{more}")


def check_pool(pool: Any, sizes: Iterable[int], source: Source) -> None:
    """Note a problem if the pool holds fewer than two replicates of the largest n."""
    largest = max(sizes, default=0)
    if type(pool) is int and pool < 2 * largest:
        source.add(
            ("gradient", "pool"),
            f"must be at least {2 * largest}, two replicates of the largest n = {largest}, got {pool}",
        )


def check_complete(
    environment: Mapping[str, Any], policy: Mapping[str, Any], source: Source
) -> None:
    """Note a problem if complete enumeration is asked of an environment too large to list its trajectories."""
    row = ENVIRONMENTS.get(environment["name"])
    if not row.enumerable({**environment, **policy}):
        where = (
            f"{row.name} with {row.exact_when}"
            if row.listable
            else f"those of {row.name} never can"
        )
        source.add(
            ("gradient", "complete"),
            f"needs an environment whose trajectories can all be listed: {where}",
        )


def check_rewards(
    grid: Grid, environment: Mapping[str, Any], path: TreePath, source: Source
) -> None:
    """Note estimators of the grid at `path` for rewards of 0 and 1 where the environment is known to give others."""
    binary = [name for name in grid.estimator if choose_estimator(name).row.binary_rewards]
    reason = ENVIRONMENTS.get(environment["name"]).other_rewards(environment)
    if binary and reason is not None:
        source.add(
            (*path, "estimator"),
            f"{', '.join(binary)} {'needs' if len(binary) == 1 else 'need'} rewards of 0 and 1, but {reason}",
        )


def check_objective(
    study: ObjectiveStudy, environment: Mapping[str, Any], policy: Mapping[str, Any], source: Source
) -> None:
    """Note a parameter that is no number, ends that it cannot take, and an environment without exact objectives."""
    row = ENVIRONMENTS.get(environment["name"])
    if "checkpoint" in policy:
        source.add(
            ("policy", "checkpoint"),
            "has no place in an objective study, which moves a parameter of a policy that is not trained",
        )
        return
    if not _is_exact(environment, policy):
        source.add(
            ("objective",),
            f"needs an environment whose objectives are known exactly: {row.name} with {row.exact_when}",
        )
        return
    known = {
        key: parameter
        for key, parameter in parameters_of(row.name).items()
        if parameter.kind is float and not parameter.many
    }
    parameter = known.get(study.parameter)
    if parameter is None:
        also = did_you_mean(study.parameter, known)
        source.add(
            ("objective", "parameter"),
            f"must be a number of the environment or its policy: {', '.join(known)}; got {study.parameter!r}{also}"
            if known
            else f"must be a number of the environment or its policy, and {row.name} has none; got {study.parameter!r}",
        )
    for key, value in (("from", study.start), ("to", study.stop)):
        try:
            if parameter is not None:
                moved(environment, policy, study.parameter, value)
        except LabError as error:
            source.add(("objective", key), str(error))
    if not study.start < study.stop:
        source.add(
            ("objective", "to"), f"must be greater than from = {study.start:g}, got {study.stop:g}"
        )


def check_behaviour(
    study: GradientStudy, environment: Mapping[str, Any], policy: Mapping[str, Any], source: Source
) -> None:
    """Note objectives other than the maximum under a behaviour policy where no exact gradient is there to judge them against.

    Importance ratios give an unbiased estimate of the gradient of the maximum alone, which can stand for the exact one.
    """
    if not any(study.behaviour.distance) or _is_exact(environment, policy):
        return
    points, _ = study_points(study, environment["name"])
    others = dict.fromkeys(
        point["estimator"]
        for point in points
        if not objective(point["estimator"], point["k"]).is_max
    )
    if others:
        row = ENVIRONMENTS.get(environment["name"])
        number = next(i for i, grid in enumerate(study.grid) if set(others) & set(grid.estimator))
        source.add(
            (*entry_path(source, "gradient", number), "estimator"),
            f"{', '.join(others)} under a behaviour policy {'needs' if len(others) == 1 else 'need'} the exact gradient "
            f"to be judged against: {row.name} with {row.exact_when}",
        )


def _is_exact(environment: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Whether objectives and their gradients are known exactly."""
    row, settings = ENVIRONMENTS.get(environment["name"]), {**environment, **policy}
    return row.enumerable(settings) or row.integrable(settings)
