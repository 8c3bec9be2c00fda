"""Time every baseline against `torch.sort` of the same rewards, in turns on one torch thread."""

from __future__ import annotations

from functools import partial

import torch
from timing import medians

from maxk_lab.estimators import advantages
from maxk_lab.estimators.catalogue import BASELINES, choose_baseline
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.rows import TRAJECTORY_WEIGHTS

# Shape of the float32 rewards, K, rounds, and the largest allowed ratio to torch.sort. The first is
# a batch of a training step: this many sorts take about a fiftieth of the step.
CASES = (((16, 16), 4, 400, 40.0), ((512, 64), 8, 200, 1.5), ((64, 65_536), 256, 7, 2.0))

torch.set_num_threads(1)
for shape, k, rounds, allowed in CASES:
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randn(shape, generator=generator)
    g = dict.fromkeys(TRAJECTORY_WEIGHTS, torch.rand(shape, generator=generator) + 0.1)
    # Fitted baselines need the scores of the samples, too.
    rows = (row for row in BASELINES if Method.parse("maxk", row.name).fit is None)
    ways = {"torch.sort": partial(torch.sort, rewards, dim=-1)} | {
        row.name: partial(
            *(advantages, rewards),
            baseline=choose_baseline(row.name).name,
            k=k if row.objective == "J_K" else 1,
            trajectory_weights=g,
        )
        for row in rows
    }
    seconds = medians(ways, rounds)
    print(f"rewards {list(shape)} float32, K = {k} (or 1 where a row has no other):")
    for name, median in seconds.items():
        ratio = median / seconds["torch.sort"]
        verdict = "ok" if ratio <= allowed else f"TOO SLOW, above {allowed} x"
        print(f"  {name:18s} {1e3 * median:9.3f} ms  {ratio:5.2f} x  {verdict}")
