"""What the studies of a sweep file must satisfy beyond their shape: grids that run, settings that fit them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from maxk_lab.catalogue import nearest
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import choose_estimator, is_token_level, needs_ratios, objective
from maxk_lab.sweeps.environment_check import moved
from maxk_lab.sweeps.fields import Grid
from maxk_lab.sweeps.grid import Conditions, Skipped, describe, grid_points, objective_points
from maxk_lab.sweeps.schema import GradientStudy, ObjectiveGrid, ObjectiveStudy
from maxk_lab.sweeps.source import Source, TreePath
from maxk_lab.sweeps.training_schema import TrainingStudy
from maxk_lab.sweeps.variation import parameters_of


def check_grid(grid: Grid | ObjectiveGrid, conditions: Conditions, source: Source) -> None:
    """Note a problem if no point of the grid can run; single points that cannot are the plan's to list."""
    points, skipped = (
        objective_points(grid) if isinstance(grid, ObjectiveGrid) else grid_points(grid, conditions)
    )
    if points:
        return
    first: Skipped = skipped[0]
    path: TreePath = (first.study, "grid")
    if len(skipped) == 1:
        source.add((*path, first.axis), f"{describe(first.point)} cannot run: {first.reason}")
        return
    reasons = "; ".join(dict.fromkeys(point.reason for point in skipped[:3]))
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    source.add(path, f"none of its {len(skipped)} points can run: {reasons}{more}")


def check_pool(pool: Any, grid: Grid, source: Source) -> None:
    """Note a problem if the pool holds fewer than two replicates of the largest n."""
    largest = max(grid.n)
    if type(pool) is int and pool < 2 * largest:
        source.add(
            ("gradient", "pool"),
            f"must be at least {2 * largest}, two replicates of the largest n = {largest}, got {pool}",
        )


def check_complete(environment: Mapping[str, Any], policy: Mapping[str, Any], source: Source) -> None:
    """Note a problem if complete enumeration is asked of an environment too large to list its trajectories."""
    row = ENVIRONMENTS.get(environment["name"])
    if not row.enumerable({**environment, **policy}):
        where = f"{row.name} with {row.exact_when}" if row.listable else f"those of {row.name} never can"
        source.add(
            ("gradient", "complete"), f"needs an environment whose trajectories can all be listed: {where}"
        )


def check_rewards(study: str, grid: Grid, environment: Mapping[str, Any], source: Source) -> None:
    """Note estimators for rewards of 0 and 1 where the environment is known to give others."""
    binary = [name for name in grid.estimator if choose_estimator(name).row.binary_rewards]
    reason = ENVIRONMENTS.get(environment["name"]).other_rewards(environment)
    if binary and reason is not None:
        source.add(
            (study, "grid", "estimator"),
            f"{', '.join(binary)} {'needs' if len(binary) == 1 else 'need'} rewards of 0 and 1, but {reason}",
        )


def check_objective(
    study: ObjectiveStudy, environment: Mapping[str, Any], policy: Mapping[str, Any], source: Source
) -> None:
    """Note a parameter that is no number, ends that it cannot take, and an environment without exact objectives."""
    row = ENVIRONMENTS.get(environment["name"])
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
        hint = nearest(study.parameter, known)
        also = f" (did you mean {hint}?)" if hint else ""
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
        source.add(("objective", "to"), f"must be greater than from = {study.start:g}, got {study.stop:g}")


def check_behaviour(
    study: GradientStudy, environment: Mapping[str, Any], policy: Mapping[str, Any], source: Source
) -> None:
    """Note objectives other than the maximum under a behaviour policy where no exact gradient is there to judge them against.

    Importance ratios give an unbiased estimate of the gradient of the maximum alone, which can stand for the exact one.
    """
    if not any(study.behaviour.distance) or _is_exact(environment, policy):
        return
    points, _ = grid_points(study.grid, Conditions.of(study, environment["name"]))
    others = dict.fromkeys(
        point["estimator"] for point in points if not objective(point["estimator"], point["k"]).is_max
    )
    if others:
        row = ENVIRONMENTS.get(environment["name"])
        source.add(
            ("gradient", "grid", "estimator"),
            f"{', '.join(others)} under a behaviour policy {'needs' if len(others) == 1 else 'need'} the exact gradient "
            f"to be judged against: {row.name} with {row.exact_when}",
        )


