"""Time whole training steps against those of RL4CO's POMO, and sampling against RL4CO's.

Both draw 32 instances and 16 trajectories each from forced starts, take POMO's loss, its gradient,
clip it and let Adam move policies of the same size; ours also logs its metrics. They take turns on
one torch thread; seconds are of the processor.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

import torch
from rl4co.models.zoo.pomo import POMO
from timing import NARROW, WIDE, made, medians

from maxk_lab.environments.routing.adapter import RL4COEnvironment
from maxk_lab.training import Settings, Step, Trainer, Weighting

# So small a rate that policies stay what they are, and all steps do the same work.
B, N, ROUNDS, EXPECTED, LIMIT, RATE = 32, 16, 9, 1.3, 1.0, 1e-15
PROBLEMS = (("tsp", 20), ("tsp", 50), ("cvrp", 20))
SETTINGS = {"batch": B * N, "max_grad_norm": LIMIT, "start": "multistart", "learning_rate": RATE}


def rl4co_step(environment: RL4COEnvironment, policy: Any) -> Callable[[], None]:
    """Return a function that takes a step as RL4CO's trainer does."""
    model: Any = POMO(environment.env, policy=policy, num_starts=N)
    model.log_metrics = lambda out, phase, dataloader_idx=None: {}
    optimizer = torch.optim.Adam(policy.parameters(), lr=RATE)

    def take() -> None:
        instances = environment.env.generator(B)
        optimizer.zero_grad(set_to_none=True)
        model.shared_step(instances, 0, "train")["loss"].backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), LIMIT)
        optimizer.step()

    return take


def ways(environment: RL4COEnvironment) -> dict[str, Callable[[], object]]:
    """Return a step and a sampling without gradient, each by RL4CO and by this project.

    Ours has the statistics of every decision.
    """
    policy, instances = environment.policy(0), environment.instances(B, 1)
    settings = Settings.from_mapping({"device": "cpu"} | SETTINGS)
    pomo = Weighting("reinforce", "group_mean", N, 1)
    step = Step(environment, settings, pomo)

    @torch.no_grad()
    def sample() -> None:
        how = {"phase": "test", "decode_type": "sampling", "num_samples": N}
        policy(instances.clone(), environment.env, select_best=False, **how)

    return {
        "RL4CO's step": rl4co_step(environment, copy.deepcopy(policy)),
        "step": Trainer.start(step, copy.deepcopy(policy), seed=0).advance,
        "RL4CO's sampling": sample,
        "sampling": lambda: environment.rollout(policy, instances, N, seed=0),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in ("rl4co", "maxk_lab"):
        logging.getLogger(name).setLevel(logging.ERROR)
    print(f"{B} instances, n = {N}, medians of {ROUNDS}; expected {EXPECTED} times faster")
    for sizes in (NARROW, WIDE):
        for name, size in PROBLEMS:
            seconds = medians(ways(made(name, {"num_loc": size}, sizes)), ROUNDS, processor=True)
            print(f"{name} {size}, {sizes['embed_dim']} x {sizes['num_encoder_layers']} layers")
            for what in ("step", "sampling"):
                theirs, ours = seconds[f"RL4CO's {what}"], seconds[what]
                print(
                    f"  {what:9s} RL4CO {1e3 * theirs:7.1f} ms   here {1e3 * ours:7.1f} ms   "
                    f"{theirs / ours:5.2f} times faster   "
                    f"{'ok' if theirs / ours >= EXPECTED else 'TOO SLOW'}"
                )
