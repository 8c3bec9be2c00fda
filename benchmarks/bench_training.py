"""Time what each way of weighting adds to a training step, on one torch thread.

The toy LLM's step is compared with plain RLOO's, that of TSP20 with POMO's own loss. Whole steps
are noisy on a busy machine; so the weighting alone is timed besides, and its extra time over the
plain one's, as a share of a whole step, is the overhead that has a limit. Baselines that need the
gradient of every trajectory have whole steps only, and no limit.

Usage: python benchmarks/bench_training.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from timing import medians

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.usable import usable_weights
from maxk_lab.gradients.scores.trajectories import trajectory_squared_norms
from maxk_lab.training import Settings, Step, Trainer, Weighting
from maxk_lab.training.step import token_weights

N, K, ROUNDS, ALLOWED = 16, 4, 9, 0.02
TSP_POLICY = {
    "embed_dim": 64,
    "num_encoder_layers": 2,
    "num_heads": 4,
    "feedforward_hidden": 128,
    "dtype": "float32",
}


def weightings() -> list[Weighting]:
    """Return every pair of the catalogue that weights n = N samples by rewards of any kind alone.

    Their K is as near to the K above as they take. Pairs that need a number of every trajectory
    come with them.
    """
    pairs = []
    for estimator in ESTIMATORS:
        baselines = [row.name for row in BASELINES] if estimator.takes_baseline else ["none"]
        for baseline in baselines:
            methods = (Method.parse(estimator.name, baseline, k) for k in (K, 1, N))
            method = next((one for one in methods if one.refusal(N) is None), None)
            if method is None or method.fit is not None or method.needs_ratios:
                continue
            if not estimator.binary_rewards and estimator.fixed_k is None:
                pairs.append(Weighting(estimator.name, baseline, N, method.k))
    return pairs


def measure(
    name: str, changes: Mapping[str, Any], policy_changes: Mapping[str, Any], batch: int, plain: str
) -> None:
    """Print the overhead of every weighting over REINFORCE with the baseline `plain`."""
    row = ENVIRONMENTS.get(name)
    environment = make_environment(
        {"name": name} | row.settings.defaults() | dict(changes),
        row.policy_settings.defaults() | dict(policy_changes),
    )
    policy = environment.policy(0)
    # So small a rate that all policies stay what they are, and all steps do the same work.
    settings = Settings.from_mapping({"batch": batch, "learning_rate": 1e-15, "device": "cpu"})
    rollouts = environment.rollout(policy, environment.instances(batch // N, 0), N, seed=1)
    tokens = environment.tokens(policy, environment.instances(batch // N, 0), rollouts.actions)
    usable = torch.ones_like(rollouts.rewards, dtype=torch.bool)
    g = {"length": rollouts.lengths.double(), "logit_proxy": rollouts.logit_proxy.clamp(min=1e-7)}

    def step_of(weighting: Weighting) -> Callable[[], object]:
        one_step = Step(environment, settings, weighting, trajectory_squared_norms)
        return Trainer.start(one_step, copy.deepcopy(policy), seed=0).advance

    def weighting_alone(weighting: Weighting) -> Callable[[], object]:
        of = partial(usable_weights, weighting.method, trajectory_weights=g)
        if weighting.method.is_token_level:
            proxies = tokens.logit_proxy.detach()
            return lambda: token_weights(rollouts.rewards, usable, weighting, proxies, tokens.mask)
        return lambda: of(rollouts.rewards, usable)

    # The plain one comes twice, so that the ratio of the same thing to itself shows the noise.
    first = Weighting("reinforce", plain, N, 1)
    by_name = {f"{w.estimator}/{w.baseline} K={w.k}": w for w in (first, *weightings())}
    by_gradient = {key for key, w in by_name.items() if w.method.needed_weight == "grad_norm"}
    if name == "tsp":  # a backward pass per trajectory there
        by_name = {key: w for key, w in by_name.items() if key not in by_gradient}
    steps = medians({"plain": step_of(first)} | {k: step_of(w) for k, w in by_name.items()}, ROUNDS)
    light = {key: weighting_alone(w) for key, w in by_name.items() if key not in by_gradient}
    alone = medians({"plain": weighting_alone(first)} | light, 20 * ROUNDS)
    step = steps["plain"]
    print(f"{name}: a step of reinforce/{plain} {1e3 * step:.1f} ms; {batch} rollouts, n = {N}")
    print(f"  {'weighting':34s} {'whole step':>12s} {'overhead':>10s}   limit {ALLOWED:.0%}")
    for key in by_name:
        line = f"  {key:34s} {steps[key] / step:10.3f} x"
        if key in alone:
            overhead = (alone[key] - alone["plain"]) / step
            line += f" {overhead:9.2%}   {'ok' if overhead <= ALLOWED else 'TOO SLOW'}"
        print(line)


def main() -> None:
    """Time both cases."""
    torch.set_num_threads(1)
    measure("toy_llm", {}, {}, 256, "centred")
    measure("tsp", {"num_loc": 20}, TSP_POLICY, 512, "group_mean")


if __name__ == "__main__":
    main()
