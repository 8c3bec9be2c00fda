"""Time per-trajectory scores: their Gram matrix and norms, against the plain ways to have them.

Everything is of 64 trajectories and one torch thread, in turns. One forward and backward pass of
the batch is the floor: nothing tells scores for less. `batched` is a backward pass batched over
chunks of 16 trajectories, which any policy takes.

Usage: python benchmarks/bench_scores.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from timing import medians
from torch import Tensor

from maxk_lab.environments import ENVIRONMENTS, make_environment
from maxk_lab.gradients import trajectory_squared_norms
from maxk_lab.gradients.scores.per_trajectory import BatchedScores, Scores
from maxk_lab.gradients.scores.products import score_gram
from maxk_lab.gradients.scores.trajectories import instance_scores

SAMPLES, ROUNDS = 64, 7
WIDE = {"embed_dim": 128, "num_encoder_layers": 3, "feedforward_hidden": 512}
SETTINGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("tsp", {"num_loc": 20}, {}),
    ("tsp", {"num_loc": 20}, WIDE),
    ("tsp", {"num_loc": 50}, {}),
    ("cvrp", {"num_loc": 20}, {}),
    ("toy_llm", {}, {}),
]
PROMPTS, PER_PROMPT, ALLOWED = 8, 8, 4.0


def made(name: str, parameters: dict[str, Any], policy: dict[str, Any]) -> Any:
    """Return an environment with its defaults but for these."""
    row = ENVIRONMENTS.get(name)
    return make_environment(
        row.settings.defaults() | {"name": name} | parameters,
        row.policy_settings.defaults() | policy,
    )


def gram(scores: Scores, parameters: list[Tensor]) -> Tensor:
    """Return the Gram matrix of all samples."""
    return score_gram(scores, SAMPLES, parameters)[0]


def of_one_instance(name: str, changes: dict[str, Any], sizes: dict[str, Any]) -> None:
    """Print what the Gram matrix of one instance's trajectories costs."""
    environment = made(name, changes, sizes)
    policy, instance = environment.policy(0), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, SAMPLES, seed=2).actions
    parameters = [p for p in policy.parameters() if p.requires_grad]

    def log_probs(i: int, j: int) -> Tensor:
        found: Tensor = environment.log_probs(policy, instance, actions[:, i:j])[0]
        return found

    ways: dict[str, Callable[[], object]] = {
        "floor": lambda: torch.autograd.grad(
            log_probs(0, SAMPLES).sum(), parameters, allow_unused=True
        ),
        "batched": lambda: gram(BatchedScores(log_probs), parameters),
        "now": lambda: gram(
            instance_scores(environment, policy, instance, actions[0], compressed=True), parameters
        ),
    }
    slow, fast = gram(BatchedScores(log_probs), parameters), ways["now"]()
    assert isinstance(fast, Tensor)
    norms = slow.diagonal().sqrt()
    off = ((fast - slow).abs() / (norms.unsqueeze(0) * norms.unsqueeze(1))).max().item()
    found = medians(ways, ROUNDS)
    told = ", ".join(f"{key}={value}" for key, value in (changes | sizes).items())
    print(
        f"{name}({told}), {sum(p.numel() for p in parameters)} parameters: "
        + ", ".join(f"{way} {1e3 * seconds:.1f} ms" for way, seconds in found.items())
        + f"; {found['batched'] / found['now']:.1f} x faster than batched, "
        f"{found['now'] / found['floor']:.1f} x the floor, equal to {off:.0e}"
    )


def of_several_prompts() -> None:
    """Print what the norms of completions of several prompts cost, and the obvious way."""
    environment = made("toy_llm", {}, {})
    policy, instances = environment.policy(0), environment.instances(PROMPTS, 1)
    actions = environment.rollout(policy, instances, PER_PROMPT, seed=2).actions
    parameters = list(policy.parameters())
    alone = [environment.select(instances, i) for i in range(PROMPTS)]

    def one_by_one() -> Tensor:
        norms: list[Tensor] = []
        for i, instance in enumerate(alone):
            for j in range(PER_PROMPT):
                value = environment.log_probs(policy, instance, actions[i : i + 1, j : j + 1])
                gradients = torch.autograd.grad(value.sum(), parameters)
                norms.append(torch.cat([g.flatten() for g in gradients]).double().square().sum())
        return torch.stack(norms).view(PROMPTS, PER_PROMPT)

    exact = trajectory_squared_norms(environment, policy, instances, actions)
    off = ((exact - one_by_one()).abs() / one_by_one()).max()
    found = medians(
        {
            "floor": lambda: torch.autograd.grad(
                environment.log_probs(policy, instances, actions).sum(), parameters
            ),
            "now": lambda: trajectory_squared_norms(environment, policy, instances, actions),
            "one by one": one_by_one,
        },
        ROUNDS,
    )
    verdict = "ok" if found["now"] <= ALLOWED * found["floor"] else "TOO SLOW"
    print(
        f"norms of {PROMPTS} x {PER_PROMPT} completions of toy_llm: "
        + ", ".join(f"{way} {1e3 * seconds:.1f} ms" for way, seconds in found.items())
        + f"; {found['now'] / found['floor']:.1f} x the floor ({verdict}: {ALLOWED:g} x is "
        f"allowed), equal to {off:.0e}"
    )


def main() -> None:
    """Print a line per setting."""
    torch.set_num_threads(1)
    for setting in SETTINGS:
        of_one_instance(*setting)
    of_several_prompts()


if __name__ == "__main__":
    main()
