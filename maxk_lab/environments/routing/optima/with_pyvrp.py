"""The best solutions that PyVRP finds by iterated local search.

Wouda, Lan and Kool 2024, doi:10.1287/ijoc.2023.0055.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensordict import TensorDict
from torch import Tensor

from maxk_lab.environments.routing.rows import NEEDS_PYVRP
from maxk_lab.errors import LabError

# PyVRP counts in whole numbers: lengths and times in millionths of their unit, loads in
# hundred-millionths of the capacity.
LENGTH_SCALE = 1e6
LOAD_SCALE = 1e8
# RL4CO lets a load exceed the capacity by 1e-5 of it, against rounding; half of that is enough for
# sums in single precision.
LOAD_ALLOWANCE = 5e-6
# Iterations of its search, not seconds, so that the same instance has the same result on any
# machine.
ITERATIONS = 5_000
SEED = 0


def best_known(name: str, instance: TensorDict, iterations: int = ITERATIONS) -> list[int]:
    """The nodes of the best solution of one instance [1], in order, with 0 between routes.

    They follow the depot, or city 0 of a tsp. Deterministic. Raises `LabError` where PyVRP is not
    installed and `RuntimeError` where it finds nothing feasible.
    """
    try:
        pyvrp: Any = import_module("pyvrp")
        stop: Any = import_module("pyvrp.stop")
    except ImportError:
        raise LabError(NEEDS_PYVRP) from None
    points = instance["locs"][0].double().numpy()
    model = pyvrp.Model()
    places = [model.add_location(x=float(x), y=float(y)) for x, y in points]
    depot = model.add_depot(places[0])
    _add_edges(model, places, points, timed=name == "cvrptw")
    vehicles: dict[str, Any] = {"num_available": 1}
    if name == "pdp":
        half = len(points) // 2
        for pickup in range(1, half + 1):
            model.add_shipment(places[pickup], places[pickup + half])
    elif name == "tsp":
        for place in places[1:]:
            model.add_client(place)
    else:
        for place, client in zip(places[1:], _clients(name, instance), strict=True):
            model.add_client(place, **client)
        vehicles = _vehicles(name, instance)
    model.add_vehicle_type(start_depot=depot, end_depot=depot, **vehicles)
    result = model.solve(
        stop.MaxIterations(iterations), seed=SEED, collect_stats=False, display=False
    )
    if not result.is_feasible():
        raise RuntimeError(
            f"PyVRP found no feasible solution of this {name} in {iterations} iterations"
        )
    return _nodes(result.best)


def _add_edges(model: Any, places: list[Any], points: NDArray[np.float64], timed: bool) -> None:
    """Lengths are rounded to the nearest.

    Where they are times as well, these are rounded up, so that none is missed.
    """
    lengths = np.linalg.norm(points[:, None] - points[None], axis=-1) * LENGTH_SCALE
    nearest, up = np.rint(lengths).astype(int), np.ceil(lengths).astype(int) * timed
    for a, start in enumerate(places):
        for b, end in enumerate(places):
            if a != b:
                said = {"distance": int(nearest[a, b]), "duration": int(up[a, b])}
                model.add_edge(start, end, **said)


def _clients(name: str, instance: TensorDict) -> list[dict[str, Any]]:
    """PyVRP's arguments for every node but the depot."""
    loads = _whole(instance["demand"], LOAD_SCALE)
    clients: list[dict[str, Any]] = [{"delivery": load} for load in loads]
    if name == "cvrptw":
        windows = _whole(instance["time_windows"], LENGTH_SCALE)
        service = _whole(instance["durations"], LENGTH_SCALE)
        for node, client in enumerate(clients, 1):
            early, late = windows[node]
            client |= {"tw_early": early, "tw_late": late, "service_duration": service[node]}
    return clients


def _vehicles(name: str, instance: TensorDict) -> dict[str, Any]:
    capacity = float(instance["vehicle_capacity"][0, 0]) * LOAD_SCALE * (1 + LOAD_ALLOWANCE)
    # A route for every customer is always enough.
    vehicles = {"num_available": instance["locs"].shape[1] - 1, "capacity": int(capacity)}
    if name == "cvrptw":
        vehicles["tw_late"] = int(float(instance["time_windows"][0, 0, 1]) * LENGTH_SCALE)
    return vehicles


def _whole(values: Tensor, scale: float) -> list[Any]:
    """Values of the one instance in whole numbers."""
    return list(np.rint(values[0].double().numpy() * scale).astype(int).tolist())


def _nodes(solution: Any) -> list[int]:
    """The places of the solution's activities.

    PyVRP numbers clients and shipments from 0, and RL4CO pickups before deliveries.
    """
    nodes: list[int] = []
    for route in solution.routes():
        for activity in route:
            if activity.is_client() or activity.is_pickup():
                nodes.append(activity.idx + 1)
            elif activity.is_delivery():
                nodes.append(activity.idx + 1 + solution.num_shipments())
        nodes.append(0)
    return nodes[:-1]
