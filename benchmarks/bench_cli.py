"""Time the verbs that must answer at once: the median of fresh processes, in processor seconds."""

from __future__ import annotations

import statistics
import tempfile

from bench_many_cells import PROGRAM, cost

# Each verb, with the seconds that it may take.
VERBS = (
    (["--help"], 0.25),
    (["list", "baselines"], 0.3),
    (["validate", "../experiments/tsp_sweep.yaml"], 0.3),
    (["plan", "../experiments/tsp_sweep.yaml"], 0.35),
)
RUNS = 7


def main() -> None:
    """Print the median of each verb next to the target."""
    with tempfile.TemporaryDirectory() as results:
        for verb, target in VERBS:
            words = [*verb, "--results", results] if verb[0] == "plan" else verb
            median = statistics.median(cost(0, PROGRAM, *words).seconds for _ in range(RUNS))
            print(f"maxk-lab {' '.join(verb):<40} {median:.3f} s (target below {target} s)")


if __name__ == "__main__":
    main()
