"""The plan of a sweep: its cells by the units that share their samples, and the points left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from maxk_lab.sweeps.plan.cells import Cell, Unit
from maxk_lab.sweeps.plan.grid import Skipped
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.sweeps.spec.variation import Variant, variants
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
    sound = [variant for variant in found if variant.refusal is None]
    for kind, study in spec.studies.items():
        units += STUDIES.get(kind).part("plan").units(study, spec.seeds, sound)
        skipped += _left_out(kind, study, found)
    return Plan(spec, tuple(units), tuple(skipped))


def _left_out(kind: str, study: object, found: Sequence[Variant]) -> list[Skipped]:
    """Return settings that cannot run, and points that cannot or are there already, each once."""
    skipped = [Skipped(v.setting, v.refusal, kind) for v in found if v.refusal is not None]
    for environment in dict.fromkeys(v.environment["name"] for v in found if v.refusal is None):
        left_out = STUDIES.get(kind).part("plan").left_out(study, environment)
        skipped += [one for one in left_out if one not in skipped]
    return skipped
