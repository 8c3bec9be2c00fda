"""The plan of a sweep: its cells by the units that share their samples, and the points left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from maxk_lab.sweeps import parts
from maxk_lab.sweeps.plan.cells import Cell, Unit
from maxk_lab.sweeps.plan.content import was_sound
from maxk_lab.sweeps.plan.grid import Skipped
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.sweeps.spec.variation import variants
from maxk_lab.sweeps.studies import STUDIES

__all__ = ["Plan", "Skipped", "make_plan"]


@dataclass(frozen=True)
class Plan:
    """The work of a sweep in the order in which it is done, and the points that it leaves out."""

    spec: SweepSpec
    units: tuple[Unit, ...]
    skipped: tuple[Skipped, ...]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell of every unit."""
        return tuple(cell for unit in self.units for cell in unit.cells)


def make_plan(spec: SweepSpec) -> Plan:
    """Return the plan of a validated spec: one study after the other, in the catalogue's order."""
    units: list[Unit] = []
    skipped: list[Skipped] = []
    found = list(variants(spec.environment, spec.policy, spec.vary))
    found = [replace(v, refusal=None) if was_sound(v, spec.content) else v for v in found]
    sound = [variant for variant in found if variant.refusal is None]
    for kind, study in spec.studies.items():
        part: parts.Spec = STUDIES.get(kind).part("spec")
        units += part.units(study, spec.seeds, sound)
        # Settings that cannot run, and points that cannot or are there already, each once.
        left_out = [Skipped(v.setting, v.refusal, kind) for v in found if v.refusal is not None]
        for environment in dict.fromkeys(variant.environment["name"] for variant in sound):
            left_out += [one for one in part.left_out(study, environment) if one not in left_out]
        skipped += left_out
    if spec.content:
        units = [unit.with_content(spec.content) for unit in units]
    return Plan(spec, tuple(units), tuple(skipped))
