"""Checks of the grids in a sweep file that the kinds of studies share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.sweeps.plan.grid import Conditions, describe
from maxk_lab.sweeps.spec.blocks import Block
from maxk_lab.sweeps.spec.fields import Grid
from maxk_lab.sweeps.spec.source import Source, TreePath
from maxk_lab.sweeps.spec.variation import Variant


def at_first(found: Sequence[Any] | None, source: Source, check: Callable[[Any], None]) -> None:
    """Check variants until one has a problem: the others would have the same."""
    for variant in found or ():
        before = len(source.problems)
        check(variant)
        if len(source.problems) > before:
            break


def check_entries(
    block: Block,
    found: Sequence[Variant] | None,
    source: Source,
    conditions: Callable[[Any, str | None], Conditions],
) -> None:
    """Check every sound entry of a grid in every variant, or once where these are not known.

    `conditions` gives those of an entry in the environment of a name. The estimators of the entries
    must take the rewards of the environment.
    """

    def check(entry: Any, path: TreePath, variant: Variant | None) -> None:
        name = None if variant is None else variant.environment["name"]
        check_grid(entry, conditions(entry, name), path, source)
        if variant is not None:
            _check_rewards(entry, variant.environment, path, source)

    for path, entry in block.entries:
        at_first(found or [None], source, partial(check, entry, path))


def check_grid(grid: Any, conditions: Conditions, path: TreePath, source: Source) -> None:
    """Note a problem if no point of the grid at `path` can run.

    Single points that cannot are the plan's to list.
    """
    points, skipped = conditions.points(grid)
    if points:
        return
    first = skipped[0]
    if len(skipped) == 1:
        source.add((*path, first.axis), f"{describe(first.point)} cannot run: {first.reason}")
        return
    reasons = "; ".join(dict.fromkeys(point.reason for point in skipped[:3]))
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    source.add(path, f"none of its {len(skipped)} points can run: {reasons}{more}")


def _check_rewards(
    grid: Grid, environment: Mapping[str, Any], path: TreePath, source: Source
) -> None:
    """Note estimators for rewards of 0 and 1 where the environment is known to give others."""
    binary = [name for name in grid.estimator if choose_estimator(name).row.binary_rewards]
    reason = ENVIRONMENTS.get(environment["name"]).other_rewards(environment)
    if binary and reason is not None:
        source.add(
            (*path, "estimator"),
            f"{', '.join(binary)} {'needs' if len(binary) == 1 else 'need'} rewards of 0 and 1, "
            f"but {reason}",
        )


def is_exact(environment: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Return whether objectives and their gradients are known exactly."""
    row, settings = ENVIRONMENTS.get(environment["name"]), {**environment, **policy}
    return row.enumerable(settings) or row.integrable(settings)
