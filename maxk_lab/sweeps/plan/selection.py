"""The cells of a plan that an option selects, as `--only` or `--where baseline=subloo,k=8`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.plan.plan import Plan

AXES = ("estimator", "baseline", "n", "k", "stage", "seed", "study")


def select(
    plan: Plan, only: str | None, *, option: str = "--only", axes: Sequence[str] = AXES
) -> frozenset[str]:
    """Return the ids of the plan's cells that `only` names; all if None.

    `only` has `axis=value` pairs joined by commas: different axes must all hold, values of one axis
    are alternatives. Keys of `vary` are axes too, as in `environment.arms=8`. Raises `LabError`,
    which names the `option`, for axes that are not among these `axes`, for values that the sweep
    does not have and if no cell is left.
    """
    if only is None:
        return frozenset(cell.id for cell in plan.cells)
    axes = (*axes, *dict.fromkeys(key for unit in plan.units for key in unit.setting))
    wanted: dict[str, set[Any]] = {}
    for part in only.split(","):
        axis, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not axis or not value:
            raise LabError(
                f"{option} must read axis=value,axis=value, got {part.strip()!r} in {shown(only)}"
            )
        try:
            if axis not in axes:
                also = did_you_mean(axis, axes)
                raise LabError(f"unknown axis {shown(axis)}{also}; known: {', '.join(axes)}")
            wanted.setdefault(axis, set()).add(_value(plan, axis, value))
        except LabError as error:
            raise LabError(f"{option}: {error}") from None
    chosen = frozenset(
        cell.id
        for cell in plan.cells
        if all(_at(cell, axis) in values for axis, values in wanted.items())
    )
    if not chosen:
        raise LabError(
            f"{option} {shown(only)} selects no cell: the sweep has no cell with all of these"
        )
    return chosen


def _value(plan: Plan, axis: str, text: str) -> Any:
    """Return the value of a plan's axis that a text names."""
    known = [one for one in dict.fromkeys(_at(c, axis) for c in plan.cells) if one is not None]
    if not known:  # not every kind has stages
        raise LabError(f"no cell of this sweep has a {axis}, got {axis} = {text}")
    choose: Any = {"estimator": choose_estimator, "baseline": choose_baseline}.get(axis)
    value = choose(text).name if choose else text
    for one in known:
        if value == str(one) or (isinstance(one, float) and value == f"{one:g}"):
            return one
    also, has = did_you_mean(value, map(str, known)), ", ".join(map(str, known))
    raise LabError(f"no cell has {axis} = {text}{also}; the sweep has {has}")


def _at(cell: Cell, axis: str) -> Any:
    return getattr(cell, axis) if axis in AXES else cell.setting.get(axis)
