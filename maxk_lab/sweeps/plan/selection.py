"""The cells of a plan that an option such as `--only baseline=subloo,k=8` selects."""

from __future__ import annotations

from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.plan.plan import Plan

AXES = ("estimator", "baseline", "n", "k", "stage", "seed", "study")


def select(plan: Plan, only: str | None) -> frozenset[str]:
    """Return the ids of the plan's cells that `only` names; all if None.

    `only` has `axis=value` pairs joined by commas: different axes must all hold, values of one axis
    are alternatives. Keys of `vary` are axes too, as in `environment.arms=8`. Raises `LabError` for
    unknown axes, for values that the sweep does not have and if no cell is left.
    """
    if only is None:
        return frozenset(cell.id for cell in plan.cells)
    wanted = _parse(plan, only)
    chosen = frozenset(
        cell.id
        for cell in plan.cells
        if all(_at(cell, axis) in values for axis, values in wanted.items())
    )
    if not chosen:
        raise LabError(
            f"--only {shown(only)} selects no cell: the sweep has no cell with all of these"
        )
    return chosen


def _parse(plan: Plan, only: str) -> dict[str, set[Any]]:
    wanted: dict[str, set[Any]] = {}
    axes = (*AXES, *dict.fromkeys(key for unit in plan.units for key in unit.setting))
    for part in only.split(","):
        axis, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not axis or not value:
            raise LabError(
                f"--only must read axis=value,axis=value, got {part.strip()!r} in {shown(only)}"
            )
        if axis not in axes:
            also = did_you_mean(axis, axes)
            raise LabError(f"--only: unknown axis {shown(axis)}{also}; known: {', '.join(axes)}")
        wanted.setdefault(axis, set()).add(_value(plan, axis, value))
    return wanted


def _value(plan: Plan, axis: str, text: str) -> Any:
    found = dict.fromkeys(_at(cell, axis) for cell in plan.cells)
    known = [value for value in found if value is not None]  # not every kind has stages
    if not known:
        raise LabError(f"--only: no cell of this sweep has a {axis}, got {axis} = {text}")
    choose: Any = {"estimator": choose_estimator, "baseline": choose_baseline}.get(axis)
    try:
        value = choose(text).name if choose else text
    except LabError as error:
        raise LabError(f"--only: {error}") from None
    for candidate in known:
        if value in (str(candidate), f"{candidate:g}" if isinstance(candidate, float) else None):
            return candidate
    also = did_you_mean(value, map(str, known))
    raise LabError(
        f"--only: no cell has {axis} = {text}{also}; the sweep has {', '.join(map(str, known))}"
    )


def _at(cell: Cell, axis: str) -> Any:
    return getattr(cell, axis) if axis in AXES else cell.setting.get(axis)
