"""Time what each way of weighting adds to a training step, on one torch thread.

The toy LLM's step is compared with plain RLOO's, that of TSP20 with POMO's own loss. Whole steps
are noisy on a busy machine; so the weighting alone is timed besides, and its extra time over the
plain one's, as a share of a whole step, is the overhead that has a limit. Baselines that need the
gradient of every trajectory have whole steps only, and no limit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from timing import made, medians, step

from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.usable import usable_weights
from maxk_lab.training import Weighting
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
        for baseline in [row.name for row in BASELINES] if estimator.takes_baseline else ["none"]:
            methods = (Method.parse(estimator.name, baseline, k) for k in (K, 1, N))
            method = next((one for one in methods if one.refusal(N) is None), None)
            if method is None or method.fit is not None or method.needs_ratios:
                continue
            if not estimator.binary_rewards and estimator.fixed_k is None:
                pairs.append(Weighting(estimator.name, baseline, N, method.k))
    return pairs


def overheads(environment: Any, batch: int, plain: str, *, by_gradient: bool) -> None:
    """Print the overhead of every weighting over REINFORCE with the baseline `plain`.

    `by_gradient` includes the baselines that need the gradient of every trajectory.
    """
    policy, instances = environment.policy(0), environment.instances(batch // N, 0)
    rollouts = environment.rollout(policy, instances, N, seed=1)
    tokens = environment.tokens(policy, instances, rollouts.actions)
    usable = torch.ones_like(rollouts.rewards, dtype=torch.bool)
    g = {"length": rollouts.lengths.double(), "logit_proxy": rollouts.logit_proxy.clamp(min=1e-7)}

    def alone(weighting: Weighting) -> Callable[[], object]:
        if weighting.method.is_token_level:
            proxies = tokens.logit_proxy.detach()
            return lambda: token_weights(rollouts.rewards, usable, weighting, proxies, tokens.mask)
        of = partial(usable_weights, weighting.method, trajectory_weights=g)
        return lambda: of(rollouts.rewards, usable)

    # The plain one comes twice, so that the ratio of the same thing to itself shows the noise.
    first = Weighting("reinforce", plain, N, 1)
    every = {f"{w.estimator}/{w.baseline} K={w.k}": w for w in (first, *weightings())}
    light = {key: w for key, w in every.items() if w.method.needed_weight != "grad_norm"}
    ways = {"plain": first} | (every if by_gradient else light)
    steps = medians(
        {
            key: step(environment, copy.deepcopy(policy), weighting, batch=batch)
            for key, weighting in ways.items()
        },
        ROUNDS,
    )
    own = {key: alone(weighting) for key, weighting in {"plain": first, **light}.items()}
    seconds = medians(own, 20 * ROUNDS)
    whole = steps["plain"]
    print(f"a step of reinforce/{plain} {1e3 * whole:.1f} ms; {batch} rollouts, n = {N}")
    print(f"  {'weighting':34s} {'whole step':>12s} {'overhead':>10s}   limit {ALLOWED:.0%}")
    for key in ways:
        line = f"  {key:34s} {steps[key] / whole:10.3f} x"
        if key in seconds:
            overhead = (seconds[key] - seconds["plain"]) / whole
            line += f" {overhead:9.2%}   {'ok' if overhead <= ALLOWED else 'TOO SLOW'}"
        print(line)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("toy_llm")
    overheads(made("toy_llm", {}, {}), 256, "centred", by_gradient=True)
    print("tsp")
    # A backward pass per trajectory there.
    overheads(made("tsp", {"num_loc": 20}, TSP_POLICY), 512, "group_mean", by_gradient=False)
