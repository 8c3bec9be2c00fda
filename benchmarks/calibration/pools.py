"""Verdicts on estimators that are unbiased by proof, from pools of real policies.

Where all trajectories of an instance can be listed with their probabilities, new pools are drawn
from the list; elsewhere the policy acts again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from calibration.rows import Row, counted, rated
from torch import Tensor

from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.pool import ScorePool, Trajectories
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.bias import bias_verdicts
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.measures import THESE
from maxk_lab.statistics.units import Units
from maxk_lab.training.trainer import train, warm_up

ALPHA = 0.05
UNBIASED = ("none", "centred", "sample_loo", "pkpo_sloo", "subloo", "affine[0.5]")
_FOUND = ("biased", "scale bias")
# The cell whose scale, 1, is also looked for in its interval.
_SCALED = "centred-8-4"


@dataclass(frozen=True)
class Task:
    """An environment with a policy after some steps of training, and the size of its reports."""

    name: str
    environment: Mapping[str, Any]
    policy: Mapping[str, Any]
    steps: int = 0
    instances: int = 16
    sizes: Sequence[int] = (2048,)
    listed: bool = True
    learning_rate: float = 1e-3
    n: Sequence[int] = (8, 16)
    k: Sequence[int] = (1, 2, 4, 8)

    def cells(self) -> list[dict[str, Any]]:
        """The cells of a report."""
        return [
            {
                "id": f"{baseline}-{n}-{k}",
                "estimator": "maxk",
                "baseline": baseline,
                "n": n,
                "k": k,
                "partitions": 1,
            }
            for baseline in UNBIASED
            for n in self.n
            for k in self.k
            if Method.parse("maxk", baseline, k).refusal(n) is None
        ]


_TINY = {
    "embed_dim": 16,
    "num_encoder_layers": 1,
    "num_heads": 2,
    "feedforward_hidden": 16,
    "dtype": "float64",
}
TSP5 = Task("TSP5, untrained", {"name": "tsp", "num_loc": 5}, _TINY, sizes=(2048, 8192))
BANDIT = Task(
    "bandit of 10 arms",
    {"name": "bandit", "arms": 10, "reward_shift": 0.0},
    {"init_std": 0.5, "dtype": "float64"},
)
TOY_LLM = Task(
    "toy LLM, untrained",
    {
        "name": "toy_llm",
        "task": "modular",
        "vocab_size": 4,
        "max_length": 3,
        "prompt_length": 3,
        "temperature": 1.0,
        "top_p": 1.0,
        "rewards": (),
        "reward_weights": (),
    },
    {"embed_dim": 16, "num_layers": 1, "num_heads": 2, "init_std": 0.1, "dtype": "float64"},
    learning_rate=3e-3,
)
TSP10 = Task(
    "TSP10, untrained", {"name": "tsp", "num_loc": 10}, _TINY, sizes=(256,), listed=False, n=(8,)
)
TASKS = (
    TSP5,
    replace(TSP5, name="TSP5 after 50 steps", steps=50),
    BANDIT,
    TOY_LLM,
    replace(TOY_LLM, name="toy LLM after 100 steps", steps=100),
)
TSP4 = replace(TSP5, name="TSP4", environment={"name": "tsp", "num_loc": 4}, n=(8,), k=(1, 2, 4))
DECEPTIVE = replace(
    TOY_LLM,
    name="toy LLM, deceptive",
    environment={**TOY_LLM.environment, "task": "deceptive"},
    n=(8,),
    k=(1, 2, 4),
)
# Policies that nearly always do the same: rare trajectories carry their gradients.
PEAKED = tuple(
    replace(task, name=f"{task.name} after {steps} steps", steps=steps, sizes=(512, 2048, 8192))
    for task, every in (
        (TSP4, (20, 50, 120)),
        (DECEPTIVE, (20, 120)),
        (replace(TOY_LLM, name="toy LLM, modular", n=(8,), k=(1, 2, 4)), (200,)),
    )
    for steps in every
)
# Judged against a reference, since no list of their trajectories can be had.
UNLISTED = (TSP10,)

# Reports of one policy, each on its own instances; a later one has other trajectories of the first.
SETS = 4


class Source:
    """The pools of one policy of a task."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._environment = make_environment(task.environment, task.policy)
        self._policy = self._environment.policy(derive_seed("policy", seed))
        if task.steps:
            trainer = warm_up(
                self._environment,
                self._policy,
                steps=task.steps,
                batch=32,
                n=16,
                learning_rate=task.learning_rate,
                clip=1.0,
                seed=derive_seed("warm-up", seed),
            )
            train(trainer)
        self._all = self._drawn(SETS * task.instances, 16, 0) if task.listed else None

    def report(self, size: int, repetition: int) -> dict[str, Units]:
        """The units of every cell, from a pool of so many trajectories an instance."""
        count = self._task.instances
        if self._all is None:
            pool = self._drawn(count, size, repetition)
        else:
            chosen = torch.arange(count) + repetition % SETS * count
            pool = redrawn(self._all, chosen, size, derive_seed("pool", self._seed, repetition))
        found = {}
        for name, metrics in measure_cells(pool, self._task.cells(), seed=repetition):
            if isinstance(metrics, Exception):
                raise metrics
            found[name] = Units.from_metrics(metrics)
        return found

    def _drawn(self, count: int, size: int, repetition: int) -> ScorePool:
        instances = self._environment.instances(
            count, derive_seed("instances", self._seed, repetition)
        )
        return draw_pool(
            self._environment,
            self._policy,
            instances,
            count,
            size,
            objectives=self._task.k if self._task.listed else (),
            seed=derive_seed("trajectories", self._seed, repetition),
        )


