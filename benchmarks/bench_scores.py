"""Time exact per-trajectory squared gradient norms of the default toy LLM.

They stand against one forward and backward pass of the same batch.

64 completions, one torch thread; printed next to it: one backward pass per completion, which is the
obvious way. Usage: python benchmarks/bench_scores.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from maxk_lab.environments import ENVIRONMENTS, make_environment
from maxk_lab.gradients import trajectory_squared_norms

PROMPTS, SAMPLES, ROUNDS, ALLOWED = 8, 8, 15, 4.0


def medians(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return median processor seconds per call, in turns, so that a slow moment hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds + 2):
        for name, function in functions.items():
            start = time.process_time()
            function()
            if turn >= 2:  # the first two fill caches
                times[name].append(time.process_time() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def main() -> None:
    """Print both ratios."""
    torch.set_num_threads(1)
    row = ENVIRONMENTS.get("toy_llm")
    environment = make_environment(
        {p.name: p.default for p in row.parameters} | {"name": row.name},
        {p.name: p.default for p in row.policy_parameters},
    )
    policy, instances = environment.policy(0), environment.instances(PROMPTS, 1)
    actions = environment.rollout(policy, instances, SAMPLES, seed=2).actions
    parameters = list(policy.parameters())
    alone = [environment.select(instances, i) for i in range(PROMPTS)]

    def aggregate() -> object:
        return torch.autograd.grad(
            environment.log_probs(policy, instances, actions).sum(), parameters
        )

    def exact() -> Tensor:
        norms: Tensor = trajectory_squared_norms(environment, policy, instances, actions)
        return norms

    def one_by_one() -> Tensor:
        norms: list[Tensor] = []
        for i, instance in enumerate(alone):
            for j in range(SAMPLES):
                value = environment.log_probs(policy, instance, actions[i : i + 1, j : j + 1])
                gradients = torch.autograd.grad(value.sum(), parameters)
                norms.append(torch.cat([g.flatten() for g in gradients]).double().square().sum())
        return torch.stack(norms).view(PROMPTS, SAMPLES)

    off = ((exact() - one_by_one()).abs() / one_by_one()).max()
    found = medians(
        {"aggregate": aggregate, "exact norms": exact, "one by one": one_by_one}, ROUNDS
    )
    print(
        f"{PROMPTS * SAMPLES} completions, {sum(p.numel() for p in parameters)} parameters, "
        f"{actions.shape[-1]} tokens"
    )
    for name, seconds in found.items():
        print(f"  {name:12s} {1e3 * seconds:8.2f} ms  {seconds / found['aggregate']:6.2f} x")
    verdict = "ok" if found["exact norms"] <= ALLOWED * found["aggregate"] else "TOO SLOW"
    print(f"{verdict}: at most {ALLOWED:g} x is allowed; both ways agree to {off:.1e}")


if __name__ == "__main__":
    main()
