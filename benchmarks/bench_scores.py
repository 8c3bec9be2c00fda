"""Time per-trajectory scores: their Gram matrix and norms, against the plain ways to have them.

Everything is of 64 trajectories and one torch thread, in turns. One forward and backward pass of
the batch is the floor: nothing tells scores for less. `batched` is a backward pass batched over
chunks of 16 trajectories, which any policy takes.
"""

from __future__ import annotations

from typing import Any

import torch
from timing import made, medians
from torch import Tensor

from maxk_lab.gradients import trajectory_squared_norms
from maxk_lab.gradients.scores.per_trajectory import BatchedScores
from maxk_lab.gradients.scores.products import score_gram
from maxk_lab.gradients.scores.trajectories import instance_scores

SAMPLES, ROUNDS, PROMPTS, ALLOWED = 64, 7, 8, 4.0
WIDE = {"embed_dim": 128, "num_encoder_layers": 3, "feedforward_hidden": 512}
SETTINGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("tsp", {"num_loc": 20}, {}),
    ("tsp", {"num_loc": 20}, WIDE),
    ("tsp", {"num_loc": 50}, {}),
    ("cvrp", {"num_loc": 20}, {}),
    ("toy_llm", {}, {}),
]


def told(what: str, seconds: dict[str, float], off: float) -> None:
    """Print what every way costs, and how far the fast one is from the plain one."""
    ways = ", ".join(f"{way} {1e3 * each:.1f} ms" for way, each in seconds.items())
    now = seconds["now"]
    more = "".join(
        f"; {seconds[way] / now:.1f} x faster than {way}"
        for way in seconds
        if way not in ("floor", "now")
    )
    print(f"{what}: {ways}{more}; {now / seconds['floor']:.1f} x the floor, equal to {off:.0e}")


def of_one_instance(name: str, changes: dict[str, Any], sizes: dict[str, Any]) -> None:
    """Time the Gram matrix of one instance's trajectories."""
    environment = made(name, changes, sizes)
    policy, instance = environment.policy(0), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, SAMPLES, seed=2).actions
    parameters = [p for p in policy.parameters() if p.requires_grad]

    def log_probs(i: int, j: int) -> Tensor:
        found: Tensor = environment.log_probs(policy, instance, actions[:, i:j])[0]
        return found

    def batched() -> Tensor:
        return score_gram(BatchedScores(log_probs), SAMPLES, parameters)[0]

    def now() -> Tensor:
        scores = instance_scores(environment, policy, instance, actions[0], compressed=True)
        return score_gram(scores, SAMPLES, parameters)[0]

    def floor() -> object:
        return torch.autograd.grad(log_probs(0, SAMPLES).sum(), parameters, allow_unused=True)

    slow = batched()
    norms = slow.diagonal().sqrt()
    off = ((now() - slow).abs() / (norms.unsqueeze(0) * norms.unsqueeze(1))).max().item()
    sizes_told = ", ".join(f"{key}={value}" for key, value in (changes | sizes).items())
    seconds = medians({"floor": floor, "batched": batched, "now": now}, ROUNDS)
    count = sum(p.numel() for p in parameters)
    told(f"{name}({sizes_told}), {count} parameters", seconds, off)


def of_several_prompts() -> None:
    """Time the norms of completions of several prompts, and the obvious way."""
    environment = made("toy_llm", {}, {})
    policy, instances = environment.policy(0), environment.instances(PROMPTS, 1)
    per_prompt = SAMPLES // PROMPTS
    actions = environment.rollout(policy, instances, per_prompt, seed=2).actions
    parameters = list(policy.parameters())
    alone = [instances[i : i + 1] for i in range(PROMPTS)]

    def floor() -> object:
        return torch.autograd.grad(
            environment.log_probs(policy, instances, actions).sum(), parameters
        )

    def now() -> Tensor:
        return trajectory_squared_norms(environment, policy, instances, actions)

    def one_by_one() -> Tensor:
        norms: list[Tensor] = []
        for i, instance in enumerate(alone):
            for j in range(per_prompt):
                value = environment.log_probs(policy, instance, actions[i : i + 1, j : j + 1])
                gradients = torch.autograd.grad(value.sum(), parameters)
                norms.append(torch.cat([g.flatten() for g in gradients]).double().square().sum())
        return torch.stack(norms).view(PROMPTS, per_prompt)

    plain = one_by_one()
    off = ((now() - plain).abs() / plain).max().item()
    seconds = medians({"floor": floor, "one by one": one_by_one, "now": now}, ROUNDS)
    verdict = "ok" if seconds["now"] <= ALLOWED * seconds["floor"] else "TOO SLOW"
    told(f"norms of {PROMPTS} x {per_prompt} completions of toy_llm", seconds, off)
    print(f"{verdict}: {ALLOWED:g} x the floor is allowed")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for setting in SETTINGS:
        of_one_instance(*setting)
    of_several_prompts()
