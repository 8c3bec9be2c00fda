"""Time what cross-fitted baselines add to a gradient study.

The same study runs with and without them, in one process, in turns, on one thread.

The study has the five plain baselines at every (n, K); with `cross_fit` it has affine[cross_fit]
and ladder[cross_fit] besides. As any row costs something, with `given` it has these two with
coefficients given instead: what is left is the fit's own cost. Where trajectories and their scores
cost what they do of a network, the limit is on all that the two rows add to the study; on the
bandit, where they cost next to nothing, it is on the fit.

Usage: python benchmarks/bench_cross_fit.py
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.draw import draw_pool

PAIRS = [(n, k) for n in (8, 16, 32) for k in (2, 4, 8)]
PLAIN = ("none", "sample_loo", "pkpo_sloo", "centred", "subloo")
CROSS_FITTED = ("affine[cross_fit]", "ladder[cross_fit]")
ROUNDS, ALLOWED = 5, 0.10
# name → environment, policy, instances, pool
STUDIES: dict[str, tuple[dict[str, Any], dict[str, Any], int, int]] = {
    "bandit": ({"arms": 10}, {}, 16, 256),
    "tsp": ({"num_loc": 20}, {"embed_dim": 64, "num_encoder_layers": 2, "num_heads": 8}, 4, 256),
}
LIMITED = ("tsp",)


def given(k: int) -> tuple[str, str]:
    """The two families at K with their coefficients given."""
    return "affine[0.5]", f"ladder[{' '.join(['0'] * (k - 1) + ['1'])}]"


def cells(extra: str) -> list[dict[str, object]]:
    """The study's cells: `extra` is nothing, cross_fit or given."""
    found = []
    for n, k in PAIRS:
        more = {"nothing": (), "cross_fit": CROSS_FITTED, "given": given(k)}[extra]
        for baseline in (*PLAIN, *more):
            if Method.parse("maxk", baseline, k).refusal(n) is None:
                axes = {"estimator": "maxk", "baseline": baseline, "n": n, "k": k, "partitions": 8}
                found.append({"id": f"{baseline}-{n}-{k}"} | axes)
    return found


class Study:
    """A gradient study of an untrained policy; `draw` is the processor time of its pool."""

    def __init__(self, name: str) -> None:
        environment, policy, count, size = STUDIES[name]
        row = ENVIRONMENTS.get(name)
        made = make_environment(
            {"name": name} | row.settings.defaults() | environment,
            row.policy_settings.defaults() | policy,
        )
        instances, ks = made.instances(count, 0), sorted({k for _, k in PAIRS})
        draw_pool(made, made.policy(0), instances, 1, 16, objectives=ks, seed=0)  # fills caches
        start = time.process_time()
        self.pool = draw_pool(made, made.policy(0), instances, count, size, objectives=ks, seed=0)
        self.draw = time.process_time() - start

    def seconds(self, asked: list[dict[str, object]]) -> float:
        """Processor time of measuring `asked`."""
        start = time.process_time()
        for _, result in measure_cells(self.pool, asked, seed=0):
            if isinstance(result, Exception):
                raise result
        return time.process_time() - start


def main() -> None:
    """Print, of each study, the time it takes and the median share that the two rows add."""
    torch.set_num_threads(1)
    for name in STUDIES:
        study = Study(name)
        kinds = {extra: cells(extra) for extra in ("nothing", "given", "cross_fit")}
        study.seconds(kinds["cross_fit"])  # fills caches
        rounds = [
            {extra: study.seconds(asked) for extra, asked in kinds.items()} for _ in range(ROUNDS)
        ]
        added, fit = (
            statistics.median(
                (study.draw + r["cross_fit"]) / (study.draw + r[other]) - 1 for r in rounds
            )
            for other in ("nothing", "given")
        )
        limited = added if name in LIMITED else fit
        measuring = ", ".join(
            f"{statistics.median(r[extra] for r in rounds):.2f} s ({extra})" for extra in kinds
        )
        print(f"{name}: drawing {study.draw:.2f} s; measuring {measuring}")
        print(
            f"  the two rows add {added:+.1%}, the fit over given coefficients {fit:+.1%} "
            f"({'ok' if limited <= ALLOWED else 'TOO SLOW'}, limit {ALLOWED:.0%})",
            flush=True,
        )


if __name__ == "__main__":
    main()
