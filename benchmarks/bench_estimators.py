"""Time every baseline against `torch.sort` of the same rewards.

The medians are of calls in turns, on one torch thread.

Usage: python benchmarks/bench_estimators.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from timing import medians

from maxk_lab.estimators import TRAJECTORY_WEIGHTS, advantages
from maxk_lab.estimators.catalogue import BASELINES, choose_baseline
from maxk_lab.estimators.method import Method

# Shape of the float32 rewards, K, rounds, and the largest allowed ratio to torch.sort.
CASES = (((512, 64), 8, 200, 1.5), ((64, 65_536), 256, 7, 2.0))


def main() -> None:
    torch.set_num_threads(1)
    # Fitted baselines need the scores of the samples, too.
    rows = [
        row
        for row in BASELINES
        if not row.token_level and Method.parse("maxk", row.name).fit is None
    ]
    for shape, k, rounds, allowed in CASES:
        generator = torch.Generator().manual_seed(0)
        rewards = torch.randn(shape, generator=generator)
        g = dict.fromkeys(TRAJECTORY_WEIGHTS, torch.rand(shape, generator=generator) + 0.1)
        functions: dict[str, Callable[[], object]] = {
            "torch.sort": lambda r=rewards: torch.sort(r, dim=-1)
        }
        for row in rows:
            name, own_k = choose_baseline(row.name).name, k if row.objective == "J_K" else 1
            functions[name] = lambda r=rewards, b=name, k=own_k, g=g: advantages(
                r, baseline=b, k=k, trajectory_weights=g
            )
        seconds = medians(functions, rounds)
        print(
            f"rewards {list(shape)} float32, K = {k} (or 1 where a row has no other): at most "
            f"{allowed} x torch.sort"
        )
        for name, median in seconds.items():
            ratio = median / seconds["torch.sort"]
            verdict = "" if name == "torch.sort" else ("ok" if ratio <= allowed else "TOO SLOW")
            print(f"  {name:18s} {1e3 * median:9.3f} ms  {ratio:5.2f} x  {verdict}")


if __name__ == "__main__":
    main()
