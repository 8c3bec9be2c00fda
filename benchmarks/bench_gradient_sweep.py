"""Time what the cells of a gradient sweep add to its score pool: every baseline, twelve (n, K).

Both run in one process, warm: the unit with one cell, which is nearly all pool, and with all.
"""

from __future__ import annotations

import statistics
import time

import torch

from maxk_lab.estimators.catalogue import BASELINES, choose_baseline
from maxk_lab.estimators.method import Method
from maxk_lab.studies.gradient.work import measure as measure_unit

UNIT = {
    "environment": {"name": "tsp", "num_loc": 20},
    "policy": {
        "embed_dim": 64,
        "num_encoder_layers": 2,
        "num_heads": 8,
        "feedforward_hidden": 128,
        "dtype": "float32",
    },
    "warmup": {},
    "stage": 0,
    "seed": 0,
    "instances": 12,
    "pool": 256,
}
PAIRS = [(n, k) for n in (8, 16, 32) for k in (1, 2, 4, 8)]


def cell(baseline: str, n: int, k: int) -> dict[str, object]:
    """One cell of the sweep."""
    return {
        "id": f"{baseline}-{n}-{k}",
        "estimator": "maxk",
        "baseline": baseline,
        "n": n,
        "k": k,
        "partitions": 8,
    }


def seconds(cells: list[dict[str, object]]) -> float:
    """Processor time of measuring `cells` from nothing."""
    start = time.process_time()
    failed = [
        r
        for _, r in measure_unit(UNIT, cells, cache=None, event=lambda name, payload: None)
        if isinstance(r, Exception)
    ]
    if failed:
        raise failed[0]
    return time.process_time() - start


def main() -> None:
    """Print three interleaved pairs, and the median of what a cell adds."""
    torch.set_num_threads(1)
    all_cells = [
        cell(b.name, n, k)
        for b in BASELINES
        for n, k in PAIRS
        if (method := Method.parse("maxk", b.name, k)).refusal(n) is None
        and method.fit != "oracle"
        and not choose_baseline(b.name).row.token_level
    ]
    one = [cell("centred", 16, 4)]
    seconds(one)
    added = []
    for _ in range(3):
        alone, together = seconds(one), seconds(all_cells)
        added.append(1e3 * (together - alone) / (len(all_cells) - 1))
        print(
            f"one cell {alone:.2f} s, {len(all_cells)} cells {together:.2f} s: {added[-1]:.1f} ms "
            "for each more"
        )
    pool = UNIT["instances"] * UNIT["pool"]
    print(f"median {statistics.median(added):.1f} ms a cell, of a pool of {pool} trajectories")


if __name__ == "__main__":
    main()
