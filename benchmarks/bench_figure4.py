"""Time all rows of PKPO's Figure 4, from 10 000 replicates of the largest n each, one thread.

The study is experiments/papers/pkpo_figure4.yaml as it is: its pool is drawn, its scores are
computed, every (estimator, baseline, n) is measured. What a run adds, such as the start of its
workers, is not in it.

Usage: python benchmarks/bench_figure4.py
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from maxk_lab.studies.gradient.work import measure as measure_unit
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec

SPEC = Path(__file__).parents[1] / "experiments" / "papers" / "pkpo_figure4.yaml"
REPLICATES, ALLOWED = 10_000, 60.0


def main() -> None:
    """Print the seconds of the whole study, and how many replicates its rows have at least."""
    torch.set_num_threads(1)
    total, rows, replicates = 0.0, 0, []
    for unit in make_plan(load_spec(SPEC)).units:
        shared, cells = unit.as_dict(), [cell.as_dict() for cell in unit.cells]
        start = time.perf_counter()
        for cell, result in measure_unit(
            shared, cells, cache=None, event=lambda name, payload: None
        ):
            if isinstance(result, Exception):
                raise result
            rows += 1
            replicates.append(shared["pool"] // next(c["n"] for c in cells if c["id"] == cell))
        total += time.perf_counter() - start
    verdict = "ok" if total <= ALLOWED and min(replicates) >= REPLICATES else "TOO SLOW OR TOO FEW"
    print(
        f"{rows} rows of at least {min(replicates)} replicates: {total:.1f} s ({verdict}, limit "
        f"{ALLOWED:g} s)"
    )


if __name__ == "__main__":
    main()
