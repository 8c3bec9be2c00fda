"""The cells of a plan that an option selects, as `--only` or `--where baseline=subloo,k=8`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    wanted = _Reader(plan, option, axes).wanted(only)
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


@dataclass(frozen=True)
class _Reader:
    """Reads what is said to an option of the cells of a plan."""

    plan: Plan
    option: str
    axes: Sequence[str]

    def wanted(self, text: str) -> dict[str, set[Any]]:
        """Return the values that are asked for of each axis."""
        wanted: dict[str, set[Any]] = {}
        varied = dict.fromkeys(key for unit in self.plan.units for key in unit.setting)
        axes = (*self.axes, *varied)
        for part in text.split(","):
            axis, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or not axis or not value:
                raise LabError(
                    f"{self.option} must read axis=value,axis=value, got {part.strip()!r} in "
                    f"{shown(text)}"
                )
            if axis not in axes:
                also = did_you_mean(axis, axes)
                raise LabError(
                    f"{self.option}: unknown axis {shown(axis)}{also}; known: {', '.join(axes)}"
                )
            wanted.setdefault(axis, set()).add(self._value(axis, value))
        return wanted

    def _value(self, axis: str, text: str) -> Any:
        found = dict.fromkeys(_at(cell, axis) for cell in self.plan.cells)
        known = [value for value in found if value is not None]  # not every kind has stages
        if not known:
            raise LabError(
                f"{self.option}: no cell of this sweep has a {axis}, got {axis} = {text}"
            )
        choose: Any = {"estimator": choose_estimator, "baseline": choose_baseline}.get(axis)
        try:
            value = choose(text).name if choose else text
        except LabError as error:
            raise LabError(f"{self.option}: {error}") from None
        for candidate in known:
            if value in (
                str(candidate),
                f"{candidate:g}" if isinstance(candidate, float) else None,
            ):
                return candidate
        also = did_you_mean(value, map(str, known))
        raise LabError(
            f"{self.option}: no cell has {axis} = {text}{also}; the sweep has "
            f"{', '.join(map(str, known))}"
        )


def _at(cell: Cell, axis: str) -> Any:
    return getattr(cell, axis) if axis in AXES else cell.setting.get(axis)
