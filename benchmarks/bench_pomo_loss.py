"""Time what each weighting adds to an optimisation step of RL4CO, over POMO's own loss.

All have the same rollouts and take turns, on one torch thread.

Two views of the same question: whole steps in turns (rollout, loss, backward, Adam; forced starts
and equal seeds, so that all draw the same), whose ratio is noisy on a busy machine, and the loss
alone, whose extra time over POMO's, as a share of a whole step, is the overhead without that noise.
The limit is on the second.

TSP20, 32 instances, n = 16. Usage: python benchmarks/bench_pomo_loss.py
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

import torch
from rl4co.envs import get_env
from rl4co.models.zoo.pomo import POMO
from rl4co.utils.ops import unbatchify
from timing import medians

from maxk_lab.training import LeaderRewardPOMO, MaxKPOMO

B, N, K, ROUNDS, ALLOWED = 32, 16, 8, 15, 0.02
POLICY = {"embed_dim": 64, "num_encoder_layers": 2, "num_heads": 8, "feedforward_hidden": 128}
PAIRS = (
    ("reinforce", "group_mean"),
    ("maxk", "none"),
    ("maxk", "centred"),
    ("maxk", "sample_loo"),
    ("maxk", "pkpo_sloo"),
    ("maxk", "subloo"),
    ("maxk", "optimal[uniform]"),
    ("hybrid[0.5]", "none"),
    ("top_m[2]", "centred"),
)


def main() -> None:
    """Print both views of every weighting."""
    torch.set_num_threads(1)
    logging.getLogger("maxk_lab").setLevel(logging.ERROR)
    env = get_env("tsp", generator_params={"num_loc": 20}, check_solution=False)
    torch.manual_seed(0)
    pomo = POMO(env, policy_kwargs=POLICY, num_starts=N)
    instances = env.generator(B)
    forced: dict[str, Any] = {"num_samples": N, "k": K, "start": "multistart"}
    models: dict[str, Any] = {"POMO": pomo}
    for estimator, baseline in PAIRS:
        models[f"{estimator}/{baseline}"] = MaxKPOMO(
            env, copy.deepcopy(pomo.policy), estimator=estimator, baseline=baseline, **forced
        )
    models["LeaderRewardPOMO"] = LeaderRewardPOMO(env, copy.deepcopy(pomo.policy), **forced)
    td = env.reset(instances.clone())
    out = pomo.policy(td, env, phase="train", num_starts=N)
    reward, log_likelihood = unbatchify(out["reward"], N), unbatchify(out["log_likelihood"], N)

    def loss_of(model: Any) -> Callable[[], object]:
        return lambda: model.calculate_loss(td, instances, dict(out), reward, log_likelihood)

    steps = medians({name: step_of(model, instances) for name, model in models.items()}, ROUNDS)
    losses = medians({name: loss_of(model) for name, model in models.items()}, 20 * ROUNDS)
    step, alone = steps["POMO"], losses["POMO"]
    print(
        f"a step of POMO: {1e3 * step:.1f} ms, its loss {1e6 * alone:.0f} µs; rewards {[B, N]}, "
        f"K = {K}"
    )
    print(
        f"  {'weighting':24s} {'whole step':>12s} {'loss':>9s} {'overhead':>10s}   limit "
        f"{ALLOWED:.0%}"
    )
    for name in list(models)[1:]:
        overhead = (losses[name] - alone) / step
        verdict = "ok" if overhead <= ALLOWED else "TOO SLOW"
        print(
            f"  {name:24s} {steps[name] / step:10.3f} x {1e6 * losses[name]:6.0f} µs "
            f"{overhead:9.2%}   {verdict}"
        )


def step_of(model: Any, instances: Any) -> Callable[[], None]:
    """Take a step on the same instances with the same seed, as Lightning's trainer does."""
    # So small a rate that all policies stay what they are, and all steps do the same work.
    optimizer = torch.optim.Adam(model.policy.parameters(), lr=1e-15)
    model.log_metrics = lambda out, phase, dataloader_idx=None: {}

    def take() -> None:
        torch.manual_seed(0)
        optimizer.zero_grad(set_to_none=True)
        model.shared_step(instances.clone(), 0, "train")["loss"].backward()
        optimizer.step()

    return take


if __name__ == "__main__":
    main()
