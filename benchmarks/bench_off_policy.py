"""Time the off-policy weights of every baseline, exact and to first order.

The figures are medians, on one torch thread.

64 groups of 64 samples, K = 8. Usage: python benchmarks/bench_off_policy.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from timing import medians

from maxk_lab.estimators import maxk_gradient_weights
from maxk_lab.estimators.method import Method

GROUPS, N, K, ROUNDS, ALLOWED = 64, 64, 8, 50, 0.050


def main() -> None:
    """Print the time of each, and of the on-policy weights next to them."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randn(GROUPS, N, generator=generator)
    ratios = (0.3 * torch.randn(GROUPS, N, generator=generator)).exp()
    functions: dict[str, Callable[[], object]] = {
        "on-policy, none": partial(maxk_gradient_weights, rewards, K)
    }
    for baseline in ("none", "centred", "subloo"):
        for name, form in (("exact", "off_policy_maxk"), ("first order", "off_policy_first_order")):
            weigh = Method.parse(form, baseline, K).weights
            functions[f"{name}, {baseline}"] = partial(weigh, rewards, ratios=ratios)
    print(f"rewards {[GROUPS, N]} float32, K = {K}: at most {1e3 * ALLOWED:g} ms")
    for name, median in medians(functions, ROUNDS).items():
        print(f"  {name:22s} {1e3 * median:8.3f} ms  {'ok' if median <= ALLOWED else 'TOO SLOW'}")


if __name__ == "__main__":
    main()
