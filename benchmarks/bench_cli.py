"""Time the verbs that must answer at once: the median of fresh processes, in seconds."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

SPEC = "experiments/tsp_sweep.yaml"
VERBS = (["--help"], ["plan", SPEC], ["list", "baselines"], ["validate", SPEC])
RUNS = 7
TARGET = 0.5


def seconds(arguments: list[str]) -> float:
    """Wall-clock time of one fresh process."""
    command = [sys.executable, "-c", "from maxk_lab.cli import main; main()", *arguments]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Print the median of each verb next to the target."""
    with tempfile.TemporaryDirectory() as results:
        for verb in VERBS:
            arguments = [*verb, "--results", results] if verb[0] == "plan" else verb
            seconds(arguments)
            median = statistics.median(seconds(arguments) for _ in range(RUNS))
            print(f"maxk-lab {' '.join(verb):<36} {median:.3f} s (target below {TARGET} s)")


if __name__ == "__main__":
    main()
