"""Why an environment cannot do what a study asks, by what its row declares. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from maxk_lab.environments.catalogue import ENVIRONMENTS, EnvironmentRow


def greedy_refusal(name: str) -> str | None:
    """Why a policy cannot be decoded greedily in this environment, or None."""
    if ENVIRONMENTS.get(name).greedy:
        return None
    able = _names(lambda row: row.greedy)
    return f"{name} is not decoded greedily; environments that are: {able}"


def multistart_refusal(name: str) -> str | None:
    """Why first actions cannot be forced in this environment, or None."""
    if ENVIRONMENTS.get(name).multistart:
        return None
    able = _names(lambda row: row.multistart)
    return f"{name} has no forced first actions; environments that have: {able}"


def cuda_refusal(name: str) -> str | None:
    """Why this environment cannot run on a CUDA device; whether there is one, the run can tell."""
    if ENVIRONMENTS.get(name).cuda:
        return None
    able = _names(lambda row: row.cuda)
    return f"{name} stays on the CPU; allowed: auto, cpu, or one of these environments: {able}"


def files_refusal(name: str) -> str | None:
    """Why instances of this environment cannot be in files, or None."""
    if ENVIRONMENTS.get(name).files:
        return None
    able = _names(lambda row: row.files)
    return f"{name} reads no instances; environments that do: {able}"


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
    able = _names(lambda row: optimum in row.optima)
    if optimum == "exact":
        return (
            f"{name} with these parameters has no exact optimum here (it has where trajectories "
            f"can be enumerated, {row.exact_when}; {able} have of any size)"
        )
    return f"{optimum} solves {able}, not {name}"


def _names(able: Callable[[EnvironmentRow], object]) -> str:
    return ", ".join(row.name for row in ENVIRONMENTS if able(row))
