"""Time the verbs that must answer at once: the median of fresh processes, in processor seconds."""

from __future__ import annotations

import tempfile

from timing import of_verb

SPEC = "experiments/tsp_sweep.yaml"
# Each verb, with the seconds that it may take.
VERBS = (
    (["--help"], 0.25),
    (["list", "baselines"], 0.3),
    (["validate", SPEC], 0.3),
    (["plan", SPEC], 0.35),
)
RUNS = 7


def main() -> None:
    """Print the median of each verb next to the target."""
    with tempfile.TemporaryDirectory() as results:
        for verb, target in VERBS:
            arguments = [*verb, "--results", results] if verb[0] == "plan" else verb
            median = of_verb(*arguments, runs=RUNS)
            print(f"maxk-lab {' '.join(verb):<36} {median:.3f} s (target below {target} s)")


if __name__ == "__main__":
    main()
