"""Why an environment cannot do what a study asks, by what its row declares. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxk_lab.environments.catalogue import ENVIRONMENTS, EnvironmentRow

# How an environment that lacks a capability differs from those that have it.
_WITHOUT = {
    "greedy": "is not decoded greedily; environments that are",
    "multistart": "has no forced first actions; environments that have",
    "tempered": "is not sampled at another temperature; environments that are",
    # Whether there is a CUDA device, only the run can tell.
    "cuda": "stays on the CPU; allowed: auto, cpu, or one of these environments",
    "files": "reads no instances; environments that do",
}


def capability_refusal(name: str, capability: str) -> str | None:
    """Why this environment lacks a capability of its row's (`greedy`, `files`, ...), or None."""

    def can(row: EnvironmentRow) -> bool:
        return bool(row.files) if capability == "files" else capability in row.supports

    if can(ENVIRONMENTS.get(name)):
        return None
    able = ", ".join(row.name for row in ENVIRONMENTS if can(row))
    return f"{name} {_WITHOUT[capability]}: {able}"


def optimum_refusal(name: str, parameters: Mapping[str, Any], optimum: str) -> str | None:
    """Why `evaluate.reference: optimum` cannot be had of this environment, or None.

    `auto` and `none` can always be had. With an evaluation set of the user's own, whose size only
    the file tells, this may still allow an `exact` that is then refused when the file is read.
    """
    row = ENVIRONMENTS.get(name)
    if optimum in ("auto", "none") or (optimum == "exact" and row.enumerable(parameters)):
        return None
    if optimum in row.optima:
        return row.lacks_solver(optimum)
    able = ", ".join(row.name for row in ENVIRONMENTS if optimum in row.optima)
    if optimum == "exact":
        return (
            f"{name} with these parameters has no exact optimum here (it has where trajectories "
            f"can be enumerated, {row.exact_when}; {able} have of any size)"
        )
    return f"{optimum} solves {able}, not {name}"
