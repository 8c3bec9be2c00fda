"""The plan of a sweep: cells in units that share samples, and the selection `--only`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.fields import start_of, start_words
from maxk_lab.planning.cells import Cell, Unit
from maxk_lab.planning.grid import Skipped
from maxk_lab.sweep_file.content import model_missing
from maxk_lab.sweep_file.model import Sweep
from maxk_lab.sweep_file.studies import STUDIES, Spec
from maxk_lab.sweep_file.vary import variants

__all__ = ["AXES", "Plan", "Skipped", "make_plan", "select"]

AXES = ("estimator", "baseline", "n", "k", "stage", "seed", "study")


@dataclass(frozen=True)
class Plan:
    """The units of a sweep in the order of execution, and the skipped points."""

    spec: Sweep
    units: tuple[Unit, ...]
    skipped: tuple[Skipped, ...]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell of every unit."""
        return tuple(cell for unit in self.units for cell in unit.cells)


def stale_line(count: int) -> str:
    """Return the message about records that the plan of a sweep does not use."""
    records = "1 record is" if count == 1 else f"{count} records are"
    return f"{records} of another version of this sweep; to keep both, use --set name=NAME"


def make_plan(spec: Sweep) -> Plan:
    """Return the plan of a validated sweep, study by study."""
    units: list[Unit] = []
    skipped: list[Skipped] = []
    combinations = [
        # The model is missing on this machine only: its content is known from an earlier run.
        replace(variant, refusal=None) if model_missing(variant, spec.content) else variant
        for variant in variants(spec, spec.vary)
    ]
    running = [variant for variant in combinations if variant.refusal is None]
    for kind, study in spec.studies.items():
        module: Spec = STUDIES.get(kind).load_module("spec")
        units += module.units(study, spec.seeds, running)
        # List each setting or point that cannot run once.
        left_out = [Skipped(v.setting, v.refusal, kind) for v in combinations if v.refusal]
        for environment in dict.fromkeys(variant.environment["name"] for variant in running):
            points = module.left_out(study, environment)
            left_out += [point for point in points if point not in left_out]
        skipped += left_out
    if spec.content:
        units = [unit.with_content(spec.content) for unit in units]
    return Plan(spec, tuple(units), tuple(skipped))


def select(
    plan: Plan, only: str | None, *, option: str = "--only", axes: Sequence[str] = AXES
) -> frozenset[str]:
    """Return the ids of the plan's cells that `only` selects; all ids if None.

    `only` has `axis=value` pairs joined by commas. A cell must match every axis; several values of
    one axis are alternatives. Keys of `vary` are axes too, as in `environment.arms=8`. Raises
    `LabError` with the name of the `option` for unknown axes or values, or an empty selection.
    """
    if only is None:
        return frozenset(cell.id for cell in plan.cells)
    axes = (*axes, *dict.fromkeys(key for unit in plan.units for key in unit.setting))
    values: dict[str, set[Any]] = {}
    try:
        for pair in only.split(","):
            axis, _, value = (piece.strip() for piece in pair.partition("="))
            if not axis or not value:
                words = f"must read axis=value,axis=value, got {pair.strip()!r} in {shown(only)}"
                raise LabError(words)
            if axis not in axes:
                also = did_you_mean(axis, axes)
                raise LabError(f"unknown axis {shown(axis)}{also}; known: {', '.join(axes)}")
            values.setdefault(axis, set()).add(_value(plan, axis, value))
        chosen = [c for c in plan.cells if all(_on_axis(c, a) in values[a] for a in values)]
        if not chosen:
            raise LabError(f"the sweep has no cell with all of {shown(only)}")
    except LabError as error:
        raise LabError(f"{option}: {error}") from None
    return frozenset(cell.id for cell in chosen)


def _value(plan: Plan, axis: str, text: str) -> Any:
    """Return the value of an axis in the plan that a text from the command line selects."""
    values = [v for v in dict.fromkeys(_on_axis(c, axis) for c in plan.cells) if v is not None]
    if not values:  # not every kind has stages
        raise LabError(f"no cell of this sweep has a {axis}, got {axis} = {text}")
    choose: Any = {"estimator": choose_estimator, "baseline": choose_baseline}.get(axis)
    text = start_of(text) if axis == "start" else text
    name = choose(text).name if choose else text
    for value in values:
        if _spells(name, value):
            return value
    spelt = [
        str(value).lower() if isinstance(value, bool) else str(start_words(value))
        for value in values
    ]
    also, has = did_you_mean(str(start_words(name)), spelt), ", ".join(spelt)
    raise LabError(f"no cell has {axis} = {text}{also}; the sweep has {has}")


def _spells(text: str, value: Any) -> bool:
    """Return whether a text is a spelling of a value in a sweep file, such as true or 1e-3."""
    if isinstance(value, float):
        with suppress(ValueError):
            return float(text) in (value, float(f"{value:g}"))
    return text == str(value) or (isinstance(value, bool) and text == str(value).lower())


def _on_axis(cell: Cell, axis: str) -> Any:
    return getattr(cell, axis) if axis in AXES else cell.setting.get(axis)
