"""Time what each way of weighting adds to a training step.

The toy LLM's step is compared with plain RLOO's, that of TSP20 with POMO's own loss.

Side by side, one torch thread.

Two views of the same question: whole steps in turns, whose ratio is noisy on a busy machine, and
the weighting alone, whose extra time over the plain one's, as a share of a whole step, is the
overhead without that noise. The limit is on the second.

Usage: python benchmarks/bench_training.py
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.usable import usable_weights
from maxk_lab.gradients.scores.trajectories import trajectory_squared_norms
from maxk_lab.training.refusals import Weighting
from maxk_lab.training.settings import Settings
from maxk_lab.training.step import Step
from maxk_lab.training.trainer import Trainer
from maxk_lab.training.weights import token_weights

N, K = 16, 4
ALLOWED = 0.02


def weightings() -> list[Weighting]:
    """Return every pair of the catalogue that weights n = N samples by rewards of any kind alone.

    Their K is as near to the K above as they take. Pairs that need a number of every trajectory
    come with them.
    """
    found = []
    spellings = [
        choose_baseline(name).name for row in BASELINES for name in (row.name, *row.examples)
    ]
    baselines = list(dict.fromkeys(spellings))
    for estimator in ESTIMATORS:
        for baseline in baselines if estimator.takes_baseline else ["none"]:
            usable = [
                k for k in (K, 1, N) if Method.parse(estimator.name, baseline, k).refusal(N) is None
            ]
            fitted = (
                Method.parse(estimator.name, baseline).fit is not None or estimator.needs_ratios
            )
            if usable and not estimator.binary_rewards and estimator.fixed_k is None and not fitted:
                found.append(Weighting(estimator.name, baseline, N, usable[0]))
    return found


def in_turns(functions: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    """Return the seconds of every call, in turns, so that a slow moment hits all alike."""
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(rounds + 1):
        for seconds, function in zip(times, functions, strict=True):
            start = time.perf_counter()
            function()
            if turn:  # the first fills caches
                seconds.append(time.perf_counter() - start)
    return times


@dataclass(frozen=True)
class Case:
    """Steps of `batch` rollouts, n = N, compared with those of the `plain` weighting."""

    name: str
    parameters: Mapping[str, Any]
    policy: Mapping[str, Any]
    batch: int
    plain: Weighting
    rounds: int
    maximum_only: bool


CASES = (
    Case("toy_llm", {}, {}, 256, Weighting("reinforce", "centred", N, 1), 15, maximum_only=False),
    # POMO's loss.
    Case(
        "tsp",
        {"num_loc": 20},
        {
            "embed_dim": 64,
            "num_encoder_layers": 2,
            "num_heads": 4,
            "feedforward_hidden": 128,
            "dtype": "float32",
        },
        512,
        Weighting("reinforce", "group_mean", N, 1),
        9,
        maximum_only=True,
    ),
)


def measure(case: Case, *, exact_norms: bool) -> None:
    """Print the overhead of every weighting.

    Those that need every trajectory's gradient come last, without a limit.
    """
    row = ENVIRONMENTS.get(case.name)
    environment = make_environment(
        {"name": row.name} | row.settings.defaults() | dict(case.parameters),
        row.policy_settings.defaults() | dict(case.policy),
    )
    policy = environment.policy(0)
    # So small a rate that all policies stay what they are, and all steps do the same work.
    settings = Settings.from_mapping({"batch": case.batch, "learning_rate": 1e-15, "device": "cpu"})

    def step_of(weighting: Weighting) -> Callable[[], None]:
        method = Step(environment, settings, weighting, trajectory_squared_norms)
        return Trainer.start(method, copy.deepcopy(policy), seed=0).advance

    instances = environment.instances(case.batch // N, 0)
    rollouts = environment.rollout(policy, instances, N, seed=1)
    tokens = environment.tokens(policy, instances, rollouts.actions)
    usable = torch.ones_like(rollouts.rewards, dtype=torch.bool)
    g = {"length": rollouts.lengths.double(), "logit_proxy": rollouts.logit_proxy.clamp(min=1e-7)}
    g["grad_norm"] = g["logit_proxy"]

    def weighting_alone(weighting: Weighting) -> Callable[[], object]:
        if choose_baseline(weighting.baseline).row.token_level:
            arguments = (
                rollouts.rewards,
                usable,
                weighting,
                tokens.logit_proxy.detach(),
                tokens.mask,
            )
            return lambda: token_weights(*arguments)
        return lambda: usable_weights(
            weighting.method, rollouts.rewards, usable, trajectory_weights=g
        )

    everything = [case.plain, *weightings()]
    if case.maximum_only:
        everything = [
            w for w in everything if Method.parse(w.estimator, k=w.k).objective.form == "max"
        ]
    free = [
        w for w in everything if Method.parse(w.estimator, w.baseline).needed_weight != "grad_norm"
    ]
    # The plain one comes twice, so that the ratio of the same thing to itself shows the noise.
    plain, *others = in_turns([step_of(w) for w in (case.plain, *free)], case.rounds)
    own_plain, *own = in_turns([weighting_alone(w) for w in (case.plain, *free)], 200)
    step, alone = statistics.median(plain), statistics.median(own_plain)
    print(
        f"{case.name}: a step of {_name(case.plain)} {1e3 * step:.1f} ms, its weighting "
        f"{1e3 * alone:.3f} ms; "
        f"{case.batch} rollouts, n = {N}"
    )
    print(f"  {'weighting':34s} {'whole step':>12s} {'overhead':>10s}   limit {ALLOWED:.0%}")
    for weighting, seconds, mine in zip(free, others, own, strict=True):
        ratio = statistics.median(a / b for a, b in zip(seconds, plain, strict=True))
        overhead = (statistics.median(mine) - alone) / step
        verdict = "ok" if overhead <= ALLOWED else "TOO SLOW"
        print(f"  {_name(weighting):34s} {ratio:10.3f} x {overhead:9.2%}   {verdict}")
    if not exact_norms:
        return
    dear = [w for w in everything if w not in free]
    print("  with the exact gradient norm of every trajectory, on top of the weighting:")
    plain, *others = in_turns([step_of(w) for w in (case.plain, *dear)], case.rounds // 3)
    for weighting, seconds in zip(dear, others, strict=True):
        ratio = statistics.median(a / b for a, b in zip(seconds, plain, strict=True))
        print(f"  {_name(weighting):34s} {ratio:10.3f} x")


def main() -> None:
    """Time both cases.

    Exact gradient norms take a backward pass per trajectory in a routing problem: LLM only.
    """
    torch.set_num_threads(1)
    for case in CASES:
        measure(case, exact_norms=case.name == "toy_llm")


def _name(weighting: Weighting) -> str:
    return f"{weighting.estimator}/{weighting.baseline} K={weighting.k}"


if __name__ == "__main__":
    main()