def redrawn(pool: ScorePool, instances: Tensor, size: int, seed: int) -> ScorePool:
    """A new pool of some instances of a listed one, each trajectory drawn by its probability."""
    draws = torch.Generator().manual_seed(seed)
    some = [pool.parts[i] for i in instances.tolist()]
    listed = [part.listed for part in some if part.listed is not None]
    chances = torch.stack([one.probabilities for one in listed])
    drawn = torch.multinomial(chances, size, replacement=True, generator=draws)
    parts = []
    for part, one, rows in zip(some, listed, drawn, strict=True):
        columns = (one.rewards, one.length, one.logit_proxy, one.ratios)
        trajectories = Trajectories(*(column[rows] for column in columns))
        parts.append(replace(part, rows=rows, drawn=trajectories))
    return replace(pool, parts=tuple(parts))


def false_verdicts(policies: int, tasks: Sequence[Task] = TASKS, seed: int = 0) -> Iterator[Row]:
    """How often a report of one seed, or of two, calls any cell biased."""
    for task in tasks:
        sources = [Source(task, seed + policy) for policy in range(policies)]
        for size in task.sizes:
            reports = [
                [source.report(size, repetition) for source in sources]
                for repetition in range(SETS)
            ]
            alone = [report for together in reports for report in together]
            pairs = [
                {name: Units.pool([a[name], b[name]]) for name in a}
                for together in reports
                for a, b in zip(together[::2], together[1::2], strict=False)
            ]
            regime = f"{task.name}, pool of {size}"
            for seeds, judged in (("one seed", alone), ("two seeds", pairs)):
                wrong = [_any_false(report) for report in judged]
                yield counted(regime, f"any false verdict, {seeds}", ALPHA, wrong, len(judged))
            if task.listed:
                # A report says of cells without a signal that they have none.
                scaled = [report[_SCALED] for report in alone if not report[_SCALED].no_signal]
                scales = [interval(units, "scale", question=THESE) for units in scaled]
                yield rated(regime, "scale, these", 1.0, scales)


def _any_false(report: Mapping[str, Units]) -> bool:
    verdicts = bias_verdicts(report, alpha=ALPHA).values()
    return any(verdict.verdict in _FOUND for verdict in verdicts)
