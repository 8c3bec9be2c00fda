"""The shortest tours of TSP instances, proved optimal by an integer program (HiGHS in scipy)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_matrix, vstack
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from tensordict import TensorDict
from torch import Tensor

from maxk_lab.environments.environment import Optima
from maxk_lab.environments.routing.problems import cast_floats
from maxk_lab.errors import LabError

Floats = NDArray[np.float64]
METHOD = "milp"
# Tours of at most this many cities take a moment.
FEW_CITIES = 12
# HiGHS proves a cost to 1e-6; scaled lengths are proved to 1e-9.
COST_SCALE = 1e3
# Flows are integers in millionths.
CAPACITY_UNIT = 1e-6
# HiGHS's own tolerance hides smaller violations.
LEAST_VIOLATION = 1e-2


def optimum_method(environment: Any, instances: TensorDict, reference: str) -> str | None:
    """Return the method for `evaluate.reference`; None leaves the optimum to enumeration.

    Raises `LabError` if `auto` would take longer than a moment, and for a user's environment.
    """
    if environment.foreign:
        raise LabError("the optima of an environment of your own are not known")
    if not environment.row.solves_any_size:
        return None
    if reference == "auto" and instances["locs"].shape[1] > FEW_CITIES:
        raise LabError("takes more than a moment: use exact")
    return METHOD


def best_rewards(environment: Any, instances: TensorDict, method: str) -> Optima:
    """Return the optima of TSP instances, solved and valued in double precision.

    RL4CO checks the tours and computes their rewards. Raises `LabError` for another environment.
    """
    if method != METHOD or not environment.row.solves_any_size:
        raise LabError(f"there is no optimum by {method} for {environment.name}")
    state = cast_floats(instances, torch.float64).cpu()
    tours = torch.tensor([best_tour(points.numpy()) for points in state["locs"]])
    reward: Tensor = environment.env.get_reward(state, tours, check_solution=True)
    return Optima(reward.double(), method, exact=True)


def best_tour(points: Floats) -> list[int]:
    """Return the nodes [n] of a shortest tour through points [n, 2] in order, node 0 first.

    Variables x_e for the edges, with Σ_{δ(i)} x = 2 at every node i and Σ_{δ(S)} x ≥ 2 for sets S
    without node 0. Violated sets are added to the linear relaxation, then to the integer program,
    until no set is violated (Dantzig, Fulkerson and Johnson 1954, doi:10.1287/opre.2.4.393). Raises
    `RuntimeError` if HiGHS does not prove a tour optimal.
    """
    n = len(points)
    if n <= 3:
        return list(range(n))
    a, b = np.triu_indices(n, 1)
    length = np.hypot(*(points[a] - points[b]).T)
    edges = np.arange(len(a))
    ends = np.concatenate([a, b]), np.tile(edges, 2)
    degree = csr_matrix((np.ones(2 * len(a)), ends), shape=(n, len(a)))
    cuts: list[csr_matrix] = []
    integer = False
    while True:
        connected = [LinearConstraint(vstack(cuts), 2, np.inf)] if cuts else []
        solution = milp(
            COST_SCALE * length,
            bounds=(0, 1),
            constraints=[LinearConstraint(degree, 2, 2), *connected],
            integrality=np.full(len(a), int(integer)),
            options={"mip_rel_gap": 0.0},
        )
        if solution.x is None or solution.status != 0:
            raise RuntimeError(f"HiGHS found no optimal tour: {solution.message}")
        new = _cuts(solution.x, a, b, n)
        if not new and integer:
            return _order(solution.x, a, b)
        integer = integer or not new
        cuts += new


def _cuts(x: Floats, a: NDArray[np.intp], b: NDArray[np.intp], n: int) -> list[csr_matrix]:
    """Return a violated constraint for every node with a flow to node 0 below 2.

    Its set is the node's side of a smallest cut.
    """
    capacity = np.rint(np.maximum(x, 0.0) / CAPACITY_UNIT).astype(np.int32)
    graph: Any = csr_matrix(
        (np.tile(capacity, 2), (np.concatenate([a, b]), np.concatenate([b, a]))), shape=(n, n)
    )
    graph.eliminate_zeros()
    cuts: dict[bytes, csr_matrix] = {}
    for node in range(1, n):
        flow = maximum_flow(graph, node, 0)
        if flow.flow_value * CAPACITY_UNIT > 2 - LEAST_VIOLATION:
            continue
        # The search would follow stored zeros.
        residual = (graph - flow.flow).maximum(0)
        inside = np.zeros(n, dtype=bool)
        inside[breadth_first_order(residual, node, return_predecessors=False)] = True
        cuts[inside.tobytes()] = csr_matrix((inside[a] != inside[b]).astype(float)[None])
    return list(cuts.values())


def _order(x: Floats, a: NDArray[np.intp], b: NDArray[np.intp]) -> list[int]:
    """Return the nodes along a tour, from node 0."""
    neighbours: dict[int, list[int]] = defaultdict(list)
    for edge in np.flatnonzero(x > 0.5):
        neighbours[int(a[edge])].append(int(b[edge]))
        neighbours[int(b[edge])].append(int(a[edge]))
    order = [0, neighbours[0][0]]
    while len(order) < len(neighbours):
        before, node = order[-2:]
        first, second = neighbours[node]
        order.append(second if first == before else first)
    return order
