"""Checks of a study's grid that all kinds of study share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.installed import PLACES, NoModuleError, is_function_path, place_of
from maxk_lab.sweep_file.fields import describe_point
from maxk_lab.sweep_file.studies import Problem
from maxk_lab.sweep_file.vary import Variant


def first_problems(
    variants: Iterable[Variant], check: Callable[[Variant], Iterable[Problem]]
) -> list[Problem]:
    """Return the problems of the first variant with problems; later variants repeat them."""
    return next(filter(None, (list(check(variant)) for variant in variants)), [])


def grid_problems(
    kind: str,
    grid: Sequence[Any],
    variants: Sequence[Variant],
    conditions: Callable[[Any, str], Any],
) -> Iterator[Problem]:
    """Yield the problems of grid entries: no point can run, or a method does not fit.

    `conditions` returns the `Conditions` of an entry in the environment with a name.
    """

    def check(variant: Variant) -> Iterator[Problem]:
        yield from point_problems(
            place, conditions(entry, variant.environment["name"]).points(entry)
        )
        yield from _reward_problems(entry, variant, place)

    for number, entry in enumerate(grid):
        place = (kind, "grid", number)
        yield from _function_problems(entry, place)
        yield from first_problems(variants, check)


def point_problems(place: tuple[int | str, ...], outcome: Any) -> Iterator[Problem]:
    """Yield a problem with the reasons if all points of an entry are skipped.

    `outcome` holds the points that can run and the skipped points. If some points can run, the plan
    lists the skipped points instead.
    """
    points, skipped = outcome
    if points:
        return
    first = skipped[0]
    if len(skipped) == 1:
        yield (*place, first.axis), f"{describe_point(first.point)} cannot run: {first.reason}"
        return
    reasons = "; ".join(dict.fromkeys(point.reason for point in skipped[:3]))
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    yield place, f"none of its {len(skipped)} points can run: {reasons}{more}"


def _function_problems(entry: Any, place: tuple[int | str, ...]) -> Iterator[Problem]:
    """Yield the user's own estimators and baselines that lie in no module on the path."""
    for axis in ("estimator", "baseline"):
        for number, name in enumerate(getattr(entry, axis)):
            try:
                if is_function_path(name):
                    place_of(name.partition(":")[0])
            except NoModuleError as error:
                yield (*place, axis, number), f"cannot load {name}: {error}{PLACES}"


def _reward_problems(
    entry: Any, variant: Variant, place: tuple[int | str, ...]
) -> Iterator[Problem]:
    """Yield estimators for rewards of 0 and 1 if the environment gives other rewards."""
    names = [name for name in entry.estimator if choose_estimator(name).row.binary_rewards]
    row = ENVIRONMENTS.get(variant.environment["name"])
    if names and (reason := row.other_rewards(variant.environment)) is not None:
        need = f"{', '.join(names)} {'needs' if len(names) == 1 else 'need'}"
        yield (*place, "estimator"), f"{need} rewards of 0 and 1, but {reason}"


def is_exact(environment: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Return whether objectives and their gradients are known exactly."""
    row, settings = ENVIRONMENTS.get(environment["name"]), {**environment, **policy}
    return row.enumerable(settings) or row.integrable(settings)
