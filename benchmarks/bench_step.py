"""Time whole training steps against those of RL4CO's POMO, and sampling against RL4CO's.

Both draw 32 instances and 16 trajectories each from forced starts, take POMO's loss, its gradient,
clip it and let Adam move policies of the same size; ours also logs its metrics. They take turns on
one torch thread; seconds are of the processor.

Usage: python benchmarks/bench_step.py
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

import torch
from rl4co.models.zoo.pomo import POMO
from timing import medians

from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.routing.adapter import RL4COEnvironment
from maxk_lab.training.settings import Settings, Weighting
from maxk_lab.training.step import Step
from maxk_lab.training.trainer import Trainer

B, N, ROUNDS, EXPECTED = 32, 16, 9, 1.3
# So small a rate that all policies stay what they are, and all steps do the same work.
RATE, LIMIT = 1e-15, 1.0
PROBLEMS = (("tsp", 20), ("tsp", 50), ("cvrp", 20))
POLICIES = (
    {"embed_dim": 64, "num_encoder_layers": 2, "num_heads": 4, "feedforward_hidden": 128},
    {"embed_dim": 128, "num_encoder_layers": 3, "num_heads": 8, "feedforward_hidden": 512},
)


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


def own_step(environment: RL4COEnvironment, policy: Any) -> Callable[[], None]:
    """Return a function that takes a step of this project's trainer."""
    settings = {"batch": B * N, "learning_rate": RATE, "max_grad_norm": LIMIT, "device": "cpu"}
    weighting = Weighting("reinforce", "group_mean", N, 1)
    one_step = Step(
        environment, Settings.from_mapping(settings | {"start": "multistart"}), weighting
    )
    return Trainer.start(one_step, policy, seed=0).advance


def rl4co_sampling(environment: RL4COEnvironment, policy: Any) -> Callable[[], None]:
    """Return a function that samples without gradient by RL4CO's own decoding."""
    instances = environment.instances(B, 1)

    @torch.no_grad()
    def sample() -> None:
        settings = {"phase": "test", "decode_type": "sampling", "num_samples": N}
        policy(instances.clone(), environment.env, select_best=False, **settings)

    return sample


def own_sampling(environment: RL4COEnvironment, policy: Any) -> Callable[[], object]:
    """Return a function that samples without gradient, with the statistics of every decision."""
    instances = environment.instances(B, 1)
    return lambda: environment.rollout(policy, instances, N, seed=0)


def main() -> None:
    """Print the medians and how many times faster ours are."""
    torch.set_num_threads(1)
    for name in ("rl4co", "maxk_lab"):
        logging.getLogger(name).setLevel(logging.ERROR)
    print(f"{B} instances, n = {N}, medians of {ROUNDS}; expected {EXPECTED} times faster")
    for sizes in POLICIES:
        for name, size in PROBLEMS:
            environment = make_environment(
                {"name": name, "num_loc": size}, sizes | {"dtype": "float32"}
            )
            policy = environment.policy(0)
            ways = {
                make.__name__: make(environment, copy.deepcopy(policy))
                for make in (rl4co_step, own_step, rl4co_sampling, own_sampling)
            }
            seconds = medians(ways, ROUNDS, processor=True)
            print(f"{name} {size}, {sizes['embed_dim']} x {sizes['num_encoder_layers']} layers")
            for what in ("step", "sampling"):
                theirs, own = seconds[f"rl4co_{what}"], seconds[f"own_{what}"]
                verdict = "ok" if theirs / own >= EXPECTED else "TOO SLOW"
                print(
                    f"  {what:9s} RL4CO {1e3 * theirs:7.1f} ms   here {1e3 * own:7.1f} ms   "
                    f"{theirs / own:5.2f} times faster   {verdict}"
                )


if __name__ == "__main__":
    main()
