"""The conditions that a gradient study must meet beyond its shape."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.estimators.method import Method
from maxk_lab.studies.gradient.plan import conditions
from maxk_lab.studies.gradient.schema import Study
from maxk_lab.sweeps.plan.grid import points_of
from maxk_lab.sweeps.spec.blocks import Block
from maxk_lab.sweeps.spec.grids import at_first, check_entries, is_exact
from maxk_lab.sweeps.spec.source import Source, entry_path
from maxk_lab.sweeps.spec.variation import Resolved, Variant


def check(
    block: Block, resolved: Resolved | None, found: Sequence[Variant] | None, source: Source
) -> None:
    """Note grids that cannot run, too small a pool, and settings that the environment refuses."""
    check_entries(block, found, source, lambda _, name: conditions(block.study, name))
    _check_pool(block, source)
    study: Study | None = block.study
    if study is not None:

        def check_in(variant: Variant) -> None:
            _check_complete(study, variant, source)
            _check_behaviour(study, variant, source)

        at_first(found, source, check_in)


def _check_pool(block: Block, source: Source) -> None:
    """Note a pool that holds fewer than two replicates of the largest n."""
    largest = max((n for _, grid in block.entries for n in grid.n), default=0)
    if block.study is not None and block.study.pool < 2 * largest:
        source.add(
            ("gradient", "pool"),
            f"must be at least {2 * largest}, two replicates of the largest n = {largest}, "
            f"got {block.study.pool}",
        )


def _check_complete(study: Study, variant: Variant, source: Source) -> None:
    """Note complete enumeration in an environment too large to list its trajectories."""
    row = ENVIRONMENTS.get(variant.environment["name"])
    if not study.complete or row.enumerable({**variant.environment, **variant.policy}):
        return
    where = (
        f"{row.name} with {row.exact_when}" if row.listable else f"those of {row.name} never can"
    )
    source.add(
        ("gradient", "complete"),
        f"needs an environment whose trajectories can all be listed: {where}",
    )


def _check_behaviour(study: Study, variant: Variant, source: Source) -> None:
    """Note objectives under a behaviour policy whose gradient nothing can stand in for.

    Importance ratios give an unbiased estimate of the gradient of the maximum alone, which can
    stand in for the exact one; the other objectives need the exact one.
    """
    environment = variant.environment
    if not any(study.behaviour.distance) or is_exact(environment, variant.policy):
        return
    points, _ = points_of(study.grid, conditions(study, environment["name"]))
    others = dict.fromkeys(
        point["estimator"]
        for point in points
        if not Method.parse(point["estimator"], k=point["k"]).objective.is_max
    )
    if others:
        row = ENVIRONMENTS.get(environment["name"])
        number = next(i for i, grid in enumerate(study.grid) if set(others) & set(grid.estimator))
        source.add(
            (*entry_path(source, "gradient", number), "estimator"),
            f"{', '.join(others)} under a behaviour policy "
            f"{'needs' if len(others) == 1 else 'need'} the exact gradient to be judged against: "
            f"{row.name} with {row.exact_when}",
        )
