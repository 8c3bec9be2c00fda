"""The best rewards of RL4CO's instances, by the method its name says.

milp    the best single tour from the depot, with proof: a mixed-integer program solved by HiGHS
        (scipy), to which connectivity is added lazily
pyvrp   the best solution that PyVRP finds by iterated local search (Wouda, Lan and Kool 2024,
        doi:10.1287/ijoc.2023.0055), without proof
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix, vstack
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from tensordict import TensorDict
from torch import Tensor

from maxk_lab.environments.environment import Optima
from maxk_lab.environments.routing.problems import cast_floats
from maxk_lab.environments.routing.rows import NEEDS_PYVRP
from maxk_lab.errors import LabError

Floats = NDArray[np.float64]
# Tours through so many cities take a moment.
FEW_CITIES = 12
# Costs are multiplied by this, so that HiGHS's absolute tolerance for optimality, 1e-6, is one of
# 1e-9 in units of the reward.
COST_SCALE = 1e3
# Nodes visited less than this are not visited, up to HiGHS's tolerance.
PRESENT = 1e-5
# Flows are counted in whole millionths; a constraint missed by less than a hundredth is none to
# add.
CAPACITY_UNIT = 1e-6
LEAST_VIOLATION = 1e-2
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


def optimum_method(environment: Any, instances: TensorDict, reference: str) -> str | None:
    """The method for what `evaluate.reference` asks; None leaves it to enumeration.

    Raises `LabError` where `auto` asks for what takes longer than a moment, and
    for an environment that a function of the user's own makes.
    """
    if environment.foreign:
        raise LabError("the optima of an environment of your own are not known")
    if reference == "pyvrp":
        return "pyvrp"
    if environment.name == "tsp" and instances["locs"].shape[1] <= FEW_CITIES:
        return "milp"
    solved = environment.row.optima
    if environment.enumerable or not solved:
        return None
    if reference == "auto":
        raise LabError(f"takes more than a moment: ask for {' or '.join(solved)}")
    return "milp" if reference == "exact" and "exact" in solved else None


def best_rewards(environment: Any, instances: TensorDict, method: str) -> Optima:
    """The optima of `instances`: solutions are found in double precision.

    Their values are what RL4CO's own reward gives for them in double precision, once RL4CO has
    checked that they are feasible; it raises its error for one that is not. Raises `LabError` where
    the environment has no such method.
    """
    name = environment.name
    declared = {"milp": "exact", "pyvrp": "pyvrp"}.get(method)
    if declared not in environment.row.optima:
        raise LabError(f"there is no optimum by {method} for {name}")
    state = cast_floats(instances, torch.float64).cpu()
    if method == "milp":
        nodes = [best_tour(_one_tour(name, state[index]))[1:] for index in range(len(state))]
    else:
        nodes = [best_known(name, state[index : index + 1]) for index in range(len(state))]
    # From the depot (tsp: city 0) to these nodes in order.
    rows = [[0, *order] if name == "tsp" else order for order in nodes]
    # The tours of these end with an action, back to the depot; and more visits there cost nothing.
    longest = max(len(row) for row in rows) + (name in ("op", "pctsp", "spctsp"))
    actions = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    reward: Tensor = environment.env.get_reward(state, actions, check_solution=True)
    return Optima(reward.double(), method, exact=method == "milp")


@dataclass(frozen=True)
class OneTour:
    """A problem: choose nodes, at least one, and a tour through them from node 0.

    It minimises length · `length_cost` + Σ `skipping` of the nodes left out. points: [n, 2];
    skipping: [n], infinite where a node must be visited. The tour is at most `longest` long, and
    the sum of `prize` [n] over visited nodes is at least `least_prize`.
    """

    points: Floats
    skipping: Floats
    length_cost: float = 1.0
    longest: float = np.inf
    prize: Floats | None = None
    least_prize: float = 0.0


def _one_tour(name: str, state: TensorDict) -> OneTour:
    points = state["locs"].numpy()
    everywhere = np.full(len(points), np.inf)
    if name == "tsp":
        return OneTour(points, everywhere)
    if name == "op":
        # At node 0, from where nothing is left to go: the longest tour.
        longest = float(state["max_length"][0])
        return OneTour(points, state["prize"].numpy(), length_cost=0.0, longest=longest)
    prize = state["real_prize"].numpy()
    if prize.sum() < 1.0:  # too few all together: RL4CO asks for all nodes
        return OneTour(points, everywhere)
    return OneTour(points, state["penalty"].numpy(), prize=prize, least_prize=1.0)


def best_tour(problem: OneTour) -> list[int]:
    """The nodes of an optimal tour in order, node 0 first, and alone where no other is near enough.

    Variables x_ij for the edges (2 for a tour of one node and back) and y_i for the nodes; Σ_j x_ij
    = 2 y_i, y_0 = 1, and for sets S without node 0 that too few edges lead to, Σ_{δ(S)} x ≥ 2 y_i
    with i ∈ S: first for the linear relaxation, then for whole solutions, until none is left. As
    the program with fewer constraints is a relaxation, that solution is optimal (Dantzig, Fulkerson
    and Johnson 1954, doi:10.1287/opre.2.4.393; Fischetti, Salazar and Toth 1998,
    doi:10.1287/ijoc.10.2.133). Raises `RuntimeError` where HiGHS does not prove one optimal.
    """
    n = len(problem.points)
    if n <= 2 and np.isinf(problem.skipping[1:]).all():
        return list(range(n))
    a, b = np.triu_indices(n, 1)
    edges = len(a)
    length = np.hypot(*(problem.points[a] - problem.points[b]).T)
    away = np.hypot(*(problem.points - problem.points[0]).T)
    near = away[a] + length + away[b] <= problem.longest
    if not near.any():
        return [0]
    must = np.isinf(problem.skipping)
    must[0] = True
    # Leaving node i out costs skipping[i], up to a constant the same as visiting it gaining as
    # much.
    gain = np.where(must, 0.0, problem.skipping)
    cost = COST_SCALE * np.concatenate([problem.length_cost * length, -gain])
    # A tour of one node and back takes its edge twice.
    twice = np.where((a == 0) & ~must[b], 2.0, 1.0)
    bounds = Bounds(
        np.concatenate([np.zeros(edges), must]), np.concatenate([twice * near, np.ones(n)])
    )
    incident = np.zeros((n, edges + n))
    incident[a, range(edges)] = incident[b, range(edges)] = 1
    incident[range(n), range(edges, edges + n)] = -2
    constraints = [LinearConstraint(csr_matrix(incident), 0, 0)]
    if np.isfinite(problem.longest):
        row = np.concatenate([length, np.zeros(n)])[None]
        constraints.append(LinearConstraint(row, -np.inf, problem.longest))
    if problem.prize is not None:
        row = np.concatenate([np.zeros(edges), problem.prize])[None]
        constraints.append(LinearConstraint(row, problem.least_prize, np.inf))
    cuts: list[csr_matrix] = []
    whole = False
    while True:
        lazily = [LinearConstraint(vstack(cuts), 0, np.inf)] if cuts else []
        solution = milp(
            cost,
            bounds=bounds,
            constraints=[*constraints, *lazily],
            integrality=np.full(edges + n, int(whole)),
            options={"mip_rel_gap": 0.0},
        )
        if solution.x is None or solution.status != 0:
            raise RuntimeError(f"HiGHS found no optimal tour: {solution.message}")
        new = _cuts(solution.x, a, b, n)
        if not new and whole:
            return _order(solution.x[:edges], a, b)
        whole = whole or not new
        cuts += new


def _cuts(x: Floats, a: NDArray[np.intp], b: NDArray[np.intp], n: int) -> list[csr_matrix]:
    """The missing constraints: Σ_{δ(S)} x ≥ 2 y_i for every node i with too few edges to node 0.

    S is the side of i in a smallest cut between them.
    """
    edges = len(a)
    visited = x[edges:]
    capacity = np.rint(np.maximum(x[:edges], 0.0) / CAPACITY_UNIT).astype(np.int32)
    graph: Any = csr_matrix(
        (np.tile(capacity, 2), (np.concatenate([a, b]), np.concatenate([b, a]))), shape=(n, n)
    )
    graph.eliminate_zeros()
    cuts: dict[bytes, csr_matrix] = {}
    for node in range(1, n):
        if visited[node] <= PRESENT:
            continue
        flow = maximum_flow(graph, node, 0)
        if flow.flow_value * CAPACITY_UNIT > 2 * visited[node] - LEAST_VIOLATION:
            continue
        inside = np.zeros(n, dtype=bool)
        # An entry of zero would be an edge there.
        left = (graph - flow.flow).maximum(0)
        inside[breadth_first_order(left, node, return_predecessors=False)] = True
        row = np.zeros(edges + n)
        row[:edges] = inside[a] != inside[b]
        row[edges + int(np.where(inside, visited, -1.0).argmax())] = -2.0
        cuts[inside.tobytes()] = csr_matrix(row[None])
    return list(cuts.values())


def _order(x: Floats, a: NDArray[np.intp], b: NDArray[np.intp]) -> list[int]:
    """The nodes along the tour, from node 0."""
    neighbours: dict[int, list[int]] = defaultdict(list)
    for edge in np.arange(len(x)).repeat(np.rint(x).astype(int)):
        neighbours[int(a[edge])].append(int(b[edge]))
        neighbours[int(b[edge])].append(int(a[edge]))
    order, node = [0], 0
    while neighbours[node]:
        following = neighbours[node].pop()
        neighbours[following].remove(node)
        node = following
        if node == 0:
            break
        order.append(node)
    return order


def best_known(name: str, instance: TensorDict, iterations: int = ITERATIONS) -> list[int]:
    """The nodes of PyVRP's best solution of one instance [1], in order, with 0 between routes.

    They follow the depot, or city 0 of a tsp. Deterministic. Raises `LabError` where PyVRP is not
    installed and `RuntimeError` where it finds nothing feasible.
    """
    try:
        pyvrp: Any = import_module("pyvrp")
        stop: Any = import_module("pyvrp.stop")
    except ImportError:
        raise LabError(NEEDS_PYVRP) from None
    points = instance["locs"][0].double().numpy()
    timed = name == "cvrptw"
    model = pyvrp.Model()
    places = [model.add_location(x=float(x), y=float(y)) for x, y in points]
    depot = model.add_depot(places[0])
    # Lengths are rounded to the nearest; where they are times as well, these are rounded up, so
    # that none is missed.
    lengths = np.linalg.norm(points[:, None] - points[None], axis=-1) * LENGTH_SCALE
    nearest, up = np.rint(lengths).astype(int), np.ceil(lengths).astype(int) * timed
    for i, j in zip(*np.nonzero(~np.eye(len(places), dtype=bool)), strict=True):
        cost = {"distance": int(nearest[i, j]), "duration": int(up[i, j])}
        model.add_edge(places[i], places[j], **cost)
    vehicles = {"num_available": 1}
    if name == "pdp":
        half = len(points) // 2
        for pickup in range(1, half + 1):
            model.add_shipment(places[pickup], places[pickup + half])
    elif name == "tsp":
        for place in places[1:]:
            model.add_client(place)
    else:
        vehicles = _add_customers(model, places[1:], instance, timed)
    model.add_vehicle_type(start_depot=depot, end_depot=depot, **vehicles)
    result = model.solve(stop.MaxIterations(iterations), seed=0, collect_stats=False, display=False)
    if not result.is_feasible():
        raise RuntimeError(
            f"PyVRP found no feasible solution of this {name} in {iterations} iterations"
        )
    # PyVRP numbers clients and shipments from 0, and RL4CO pickups before deliveries.
    nodes: list[int] = []
    for route in result.best.routes():
        for activity in route:
            if activity.is_client() or activity.is_pickup():
                nodes.append(activity.idx + 1)
            elif activity.is_delivery():
                nodes.append(activity.idx + 1 + result.best.num_shipments())
        nodes.append(0)
    return nodes[:-1]


def _add_customers(
    model: Any, places: list[Any], instance: TensorDict, timed: bool
) -> dict[str, int]:
    """Add customers with their demand, and return what the vehicles are: one each is enough."""
    capacity = float(instance["vehicle_capacity"][0, 0]) * LOAD_SCALE * (1 + LOAD_ALLOWANCE)
    vehicles = {"num_available": len(places), "capacity": int(capacity)}
    said: list[dict[str, Any]] = [{"delivery": x} for x in _whole(instance["demand"], LOAD_SCALE)]
    if timed:
        windows = _whole(instance["time_windows"], LENGTH_SCALE)
        service = _whole(instance["durations"], LENGTH_SCALE)
        vehicles["tw_late"] = int(float(instance["time_windows"][0, 0, 1]) * LENGTH_SCALE)
        for node, (early, late) in enumerate(windows[1:], 1):
            times = {"tw_early": early, "tw_late": late, "service_duration": service[node]}
            said[node - 1] |= times
    for place, arguments in zip(places, said, strict=True):
        model.add_client(place, **arguments)
    return vehicles


def _whole(values: Tensor, scale: float) -> list[Any]:
    """Values of the one instance in whole numbers."""
    return list(np.rint(values[0].double().numpy() * scale).astype(int).tolist())
