"""Measure how costs grow: with samples, K, trajectories, parameters, instances, decisions, cells.

    python benchmarks/bench_scaling.py
    python benchmarks/bench_scaling.py --into docs/performance.md

Each line varies one size alone. The seconds are of the processor on one torch thread, the medians
of several calls; the exponent is the slope of their logarithms between the two largest sizes,
where fixed costs matter least. `--into` puts the table between the marks of a page.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from timing import medians, print_or_put

from maxk_lab.environments import ENVIRONMENTS, make_environment
from maxk_lab.estimators import advantages
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.products import score_gram
from maxk_lab.gradients.scores.trajectories import instance_scores
from maxk_lab.studies.gradient.work import measure
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.training.settings import Settings, Weighting
from maxk_lab.training.step import Step
from maxk_lab.training.trainer import Trainer

HEADING = "| what | grows with | from, to | ms | exponent |"
ROUNDS = 5


@dataclass(frozen=True)
class Line:
    """What is measured, the size that varies, and a call for each of its values."""

    what: str
    size: str
    make: Callable[[int], Callable[[], object]]
    values: tuple[int, ...]


def made(name: str, **changes: Any) -> Any:
    """Return an environment with its defaults, but for parameters of its own or of its policy."""
    row = ENVIRONMENTS.get(name)
    own, policy = (
        {name: changes.get(name, default) for name, default in settings.defaults().items()}
        for settings in (row.settings, row.policy_settings)
    )
    return make_environment(own | {"name": name}, policy)


def weights(n: int, k: int) -> Callable[[], object]:
    """Return the weighting of 512 groups."""
    rewards = torch.randn(512, n, generator=torch.Generator().manual_seed(0))
    return lambda: advantages(rewards, baseline="subloo", k=k)


def gram(trajectories: int = 64, **changes: Any) -> Callable[[], object]:
    """Return the Gram matrix of the trajectories of one instance of tsp."""
    environment = made("tsp", **changes)
    policy, instance = environment.policy(0), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, trajectories, seed=2).actions[0]
    parameters = [p for p in policy.parameters() if p.requires_grad]

    def call() -> object:
        scores = instance_scores(environment, policy, instance, actions, compressed=True)
        return score_gram(scores, trajectories, parameters)

    return call


def pool(instances: int) -> Callable[[], object]:
    """Return the score pool of so many instances of tsp, 64 trajectories each."""
    environment = made("tsp", num_loc=20)
    policy, drawn = environment.policy(0), environment.instances(instances, 1)
    return lambda: draw_pool(environment, policy, drawn, instances, 64, objectives=[2], seed=3)


def rollout(cities: int) -> Callable[[], object]:
    """Return the rollout of 512 tours without gradient."""
    environment = made("tsp", num_loc=cities)
    policy, drawn = environment.policy(0), environment.instances(32, 1)
    return lambda: environment.rollout(policy, drawn, 16, seed=0)


def step(batch: int) -> Callable[[], object]:
    """Return a training step with 16 trajectories of each of so many instances of tsp."""
    environment = made("tsp", num_loc=20)
    settings = {"batch": 16 * batch, "learning_rate": 1e-15, "device": "cpu"}
    one = Step(environment, Settings.from_mapping(settings), Weighting("maxk", "centred", 16, 4))
    return Trainer.start(one, environment.policy(0), seed=0).advance


def bandit_cells(cells: int) -> Callable[[], object]:
    """Return the measuring of so many cells of one unit of the bandit."""
    plan = make_plan(spec(seeds=1, groups=cells))
    (unit,) = plan.units
    told = [cell.as_dict() | {"id": cell.id} for cell in unit.cells]
    return lambda: list(measure(unit.as_dict(), told, cache=None, event=lambda *_: None))


def planned(seeds: int) -> Callable[[], object]:
    """Return the plan of so many units of twenty cells, their ids included."""
    sweep = spec(seeds=seeds, groups=20)
    return lambda: [cell.id for cell in make_plan(sweep).cells]


def spec(seeds: int, groups: int) -> SweepSpec:
    """Return a sweep of the bandit with so many seeds, and so many n in its grid."""
    grid = {"estimator": ["maxk"], "baseline": ["centred"], "n": list(range(4, 4 + groups))}
    sweep = {
        "name": "scaling",
        "seeds": list(range(seeds)),
        "environment": {"name": "bandit", "arms": 4},
        "gradient": {"instances": 4, "pool": 256, "grid": grid | {"k": [2]}},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scaling.yaml")
        path.write_text(json.dumps(sweep), encoding="utf-8")
        return load_spec(path)


LINES = (
    Line("weights of 512 groups, K = 4", "n", lambda n: weights(n, 4), (16, 64, 256, 1024)),
    Line("weights of 512 groups, n = 256", "K", lambda k: weights(256, k), (2, 8, 32, 128)),
    Line("Gram matrix of one TSP20", "trajectories", gram, (64, 128, 256, 512, 1024)),
    Line(
        "Gram matrix of 64 tours of TSP20",
        "width of the policy",
        lambda width: gram(embed_dim=width, feedforward_hidden=4 * width),
        (64, 128, 256, 512),
    ),
    Line("Gram matrix of 64 tours", "cities", lambda n: gram(num_loc=n), (10, 20, 50, 100)),
    Line("score pool of TSP20", "instances", pool, (1, 2, 4, 8)),
    Line("rollout of 512 tours", "cities", rollout, (10, 20, 50, 100)),
    Line("training step of TSP20, n = 16", "instances", step, (8, 16, 32, 64)),
    Line("cells of a unit of the bandit", "cells", bandit_cells, (8, 16, 32, 64)),
    Line("plan in units of twenty cells", "units", planned, (10, 100, 1000)),
)


def main() -> None:
    """Print the table, and put it into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, metavar="PAGE", help="a page with the two marks")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = [HEADING, "| --- | --- | --- | --- | --: |"]
    for line in LINES:
        # One after the other: memory that a large call gives back is not there for a small one.
        seconds = [medians({"": line.make(n)}, ROUNDS, processor=True)[""] for n in line.values]
        slope = math.log(seconds[-1] / seconds[-2]) / math.log(line.values[-1] / line.values[-2])
        ms, sizes = ", ".join(f"{1e3 * s:.3g}" for s in seconds), ", ".join(map(str, line.values))
        rows.append(f"| {line.what} | {line.size} | {sizes} | {ms} | {slope:.2f} |")
        print(rows[-1], flush=True)
    if arguments.into is not None:
        print_or_put(rows, arguments.into, "scaling")


if __name__ == "__main__":
    main()
