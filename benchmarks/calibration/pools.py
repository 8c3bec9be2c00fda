"""Verdicts and intervals from pools of real policies, of estimators whose truth is known.

Where all trajectories of an instance can be listed with their probabilities, new pools are drawn
from the list; elsewhere the policy acts again. Bandits whose rewards have a heavy tail are tables
of log-normal rewards: what an estimator's variance and norm are on each follows from its weights
and scores, and their means over instances are those of a few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from calibration.intervals import FOUND
from calibration.rows import ALPHA, Row, Tally, counted, rated
from torch import Tensor

from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.pool import ScorePool, Trajectories
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.bias import bias_verdicts
from maxk_lab.statistics.estimates import Array
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.measures import FIXED, NEW
from maxk_lab.statistics.units import Units
from maxk_lab.training.trainer import train, warm_up

UNBIASED = ("none", "centred", "sample_loo", "pkpo_sloo", "subloo", "affine[0.5]")
# The cell whose scale, 1, is also looked for in its interval.
_SCALED = "centred-8-4"


def measured(
    pool: ScorePool,
    baselines: Sequence[str],
    sizes: Sequence[tuple[int, int]],
    seed: int,
    *,
    complete: bool = False,
) -> dict[str, Units]:
    """The units of cells from a pool, by baseline, n and K; enumerated where `complete`."""
    cells = [
        {"id": f"{baseline}-{n}-{k}", "baseline": baseline, "n": n, "k": k}
        | {"estimator": "maxk", "partitions": 1, "complete": complete}
        for baseline in baselines
        for n, k in sizes
        if Method.parse("maxk", baseline, k).refusal(n) is None
    ]
    units = {}
    for name, metrics in measure_cells(pool, cells, seed=seed):
        if isinstance(metrics, Exception):
            raise metrics
        units[name] = Units.from_metrics(metrics)
    return units


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

    def after(self, steps: int, name: str = "", **changes: Any) -> Task:
        """Return the task after `steps` steps of training."""
        return replace(
            self, name=f"{name or self.name} after {steps} steps", steps=steps, **changes
        )


_TINY = {
    "embed_dim": 16,
    "num_encoder_layers": 1,
    "num_heads": 2,
    "feedforward_hidden": 16,
    "dtype": "float64",
}
_FRESH = {"init_std": 0.5, "dtype": "float64"}
TSP5 = Task("TSP5, untrained", {"name": "tsp", "num_loc": 5}, _TINY, sizes=(2048, 8192))
BANDIT = Task("bandit of 10 arms", {"name": "bandit", "arms": 10, "reward_shift": 0.0}, _FRESH)
TOY_LLM = Task(
    "toy LLM, untrained",
    {
        **{"name": "toy_llm", "task": "modular", "vocab_size": 4, "max_length": 3},
        **{"prompt_length": 3, "temperature": 1.0},
        **{"rewards": (), "reward_weights": ()},
    },
    {"embed_dim": 16, "num_layers": 1, "num_heads": 2, "init_std": 0.1, "dtype": "float64"},
    learning_rate=3e-3,
)
TASKS = (
    TSP5,
    TSP5.after(50, "TSP5"),
    BANDIT,
    TOY_LLM,
    TOY_LLM.after(100, "toy LLM"),
)
# n = K, n = 2K and n > 2K; K = 8 among them.
_SMALL: dict[str, Any] = {"n": (8, 16), "k": (1, 4, 8), "sizes": (512, 2048)}
_TSP4 = replace(TSP5, environment={"name": "tsp", "num_loc": 4}, **_SMALL)
_LLM = replace(TOY_LLM, **_SMALL)
_DECEPTIVE = replace(_LLM, environment={**TOY_LLM.environment, "task": "deceptive"})
# Policies that nearly always do the same: rare trajectories carry their gradients.
PEAKED = (
    *(_TSP4.after(steps, "TSP4") for steps in (20, 50, 120)),
    *(_DECEPTIVE.after(steps, "toy LLM, deceptive") for steps in (20, 120)),
    _LLM.after(200, "toy LLM, modular"),
)
# Judged against a reference, since no list of their trajectories can be had.
UNLISTED = (
    Task(
        *("TSP10, untrained", {"name": "tsp", "num_loc": 10}, _TINY),
        sizes=(256,),
        listed=False,
        n=(8,),
    ),
)
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
        """The units of every cell, from a pool of `size` trajectories an instance."""
        task, count = self._task, self._task.instances
        if self._all is None:
            pool = self._drawn(count, size, repetition)
        else:
            chosen = torch.arange(count) + repetition % SETS * count
            pool = redrawn(self._all, chosen, size, derive_seed("pool", self._seed, repetition))
        return measured(pool, UNBIASED, [(n, k) for n in task.n for k in task.k], repetition)

    def _drawn(self, count: int, size: int, repetition: int) -> ScorePool:
        seeds = (derive_seed(of, self._seed, repetition) for of in ("instances", "trajectories"))
        instances = self._environment.instances(count, next(seeds))
        objectives = self._task.k if self._task.listed else ()
        return draw_pool(
            *(self._environment, self._policy, instances, count, size),
            objectives=objectives,
            seed=next(seeds),
        )


def redrawn(pool: ScorePool, instances: Tensor, size: int, seed: int) -> ScorePool:
    """A new pool of some instances of a listed one, each trajectory drawn by its probability."""
    draws = torch.Generator().manual_seed(seed)
    some = [pool.parts[i] for i in instances.tolist()]
    listed = [block.listed for block in some if block.listed is not None]
    chances = torch.stack([table.probabilities for table in listed])
    drawn = torch.multinomial(chances, size, replacement=True, generator=draws)
    parts = []
    for block, table, rows in zip(some, listed, drawn, strict=True):
        columns = (table.rewards, table.length, table.logit_proxy, table.ratios)
        trajectories = Trajectories(*(column[rows] for column in columns))
        parts.append(replace(block, rows=rows, drawn=trajectories))
    chosen = {
        name: products[instances][:, instances] for name, products in pool.gradient_products.items()
    }
    return replace(pool, parts=tuple(parts), gradient_products=chosen)


def false_verdicts(policies: int, tasks: Sequence[Task] = TASKS, seed: int = 0) -> Iterator[Row]:
    """How often a report of one seed, or of two, calls any cell biased.

    Of reports with a test; the share of cells without one is a row of its own.
    """
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
                verdicts = [
                    [row.verdict for row in bias_verdicts(report, alpha=ALPHA).values()]
                    for report in judged
                ]
                wrong = [
                    any(verdict in FOUND for verdict in of_report)
                    for of_report in verdicts
                    if set(of_report) != {"undefined"}
                ]
                yield counted(regime, f"any false verdict, {seeds}", ALPHA, wrong, len(judged))
                undefined = [
                    verdict == "undefined" for of_report in verdicts for verdict in of_report
                ]
                statistic = f"cells without a test, {seeds}"
                yield counted(regime, statistic, math.nan, undefined, len(undefined))
            if task.listed:
                # A report says of cells without a signal that they have none.
                scaled = [report[_SCALED] for report in alone if not report[_SCALED].no_signal]
                scales = [interval(units, "scale", question=FIXED) for units in scaled]
                yield rated(regime, "scale, fixed instances", 1.0, scales)


ARMS, N, K = 6, 8, 4
BASELINES = ("none", "centred", "subloo")
# Instances from which the means over all instances are had.
MANY = 4000


@dataclass(frozen=True)
class Tables:
    """Tables whose rewards have logarithms of this standard deviation, under one fresh policy."""

    sd: float
    # Not 0, with which the threshold was chosen.
    seed: int = 1

    @cached_property
    def _bandit(self) -> tuple[Any, Any]:
        environment = make_environment(
            {"name": "bandit", "arms": ARMS, "reward_shift": 0.0}, _FRESH
        )
        return environment, environment.policy(self.seed)

    def cells(self, tables: Tensor, size: int, seed: int, *, listed: bool) -> dict[str, Units]:
        """The units of every estimator: enumerated where `listed`, else from pools of this size."""
        pool = draw_pool(*(*self._bandit, tables, len(tables), size), objectives=(K,), seed=seed)
        units = measured(pool, BASELINES, [(N, K)], seed, complete=listed)
        return {name.partition("-")[0]: each for name, each in units.items()}

    def draw(self, count: int, seed: int) -> Tensor:
        """The rewards of new instances, [count, arms]."""
        draws = np.random.default_rng([self.seed, seed])
        return torch.from_numpy(draws.lognormal(0.0, self.sd, (count, ARMS)))

    @cached_property
    def means(self) -> Mapping[str, Array]:
        """The moments of every estimator over all instances, by importance sampling.

        In half of the tables one arm's reward is drawn by its square: such arms carry the means.
        """
        draws = np.random.default_rng([self.seed, 10**9])
        logs = draws.normal(0.0, self.sd, (MANY, ARMS))
        tilted = np.arange(MANY) % 2 == 1
        logs[tilted, draws.integers(ARMS, size=MANY)[tilted]] += 2 * self.sd**2
        density = np.exp(2 * logs - 2 * self.sd**2).mean(1)
        weights = 1 / (0.5 + 0.5 * density)
        units = self.cells(torch.from_numpy(np.exp(logs)), 2 * N, 0, listed=True)
        return {name: (weights * of.columns()).mean(1) for name, of in units.items()}


def heavy_tails(
    repetitions: int,
    deviations: Sequence[float] = (1.0, 1.5, 2.0),
    counts: Sequence[int] = (16, 32),
    size: int = 512,
) -> Iterator[Row]:
    """The interval of every measure of every estimator, and of its variance over the last one's."""
    for sd in deviations:
        tables = Tables(sd)
        for count in counts:
            tally = Tally()
            for repetition in range(repetitions):
                drawn = tables.draw(count, repetition)
                units = tables.cells(drawn, size, repetition, listed=False)
                exact = tables.cells(drawn, 2 * N, repetition, listed=True)
                means_here = {name: of.columns().mean(1) for name, of in exact.items()}
                for about, which, means in (
                    (NEW, "new instances", tables.means),
                    (FIXED, "fixed instances", means_here),
                ):
                    for name, (m2, square, inner, truth) in means.items():
                        variance = m2 - square
                        values = {"variance": variance, "snr": square / variance}
                        if about == FIXED:
                            values["scale"] = inner / truth
                        for measure, value in values.items():
                            shown = interval(units[name], measure, question=about)
                            tally.add(f"{measure} of {name}, {which}", shown, value, about=about)
                    last = means[BASELINES[-1]] @ (1, -1, 0, 0)
                    for name in BASELINES[:-1]:
                        shown = log_ratio(units[name], units[BASELINES[-1]], question=about)
                        value = math.log(means[name] @ (1, -1, 0, 0) / last)
                        tally.add(
                            f"variance of {name} over subloo, {which}", shown, value, about=about
                        )
            regime = f"log-normal({sd:g}) rewards; 1 × {count} × {size // N}"
            yield from tally.rows(regime, repetitions)
