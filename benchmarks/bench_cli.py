"""Time the verbs that must answer at once: the median of fresh processes, in processor seconds."""

from __future__ import annotations

import statistics
import tempfile

from timing import PROGRAM, cost

# Each verb, with the seconds that it may take.
VERBS = (
    (["--help"], 0.25),
    (["list", "baselines"], 0.3),
    (["validate", "../experiments/tsp_sweep.yaml"], 0.3),
    (["plan", "../experiments/tsp_sweep.yaml"], 0.35),
)

with tempfile.TemporaryDirectory() as results:
    for verb, target in VERBS:
        words = [*verb, "--results", results] if verb[0] == "plan" else verb
        median = statistics.median(cost(PROGRAM, *words).seconds for _ in range(7))
        print(f"maxk-lab {' '.join(verb):<40} {median:.3f} s (target below {target} s)")
