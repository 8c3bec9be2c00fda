"""Measure how costs grow: with samples, K, trajectories, parameters, instances, decisions, cells.

    python benchmarks/bench_scaling.py --into docs/performance.md

Each line varies one size alone. The seconds are of the processor on one torch thread, the medians
of several calls; the exponent is the slope of their logarithms between the two largest sizes,
where fixed costs matter least.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import bandit_sweep, made, medians, options, print_or_put, step

from maxk_lab.estimators import advantages
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.products import score_gram
from maxk_lab.gradients.scores.trajectories import instance_scores
from maxk_lab.studies.gradient.work import measure
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.training import Weighting


def weights(n: int, k: int) -> Callable[[], object]:
    rewards = torch.randn(512, n, generator=torch.Generator().manual_seed(0))
    return lambda: advantages(rewards, baseline="subloo", k=k)


def gram(trajectories: int, cities: int = 20, **policy: Any) -> Callable[[], object]:
    environment = made("tsp", {"num_loc": cities}, policy)
    actor, instance = environment.policy(0), environment.instances(1, 1)
    actions = environment.rollout(actor, instance, trajectories, seed=2).actions[0]
    parameters = [p for p in actor.parameters() if p.requires_grad]

    def call() -> object:
        scores = instance_scores(environment, actor, instance, actions, compressed=True)
        return score_gram(scores, trajectories, parameters)

    return call


def of_tsp(what: str, size: int) -> Callable[[], object]:
    environment = made("tsp", {"num_loc": size if what == "rollout" else 20}, {})
    policy, count = environment.policy(0), 32 if what == "rollout" else size
    drawn = environment.instances(count, 1)
    return {
        "pool": lambda: draw_pool(environment, policy, drawn, count, 64, objectives=[2], seed=3),
        "rollout": lambda: environment.rollout(policy, drawn, 16, seed=0),
        "step": step(environment, policy, Weighting("maxk", "centred", 16, 4), batch=16 * count),
    }[what]


def of_bandit(seeds: int, groups: int) -> Callable[[], object]:
    """Plan so many units of so many cells; of a single one, measure its cells."""
    grid = {"baseline": "centred", "n": list(range(4, 4 + groups)), "k": 2}
    with tempfile.TemporaryDirectory() as folder:
        sweep = load_spec(bandit_sweep(Path(folder), seeds, grid, instances=4, pool=256))
    if seeds > 1:
        return lambda: [cell.id for cell in make_plan(sweep).cells]
    (unit,) = make_plan(sweep).units
    cells = [cell.as_dict() for cell in unit.cells]
    return lambda: list(measure(unit.as_dict(), cells, cache=None, event=lambda *_: None))


# What is measured, the size that varies, and a call for each of its values.
LINES: tuple[tuple[str, str, Callable[[int], Callable[[], object]], tuple[int, ...]], ...] = (
    ("weights of 512 groups, K = 4", "n", lambda n: weights(n, 4), (16, 64, 256, 1024)),
    ("weights of 512 groups, n = 256", "K", lambda k: weights(256, k), (2, 8, 32, 128)),
    ("Gram matrix of one TSP20", "trajectories", gram, (64, 128, 256, 512, 1024)),
    (
        "Gram matrix of 64 tours of TSP20",
        "width of the policy",
        lambda width: gram(64, embed_dim=width, feedforward_hidden=4 * width),
        (64, 128, 256, 512),
    ),
    ("Gram matrix of 64 tours", "cities", lambda n: gram(64, n), (10, 20, 50, 100)),
    ("score pool of TSP20", "instances", lambda n: of_tsp("pool", n), (1, 2, 4, 8)),
    ("rollout of 512 tours", "cities", lambda n: of_tsp("rollout", n), (10, 20, 50, 100)),
    ("training step of TSP20, n = 16", "instances", lambda n: of_tsp("step", n), (8, 16, 32, 64)),
    ("cells of a unit of the bandit", "cells", lambda n: of_bandit(1, n), (8, 16, 32, 64)),
    ("plan in units of twenty cells", "units", lambda n: of_bandit(n, 20), (10, 100, 1000)),
)

if __name__ == "__main__":
    into = options(__doc__).parse_args().into
    torch.set_num_threads(1)
    rows = ["| what | grows with | from, to | ms | exponent |", "| --- | --- | --- | --- | --: |"]
    for what, size, make, values in LINES:
        # One after the other: memory that a large call gives back is not there for a small one.
        seconds = [medians({"": make(n)}, 5, processor=True)[""] for n in values]
        slope = math.log(seconds[-1] / seconds[-2]) / math.log(values[-1] / values[-2])
        ms, sizes = ", ".join(f"{1e3 * s:.3g}" for s in seconds), ", ".join(map(str, values))
        rows.append(f"| {what} | {size} | {sizes} | {ms} | {slope:.2f} |")
        print(rows[-1], flush=True)
    if into is not None:
        print_or_put(rows, into, "scaling")
