"""A training study in a sweep file: its block, units and conditions; and the files it keeps.

Imports no torch: whoever sends a unit to another machine asks which files go with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxk_lab.seeds import derive_seed
from maxk_lab.studies.training.checks import check as check
from maxk_lab.studies.training.plan import left_out as left_out
from maxk_lab.studies.training.plan import units as units
from maxk_lab.studies.training.schema import Study as Study

# Nothing goes because the plan has no cell for it: a trained policy costs hours, and another sweep
# may begin with it.
SHAPES: tuple[str, ...] = ()


def kept(unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the patterns of the files that the unit can use, with those of these cells."""
    files = evaluation(unit, cells)
    for cell in cells:
        files += [checkpoint_file(cell["id"]), snapshot_file(cell["id"], "*")]
    return files


def evaluation(unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the patterns of the held-out instances and of their optima."""
    instances = instances_stem(unit["training"]["evaluate"]["instances"], evaluation_seed(unit))
    return [f"{instances}-*", reference_file(unit["environment"]["name"], "*", "*")]


def spent(unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return no pattern: trained policies are of use when all is measured."""
    return []


def evaluation_seed(unit: Mapping[str, Any]) -> int:
    """Return the seed of the held-out instances and of the samples on them."""
    return derive_seed("evaluation", unit["environment"], unit["seed"])


def checkpoint_file(cell_id: str) -> str:
    """Return the name of the last checkpoint of a cell, which holds the trained policy, too."""
    return f"training-{cell_id}.pt"


def snapshot_file(cell_id: str, step: int | str) -> str:
    """Return the name of a cell's policy as it was after `step` steps."""
    return f"policy-{cell_id}-{step}.pt"


def instances_stem(count: int, seed: int) -> str:
    """Return what the name of the file of held-out instances begins with, before their hash."""
    return f"instances-{seed:016x}-{count}"


def reference_file(environment: str, method: str, instances: str) -> str:
    """Return the name of the file with the optima of instances of this hash."""
    return f"reference-{environment}-{method}-{instances}.json"
