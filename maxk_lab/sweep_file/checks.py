"""The checks of a sweep file that concern more than the shape of its parts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import SpecError
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.installed import PLACES, NoModuleError, is_function_path, place_of
from maxk_lab.sweep_file.claims import check_claims
from maxk_lab.sweep_file.fields import Grid, describe_point
from maxk_lab.sweep_file.schema import SweepSpec
from maxk_lab.sweep_file.source import Source, TreePath
from maxk_lab.sweep_file.studies import STUDIES, Spec
from maxk_lab.sweep_file.variation import CHECKPOINT, Resolved, Variant

# A plan of so many takes minutes, and some gigabytes.
MOST_CELLS = 1_000_000


def check_studies(
    spec: SweepSpec, resolved: Resolved | None, found: Sequence[Variant] | None, source: Source
) -> None:
    """Check the studies and the claims, as far as these are of the right shape.

    `resolved` is the environment with its policy, `found` the variants of what the sweep varies;
    each is None where there is something wrong with it.
    """
    kinds = [kind for kind in STUDIES.names() if kind in source.tree]
    if not kinds:
        source.add((), f"needs a study: {_listed(STUDIES.names(), 'or')}, or several")
    _check_varied(kinds, source)
    for kind, study in spec.studies.items():
        part: Spec = STUDIES.get(kind).part("spec")
        part.check(study, resolved, found, source)
    if not kinds or [*spec.studies] != kinds or source.entries or found is None:
        return
    points = {}
    for kind, study in spec.studies.items():
        part = STUDIES.get(kind).part("spec")
        units = part.units(study, (0,), [one for one in found if one.refusal is None])
        points[kind] = [cell.point for unit in units for cell in unit.cells]
    # No claim can speak of a grid that cannot run, which has been said.
    if all(points.values()):
        check_claims(spec.claims, points, spec.studies, source)


def _check_varied(kinds: Sequence[str], source: Source) -> None:
    """Note kinds of studies that are not made at every combination of what the sweep varies."""
    others = [name for name in kinds if not STUDIES.get(name).varied]
    if source.tree.get("vary") and others:
        varied = [row.name for row in STUDIES if row.varied]
        source.add(
            ("vary",),
            f"is for {_listed(varied, 'and')} studies; this sweep has a study of "
            f"{' and '.join(others)} too, which belongs in a file of its own",
            key=True,
        )


def _listed(names: Sequence[str], word: str) -> str:
    return f"{', '.join(names[:-1])} {word} {names[-1]}"


def check_counts(spec: SweepSpec, source: Source) -> None:
    """Raise `SpecError` for a sweep of too many cells; the points that cannot run are among them.

    A gradient study may have several stages besides, which are not counted.
    """
    grids = [entry for study in spec.studies.values() for entry in study.grid]
    axes = ([len(one) for _, one in entry if isinstance(one, tuple)] for entry in grids)
    cells = math.prod(map(len, [spec.seeds, *spec.vary.values()])) * sum(map(math.prod, axes))
    if cells > MOST_CELLS:
        source.add((), f"has {cells:,} cells, more than the {MOST_CELLS:,} of a sweep: split it")
        raise SpecError(source.problems)


def check_checkpoints(found: Sequence[Variant], source: Source) -> None:
    """Note checkpoints that are none, or do not fit the policy that they are to be.

    Imports torch if there are any.
    """
    known: set[str] = set()
    for variant in found:
        checkpoint = variant.policy.get("checkpoint")
        key = json.dumps([variant.environment, variant.policy], sort_keys=True)
        if checkpoint is None or variant.refusal is not None or key in known:
            continue
        from maxk_lab.environments.checkpoints import check_checkpoint

        known.add(key)
        varied = CHECKPOINT in source.tree.get("vary", {})
        with source.noting(("vary", CHECKPOINT) if varied else ("policy", "checkpoint")):
            check_checkpoint(variant.environment, variant.policy)


def at_first(found: Sequence[Any] | None, source: Source, check: Callable[[Any], None]) -> None:
    """Check variants until one has a problem: the others would have the same."""
    for variant in found or ():
        before = len(source.problems)
        check(variant)
        if len(source.problems) > before:
            break


def check_entries(
    entries: Iterable[tuple[TreePath, Any]],
    found: Sequence[Variant] | None,
    source: Source,
    conditions: Callable[[Any, str | None], Any],
) -> None:
    """Check every entry of a grid in every variant, or once where these are not known.

    `conditions` gives those of an entry in the environment of a name. The estimators of the entries
    must take the rewards of the environment.
    """

    def check(entry: Any, path: TreePath, variant: Variant | None) -> None:
        name = None if variant is None else variant.environment["name"]
        check_grid(entry, conditions(entry, name), path, source)
        if variant is not None:
            _check_rewards(entry, variant.environment, path, source)

    for path, entry in entries:
        _check_functions(entry, path, source)
        at_first(found or [None], source, partial(check, entry, path))


def _check_functions(grid: Any, path: TreePath, source: Source) -> None:
    """Note estimators and baselines of the user's own whose module is nowhere."""
    for axis in ("estimator", "baseline"):
        for name in filter(is_function_path, getattr(grid, axis)):
            try:
                place_of(name.partition(":")[0])
            except NoModuleError as error:
                source.add((*path, axis), f"cannot load {name}: {error}{PLACES}")


def check_grid(grid: Any, conditions: Any, path: TreePath, source: Source) -> None:
    """Note a problem if no point of the grid at `path` can run.

    Single points that cannot are the plan's to list.
    """
    points, skipped = conditions.points(grid)
    if points:
        return
    first = skipped[0]
    if len(skipped) == 1:
        source.add((*path, first.axis), f"{describe_point(first.point)} cannot run: {first.reason}")
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
