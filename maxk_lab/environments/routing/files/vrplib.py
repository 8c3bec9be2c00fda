"""TSPLIB and CVRPLIB problems in the form of RL4CO's generators.

Coordinates are in the unit square, demand is a share of the capacity.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import vrplib
from numpy.typing import NDArray

from maxk_lab.errors import LabError

# Constraints of CVRPLIB files that RL4CO's cvrp does not know.
_UNKNOWN_TO_CVRP = ("distance", "service_time", "backhaul", "time_window", "vehicles_max_distance")


def read_problem(path: Path, environment: str) -> dict[str, NDArray[Any]]:
    """The one problem of a file, a batch of one.

    It has `locs` [1, n, 2], and for cvrp `depot` [1, 2] and `demand` [1, n] as well. Coordinates
    are moved to the origin and divided by one factor, the longer side of the smallest rectangle
    around all points, so that they fill the unit square and no angle changes. Rewards are lengths
    in these units, and not rounded to whole numbers as TSPLIB rounds them: times the factor, they
    are about the published lengths. Demand is divided by the capacity. Raises `LabError` for a
    problem of another type, and for one with distances other than Euclidean.
    """
    try:
        problem = vrplib.read_instance(path, compute_edge_weights=False)
    except (ValueError, RuntimeError, IndexError, KeyError, UnicodeDecodeError) as error:
        raise LabError(f"{path} is not in the format of TSPLIB: {error}") from error
    kind = str(problem.get("type", "missing")).split()[0].upper()
    if kind != environment.upper():
        raise LabError(f"{path}: TYPE must be {environment.upper()}, got {kind}")
    weights = problem.get("edge_weight_type")
    if weights != "EUC_2D":
        raise LabError(f"{path}: EDGE_WEIGHT_TYPE must be EUC_2D, got {weights or 'none'}")
    points = _rows(problem, "node_coord", path)
    if points.ndim != 2 or points.shape[1] != 2:
        raise LabError(f"{path}: NODE_COORD_SECTION must have two coordinates a node")
    if problem.get("dimension", len(points)) != len(points):
        raise LabError(
            f"{path}: DIMENSION is {problem['dimension']}, but there are {len(points)} nodes"
        )
    points = points - points.min(0)
    factor = points.max()
    if factor <= 0:
        raise LabError(f"{path}: all nodes are at one place")
    points /= factor
    return {"locs": points[None]} if environment == "tsp" else _routes(problem, points, path)


def _routes(
    problem: dict[str, Any], points: NDArray[np.float64], path: Path
) -> dict[str, NDArray[Any]]:
    """The depot goes first, the customers follow in the order of the file."""
    for name in _UNKNOWN_TO_CVRP:
        if name in problem:
            raise LabError(f"{path}: {name.upper()} is a constraint that cvrp does not have")
    demand = _rows(problem, "demand", path)
    depots = _rows(problem, "depot", path).astype(int).reshape(-1)
    capacity = problem.get("capacity")
    if len(depots) != 1 or not 0 <= depots[0] < len(points):
        raise LabError(f"{path}: DEPOT_SECTION must name one of the nodes")
    if not isinstance(capacity, int | float) or capacity <= 0:
        raise LabError(f"{path}: CAPACITY must be a positive number, got {capacity or 'none'}")
    if demand.shape != (len(points),):
        raise LabError(f"{path}: DEMAND_SECTION must have one demand a node")
    customers = np.arange(len(points)) != depots[0]
    demand = demand[customers] / capacity
    if demand.max() > 1 or demand.min() < 0:
        raise LabError(f"{path}: demands must be between 0 and the capacity")
    return {"locs": points[customers][None], "depot": points[depots], "demand": demand[None]}


def _rows(problem: dict[str, Any], name: str, path: Path) -> NDArray[np.float64]:
    if name not in problem:
        raise LabError(f"{path}: {name.upper()}_SECTION is missing")
    try:
        return np.asarray(problem[name], dtype=np.float64)
    except ValueError:
        raise LabError(
            f"{path}: {name.upper()}_SECTION must have the same count of numbers in every row"
        ) from None
