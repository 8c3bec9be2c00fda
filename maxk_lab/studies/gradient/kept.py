"""The files that a gradient unit keeps in the cache of a run: pools and trained policies.

Imports no torch: whoever sends a unit to another machine asks which files go with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.studies.gradient.plan import RECORD_VERSION
from maxk_lab.sweeps.plan.identity import IDENTITY_VERSION, content_hash, without_paths

# The names of what is of no use once no unit of the plan can use it. Policies are not among them:
# those that a training has kept have names of the same shape, and cost hours.
SHAPES = (f"pool-{'[0-9a-f]' * 16}.npz",)


def kept(unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the patterns of the files that the unit can use: its pool, and earlier stages."""
    return [pool_file(unit), f"{policy_stem(unit)}-*.pt"]


def evaluation(unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return no pattern: instances are drawn from their seed."""
    return []


def spent(unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the patterns of all: they spare new cells the training and the samples, no more."""
    return kept(unit, cells)


def pool_file(unit: Mapping[str, Any]) -> str:
    """Return the name of the pool that all cells of the unit are measured on."""
    # The cutting of a pool into groups, or their enumeration instead, does not change the pool.
    axes = {key: value for key, value in unit.items() if key not in ("partitions", "complete")}
    version = [IDENTITY_VERSION, RECORD_VERSION, _version(unit)]
    meaning = axes | {"policy": without_paths(unit["policy"]), "version": version}
    return f"pool-{content_hash(meaning)}.npz"


def policy_stem(unit: Mapping[str, Any]) -> str:
    """Return what the names of the policies of one training begin with, whatever their stage."""
    axes = {key: unit[key] for key in ("environment", "seed", "warmup")} | {
        "policy": without_paths(unit["policy"]),
        "version": [IDENTITY_VERSION, _version(unit)],
    }
    return f"policy-{content_hash(axes)}"


def policy_file(unit: Mapping[str, Any], stage: int) -> str:
    """Return the name of the policy after `stage` steps."""
    return f"{policy_stem(unit)}-{stage}.pt"


def stage_of(path: Path) -> int:
    """Return the steps of training that the policy in a file of this name has."""
    return int(path.stem.rsplit("-", 1)[1])


def _version(unit: Mapping[str, Any]) -> int:
    """Return that of the environment: the digits of its policies and trajectories."""
    return ENVIRONMENTS.get(unit["environment"]["name"]).version
