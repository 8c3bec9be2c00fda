"""Time what the cells of a gradient sweep add to its score pool: every baseline, twelve (n, K).

Both run in one process, warm: the unit with one cell, which is nearly all pool, and with all.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from timing import NARROW, medians

from maxk_lab.estimators.catalogue import BASELINES
from maxk_lab.estimators.method import Method
from maxk_lab.studies.gradient.work import measure

UNIT = {
    "environment": {"name": "tsp", "num_loc": 20},
    "policy": NARROW,
    "warmup": {},
    "stage": 0,
    "seed": 0,
    "instances": 12,
    "pool": 256,
}
CELLS: list[dict[str, Any]] = [
    {"id": f"{row.name}-{n}-{k}", "baseline": row.name, "n": n, "k": k}
    | {"estimator": "maxk", "partitions": 8}
    for row in BASELINES
    for n in (8, 16, 32)
    for k in (1, 2, 4, 8)
    if (method := Method.parse("maxk", row.name, k)).refusal(n) is None and method.fit != "oracle"
]
ONE = [cell for cell in CELLS if cell["id"] == "centred-16-4"]


def all_of(cells: list[dict[str, Any]]) -> None:
    """Measure cells from nothing."""
    for _, result in measure(UNIT, cells, cache=None, event=lambda name, payload: None):
        if isinstance(result, Exception):
            raise result


torch.set_num_threads(1)
ways = {"one": partial(all_of, ONE), "all": partial(all_of, CELLS)}
alone, together = medians(ways, 3, processor=True, warm=1).values()
added = 1e3 * (together - alone) / (len(CELLS) - 1)
print(f"one cell {alone:.2f} s, {len(CELLS)} cells {together:.2f} s: {added:.1f} ms more each")
