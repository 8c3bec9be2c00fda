"""Compare ways to the gradient of sampled trajectories: their time and their difference.

They run side by side on one torch thread. An optimisation step (sampling, backward pass, Adam) with
gradient through the decoding loop, as `rollout_with_tokens` takes it, against sampling without
gradient and one pass afterwards that evaluates all steps together in RL4CO's decoder; RL4CO's own
step is next to them.

32 instances, n = 16. Usage: python benchmarks/bench_decoding.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from rl4co.utils.ops import unbatchify
from timing import medians
from torch import Tensor, nn

from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.routing.adapter import RL4COEnvironment
from maxk_lab.environments.routing.decoding import Race, all_steps_together, encode, step_by_step

B, N, ROUNDS, TOLERANCE = 32, 16, 9, 1e-5
POLICY = {
    "embed_dim": 64,
    "num_encoder_layers": 2,
    "num_heads": 4,
    "feedforward_hidden": 128,
    "dtype": "float32",
}
# Rewards and log-probabilities, [(n b)] each.
Sampled = tuple[Tensor, Tensor]


class Ways:
    """The ways to rewards and log-probabilities of the same trajectories of the same instances."""

    def __init__(self, environment: RL4COEnvironment) -> None:
        self.environment = environment
        self.policy = environment.policy(0)
        self.instances = environment.instances(B, 1)
        self.encode = partial(
            encode, environment.env, self.policy, self.instances, N, shared_encoding=True
        )

    def rl4co(self) -> Sampled:
        settings = {"phase": "train", "decode_type": "sampling", "num_samples": N}
        out = self.policy(self.instances.clone(), self.environment.env, **settings)
        return out["reward"], out["log_likelihood"]

    def through_the_loop(self) -> Sampled:
        decoded, tokens = step_by_step(self.encode(), Race(2))
        rewards = self.environment.env.get_reward(decoded.state, decoded.actions)
        return rewards, tokens.log_probs.sum(1)

    def together(self) -> Sampled:
        start = self.encode()
        again = replace(start, state=start.state.clone(), pointer=None)
        with torch.no_grad():
            decoded, _ = step_by_step(start, Race(2))
        rewards = self.environment.env.get_reward(decoded.state, decoded.actions)
        return rewards, all_steps_together(again, decoded.actions)


def step(policy: nn.Module, optimizer: torch.optim.Optimizer, way: Callable[[], Sampled]) -> None:
    """One step of POMO's loss; the caller sets so small a rate that all steps do the same work."""
    rewards, log_probs = (unbatchify(values, N) for values in way())
    advantages = rewards - rewards.mean(1, keepdim=True)
    optimizer.zero_grad()
    (-(advantages.detach() * log_probs).mean()).backward()
    optimizer.step()


def gradient(policy: nn.Module, log_probs: Tensor) -> Tensor:
    """Return the gradient of a sum with different weights, so that no share is lost."""
    policy.zero_grad()
    (torch.linspace(-1, 2, len(log_probs)) * log_probs).sum().backward()
    return torch.cat([p.grad.ravel() for p in policy.parameters() if p.grad is not None])


def main() -> None:
    """Print each way's time, its ratio to the loop's and its gradient's distance from that."""
    torch.set_num_threads(1)
    for name, size in (("tsp", 20), ("tsp", 50), ("cvrp", 20)):
        ways = Ways(make_environment({"name": name, "num_loc": size}, POLICY))
        policy = ways.policy
        optimizer = torch.optim.Adam(policy.parameters(), lr=1e-15)
        steps = {
            "through the decoding loop": ways.through_the_loop,
            "no gradient + all steps together": ways.together,
            "RL4CO": ways.rl4co,
        }
        seconds = medians(
            {k: partial(step, policy, optimizer, way) for k, way in steps.items()}, ROUNDS
        )
        loop = gradient(policy, ways.through_the_loop()[1])
        print(f"{name} {size}: an optimisation step, {B} instances, n = {N}")
        for k, way in steps.items():
            ratio = seconds[k] / seconds["through the decoding loop"]
            line = f"  {k:32s} {1e3 * seconds[k]:7.1f} ms {ratio:6.2f} x"
            if way != ways.rl4co:  # which draws its own trajectories
                off = ((gradient(policy, way()[1]) - loop).norm() / loop.norm()).item()
                line += f"   gradient off by {off:.0e}   {'ok' if off <= TOLERANCE else 'WRONG'}"
            print(line)


if __name__ == "__main__":
    main()