def _is_exact(environment: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Whether objectives and their gradients are known exactly."""
    row, settings = ENVIRONMENTS.get(environment["name"]), {**environment, **policy}
    return row.enumerable(settings) or row.integrable(settings)


def check_training(study: TrainingStudy, source: Source) -> None:
    """Note settings that contradict each other, or that do not fit the training study's grid."""
    _check_batch(study, source)
    _check_loss(study, source)
    points, _ = grid_points(study.grid, Conditions.of(study))
    largest = max((point["k"] for point in points), default=1)
    if study.evaluate.samples < largest:
        source.add(
            ("training", "evaluate", "samples"),
            f"must be at least {largest}, the largest K of the grid, got {study.evaluate.samples}",
        )
    _check_weights(study, source)


def check_kl(study: TrainingStudy, environment: Mapping[str, Any], source: Source) -> None:
    """Note a KL term under a nucleus, where the divergence is infinite as soon as the two nuclei differ."""
    top_p = environment.get("top_p", 1.0)
    if study.kl.place != "none" and top_p < 1:
        source.add(
            ("training", "kl", "place"),
            f"needs top_p = 1, got {top_p}: a token outside the reference's nucleus has an infinite KL term",
        )


def _check_batch(study: TrainingStudy, source: Source) -> None:
    odd = [n for n in dict.fromkeys(study.grid.n) if study.batch % n]
    if not odd:
        return
    common = math.lcm(*study.grid.n)
    below = study.batch // common * common
    near = [str(size) for size in (below, below + common) if size > 0]
    source.add(
        ("training", "batch"),
        f"must be a multiple of every n of the grid; {', '.join(map(str, odd))} "
        f"{'does' if len(odd) == 1 else 'do'} not divide {study.batch}; the nearest that fit all: {' and '.join(near)}",
    )


def _check_loss(study: TrainingStudy, source: Source) -> None:
    fixed, divisor = study.loss.aggregation == "fixed", study.loss.divisor
    path: TreePath = ("training", "loss", "divisor")
    if fixed and divisor is None:
        source.add(path, "is missing: the aggregation fixed divides the sum over all tokens by it")
    if not fixed and divisor is not None:
        source.add(path, f"is read by the aggregation fixed only, got aggregation {study.loss.aggregation}")


def _check_weights(study: TrainingStudy, source: Source) -> None:
    """Options that some of the weightings of the grid cannot be combined with."""
    tokens = [name for name in study.grid.baseline if is_token_level(name)]
    for name, given in (
        ("weight_normalization", study.weight_normalization != "none"),
        ("min_gap_scale", study.min_gap_scale is not None),
    ):
        if tokens and given:
            source.add(
                ("training", name),
                f"needs one weight per trajectory, but {', '.join(tokens)} gives one per token",
            )
    binary = [name for name in study.grid.estimator if choose_estimator(name).row.binary_rewards]
    if binary and study.kl.place == "reward":
        source.add(
            ("training", "kl", "place"),
            f"reward leaves no rewards of 0 and 1, which {', '.join(binary)} needs; place it in the loss",
        )
    ratios = [name for name in study.grid.estimator if needs_ratios(name)]
    for name, value, fine in (
        ("ratio", study.loss.ratio, ("sequence",)),
        ("aggregation", study.loss.aggregation, ("seq_sum", "fixed")),
        ("dual_clip", study.loss.dual_clip, (None,)),
    ):
        if ratios and value not in fine:
            allowed = " or ".join("null" if one is None else one for one in fine)
            source.add(
                ("training", "loss", name),
                f"must be {allowed} for {', '.join(ratios)}, whose weights hold the ratios of whole trajectories; got {value}",
            )
