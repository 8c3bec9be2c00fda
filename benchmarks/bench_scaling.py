"""Measure how costs grow: with samples, K, trajectories, parameters, instances, decisions, cells.

    python benchmarks/bench_scaling.py
    python benchmarks/bench_scaling.py --into docs/performance.md --figure docs/performance.svg

Each line varies one size alone. The seconds are of the processor on one torch thread, the medians
of several calls; the exponent is the slope of their logarithms between the two largest sizes,
where fixed costs matter least. `--into` puts the table between the marks of a page.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from calibration.pages import put_between
from timing import medians

from maxk_lab.environments import ENVIRONMENTS, make_environment
from maxk_lab.estimators import advantages
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.products import score_gram
from maxk_lab.gradients.scores.trajectories import instance_scores
from maxk_lab.studies.gradient.work import measure
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.training.refusals import Weighting
from maxk_lab.training.settings import Settings
from maxk_lab.training.step import Step
from maxk_lab.training.trainer import Trainer

BEGIN, END = "<!-- scaling: begin -->", "<!-- scaling: end -->"
ROUNDS = 5


@dataclass(frozen=True)
class Line:
    """What is measured, the size that varies, and a call for each of its values."""

    what: str
    size: str
    make: Callable[[int], Callable[[], object]]
    values: tuple[int, ...]


@dataclass(frozen=True)
class Measured:
    """A line and its seconds."""

    line: Line
    seconds: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """The slope between the two largest sizes."""
        (a, b), (x, y) = self.line.values[-2:], self.seconds[-2:]
        return math.log(y / x) / math.log(b / a)


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


def measured() -> Iterator[Measured]:
    """Yield every line with its medians."""
    for line in LINES:
        # One after the other: memory that a large call gives back is not there for a small one.
        found = [medians({"": line.make(n)}, ROUNDS, processor=True)[""] for n in line.values]
        yield Measured(line, tuple(found))


def table(rows: list[Measured]) -> list[str]:
    """Return the rows of the table in markdown."""
    lines = ["| what | grows with | from, to | ms | exponent |", "| --- | --- | --- | --- | --: |"]
    for row in rows:
        line, values = row.line, row.line.values
        ms = ", ".join(f"{1e3 * seconds:.3g}" for seconds in row.seconds)
        sizes = ", ".join(map(str, values))
        lines.append(f"| {line.what} | {line.size} | {sizes} | {ms} | {row.exponent:.2f} |")
    return lines


def draw(rows: list[Measured], path: Path) -> None:
    """Draw a panel for every line, seconds against size, both on a logarithmic axis."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 5, figsize=(15, 6), layout="constrained")
    for panel, row in zip(panels.flat, rows, strict=True):
        milliseconds = [1e3 * seconds for seconds in row.seconds]
        panel.loglog(row.line.values, milliseconds, "o-", color="#1b6ca8")
        # Whole decades: nothing that stays the same looks as if it grew.
        lowest, highest = (math.log10(end(milliseconds)) for end in (min, max))
        panel.set_ylim(10 ** math.floor(lowest), 10 ** (math.floor(highest) + 1))
        panel.set_xticks(row.line.values, map(str, row.line.values))
        panel.minorticks_off()
        panel.set_title(f"{row.line.what}\nexponent {row.exponent:.2f}", fontsize=9)
        panel.set_xlabel(row.line.size)
        panel.grid(alpha=0.3)
    for panel in panels[:, 0]:
        panel.set_ylabel("ms")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    """Print the table, or put it into a page, and draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, metavar="PAGE", help="a page with the two marks")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="an image to draw")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for row in measured():
        rows.append(row)
        print(table([row])[-1], flush=True)
    if given.into is not None:
        page = put_between(given.into.read_text(encoding="utf-8"), BEGIN, table(rows), END)
        given.into.write_text(page, encoding="utf-8")
    if given.figure is not None:
        draw(rows, given.figure)


if __name__ == "__main__":
    main()
