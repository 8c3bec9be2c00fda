"""The best single tour from the depot, with proof.

It solves a mixed-integer program with HiGHS (scipy), to which connectivity is added lazily.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix, vstack
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

Floats = NDArray[np.float64]
# Costs are multiplied by this, so that HiGHS's absolute tolerance for optimality, 1e-6, is one of
# 1e-9 in units of the reward.
COST_SCALE = 1e3
# Nodes visited less than this are not visited, up to HiGHS's tolerance.
PRESENT = 1e-5
# Flows are counted in whole millionths; a constraint missed by less than a hundredth is none to
# add.
CAPACITY_UNIT = 1e-6
LEAST_VIOLATION = 1e-2


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
    twice = (a == 0) & ~must[b]
    bounds = Bounds(
        np.concatenate([np.zeros(edges), must]),
        np.concatenate([np.where(twice, 2.0, 1.0) * near, np.ones(n)]),
    )
    constraints = _fixed(problem, a, b, length)
    cuts: list[csr_matrix] = []
    whole = False
    while True:
        lazily = [LinearConstraint(vstack(cuts), 0, np.inf)] if cuts else []
        found = milp(
            cost,
            bounds=bounds,
            constraints=[*constraints, *lazily],
            integrality=np.full(edges + n, int(whole)),
            options={"mip_rel_gap": 0.0},
        )
        if found.x is None or found.status != 0:
            raise RuntimeError(f"HiGHS found no optimal tour: {found.message}")
        new = _cuts(found.x, a, b, n)
        if not new and whole:
            return _order(found.x[:edges], a, b)
        whole = whole or not new
        cuts += new


def _fixed(
    problem: OneTour, a: NDArray[np.intp], b: NDArray[np.intp], length: Floats
) -> list[LinearConstraint]:
    n, edges = len(problem.points), len(a)
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
    return constraints


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
