"""Time per-trajectory scores: their Gram matrix and norms, against the plain ways to have them.

Everything is of 64 trajectories and one torch thread, in turns. One forward and backward pass of
the batch is the floor: nothing tells scores for less. `plain` is a backward pass batched over
chunks of 16 trajectories, which any policy takes, or of norms one for each.
"""

from __future__ import annotations

from typing import Any

import torch
from timing import NARROW, WIDE, made, medians
from torch import Tensor

from maxk_lab.gradients import trajectory_squared_norms
from maxk_lab.gradients.scores.per_trajectory import BatchedScores
from maxk_lab.gradients.scores.products import score_gram
from maxk_lab.gradients.scores.trajectories import instance_scores

SAMPLES, ROUNDS, PROMPTS, ALLOWED = 64, 7, 8, 4.0
SETTINGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("tsp", {"num_loc": 20}, NARROW),
    ("tsp", {"num_loc": 20}, WIDE),
    ("tsp", {"num_loc": 50}, NARROW),
    ("cvrp", {"num_loc": 20}, NARROW),
    ("toy_llm", {}, {}),
    ("pronounce", {}, {}),
]


class Batch:
    """The trajectories of some instances, and every way to have numbers of their scores."""

    def __init__(self, environment: Any, instances: int) -> None:
        self.environment, self.policy = environment, environment.policy(0)
        self.instances, self.n = environment.instances(instances, 1), SAMPLES // instances
        self.actions = environment.rollout(self.policy, self.instances, self.n, seed=2).actions
        self.parameters = [p for p in self.policy.parameters() if p.requires_grad]

    def log_probs(self, b: int, i: int, j: int) -> Tensor:
        """log π of some trajectories of an instance, with their graph."""
        instance, actions = self.instances[b : b + 1], self.actions[b : b + 1, i:j]
        log_probs: Tensor = self.environment.log_probs(self.policy, instance, actions)[0]
        return log_probs

    def floor(self) -> object:
        """One forward and backward pass."""
        total = self.environment.log_probs(self.policy, self.instances, self.actions).sum()
        return torch.autograd.grad(total, self.parameters, allow_unused=True)

    def plain_gram(self) -> Tensor:
        """The Gram matrix by batched backward passes."""
        scores = BatchedScores(lambda i, j: self.log_probs(0, i, j))
        return score_gram(scores, SAMPLES, self.parameters)[0]

    def gram(self) -> Tensor:
        """The Gram matrix as pools have it."""
        policy, actions = self.policy, self.actions[0]
        scores = instance_scores(self.environment, policy, self.instances, actions, compressed=True)
        return score_gram(scores, SAMPLES, self.parameters)[0]

    def plain_norms(self) -> Tensor:
        """The squared norms by a backward pass each."""
        norms = []
        for b in range(len(self.actions)):
            for j in range(self.n):
                value = self.log_probs(b, j, j + 1).sum()
                gradients = torch.autograd.grad(value, self.parameters)
                norms.append(torch.cat([g.flatten() for g in gradients]).double().square().sum())
        return torch.stack(norms).view(-1, self.n)

    def norms(self) -> Tensor:
        """The squared norms as trainings have them."""
        return trajectory_squared_norms(self.environment, self.policy, self.instances, self.actions)

    def print_costs(self, what: str, *, norms: bool) -> float:
        """Print what every way costs; return how many times the floor that is."""
        now, slow = (self.norms, self.plain_norms) if norms else (self.gram, self.plain_gram)
        size = slow() if norms else slow().diagonal().max()
        off = ((now() - slow()).abs() / size).max().item()
        ways = {"floor": self.floor, "plain": slow, "now": now}
        floor, naive, fast = medians(ways, ROUNDS).values()
        print(
            f"{what}, {sum(p.numel() for p in self.parameters)} parameters: floor "
            f"{1e3 * floor:.1f} ms, plain {1e3 * naive:.1f}, now {1e3 * fast:.1f}: "
            f"{naive / fast:.1f} x faster, {fast / floor:.1f} x the floor, equal to {off:.0e}"
        )
        return fast / floor


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, changes, sizes in SETTINGS:
        batch = Batch(made(name, changes, sizes), 1)
        batch.print_costs(f"{name}({changes | sizes})", norms=False)
    prompts = Batch(made("toy_llm", {}, {}), PROMPTS)
    times = prompts.print_costs(
        f"norms of {PROMPTS} x {prompts.n} completions of toy_llm", norms=True
    )
    print(f"{'ok' if times <= ALLOWED else 'TOO SLOW'}: {ALLOWED:g} x the floor is allowed")
