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
    _check(path, kind == environment.upper(), f"TYPE must be {environment.upper()}, got {kind}")
    weights = problem.get("edge_weight_type", "none")
    _check(path, weights == "EUC_2D", f"EDGE_WEIGHT_TYPE must be EUC_2D, got {weights}")
    points = _rows(problem, "node_coord", path)
    flat = points.ndim == 2 and points.shape[1] == 2
    _check(path, flat, "NODE_COORD_SECTION must have two coordinates a node")
    said = problem.get("dimension", len(points))
    _check(path, said == len(points), f"DIMENSION is {said}, but there are {len(points)} nodes")
    points = points - points.min(0)
    _check(path, points.max() > 0, "all nodes are at one place")
    points /= points.max()
    return {"locs": points[None]} if environment == "tsp" else _routes(problem, points, path)


def _routes(
    problem: dict[str, Any], points: NDArray[np.float64], path: Path
) -> dict[str, NDArray[Any]]:
    """The depot goes first, the customers follow in the order of the file."""
    for name in _UNKNOWN_TO_CVRP:
        _check(path, name not in problem, f"{name.upper()} is a constraint that cvrp does not have")
    demand = _rows(problem, "demand", path)
    depots = _rows(problem, "depot", path).astype(int).reshape(-1)
    capacity = problem.get("capacity", "none")
    one = len(depots) == 1 and 0 <= depots[0] < len(points)
    _check(path, one, "DEPOT_SECTION must name one of the nodes")
    positive = isinstance(capacity, int | float) and capacity > 0
    _check(path, positive, f"CAPACITY must be a positive number, got {capacity}")
    each = demand.shape == (len(points),)
    _check(path, each, "DEMAND_SECTION must have one demand a node")
    customers = np.arange(len(points)) != depots[0]
    demand = demand[customers] / capacity
    fits = demand.max() <= 1 and demand.min() >= 0
    _check(path, fits, "demands must be between 0 and the capacity")
    return {"locs": points[customers][None], "depot": points[depots], "demand": demand[None]}


def _rows(problem: dict[str, Any], name: str, path: Path) -> NDArray[np.float64]:
    _check(path, name in problem, f"{name.upper()}_SECTION is missing")
    try:
        return np.asarray(problem[name], dtype=np.float64)
    except ValueError:
        ragged = "must have the same count of numbers in every row"
        raise LabError(f"{path}: {name.upper()}_SECTION {ragged}") from None


def _check(path: Path, holds: bool, message: str) -> None:
    if not holds:
        raise LabError(f"{path}: {message}")
