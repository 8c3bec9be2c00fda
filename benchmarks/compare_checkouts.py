"""Compare two checkouts of the project: do they say the same, and measure the same bytes?

    python benchmarks/compare_checkouts.py ../before . --measure

Without `--measure`: every line of `list`, `check` and `plan --cells` (all cell ids) of every
experiment and of the committed runs. With it, every sweep of experiments/ci is run by both, and the
metrics of every record and every report are compared. Lines that name the function behind a number,
a commit, a folder or a time may differ.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LISTS = ("estimators", "baselines", "environments", "tasks", "rewards", "gaussian_rewards")
# What tells where code lies and when it ran, not what it measured.
MAY_DIFFER = re.compile(
    r"[0-9a-f]{40}|computed by|git commit|uncommitted|by the clock|\bs a step|seconds|sample "
    r"\[s\]|\d+ s of measuring"
)


def maxk_lab(checkout: Path, *arguments: str) -> str:
    """Run `maxk-lab` of a checkout, one thread, 200 columns; return its output and exit code."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    program = "import sys; from maxk_lab.cli import main; sys.argv[0] = 'maxk-lab'; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        cwd=checkout,
        env={**os.environ, **threads, "PYTHONPATH": str(checkout), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.stdout}{done.stderr}exit code {done.returncode}"


def differing_lines(before: str, after: str) -> list[str]:
    """Return the lines of one text that the other lacks, as `- line` or `+ line`."""
    texts = [
        [line for line in text.splitlines() if not MAY_DIFFER.search(line)]
        for text in (before, after)
    ]
    lines = difflib.unified_diff(*texts, lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def commands(checkout: Path, empty: str) -> Iterator[tuple[str, ...]]:
    """Yield the command lines whose output is compared; `empty` is a folder without results."""
    yield from (("list", what) for what in LISTS)
    yield ("check",)
    golden = sorted((checkout / "results/golden").glob("*/*.zip"))
    for path in (*sorted((checkout / "experiments").rglob("*.yaml")), *golden):
        yield "plan", str(path.relative_to(checkout)), "--cells", "--results", empty


def metrics_of(run: Path) -> dict[str, str]:
    """Return the metrics of every record of a run as text, by the name of its file."""
    records = {path.name: json.loads(path.read_bytes()) for path in (run / "cells").glob("*.json")}
    return {name: json.dumps(record["metrics"]) for name, record in records.items()}


def measured(before: Path, after: Path, sweep: Path) -> Iterator[tuple[str, list[str]]]:
    """Run a sweep and its report with both checkouts; yield (what, what differs)."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder, side, sweep.stem) for side in ("before", "after")]
        for checkout, run in zip((before, after), runs, strict=True):
            results = ("--results", str(run.parent))
            said = maxk_lab(checkout, "run", str(sweep), "--jobs", "2", *results)
            said += maxk_lab(checkout, "report", sweep.stem, *results, "--out", str(run / "report"))
            if not (run / "report").is_dir():
                yield f"{sweep.stem} of {checkout}", said.splitlines()[-20:]
        records = [metrics_of(run) for run in runs]
        names = sorted(set(records[0]) | set(records[1]))
        differing = [name for name in names if records[0].get(name) != records[1].get(name)]
        yield f"{len(names)} records of {sweep.stem}", differing
        for name in ("report.md", "table.csv", "table.tex", "report.json"):
            texts = [(run / "report" / name).read_text() for run in runs]
            yield f"{name} of {sweep.stem}", differing_lines(*texts)


def main() -> None:
    """Print a line for everything that is compared; exit with 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--measure", action="store_true", help="run the sweeps of experiments/ci")
    parser.add_argument("--only", default="*", help="sweeps of experiments/ci to run, as a pattern")
    arguments = parser.parse_args()
    before, after = arguments.before.resolve(), arguments.after.resolve()
    failed = 0

    def told(what: str, differing: list[str]) -> None:
        nonlocal failed
        failed += bool(differing)
        print(f"{'DIFFERENT' if differing else 'same':9}  {what}", flush=True)
        print("".join(f"           {line}\n" for line in differing[:8]), end="")

    with tempfile.TemporaryDirectory() as empty:
        for command in commands(before, empty):
            texts = [maxk_lab(checkout, *command) for checkout in (before, after)]
            told(" ".join(command[:2]), differing_lines(*texts))
    if arguments.measure:
        for sweep in sorted((before / "experiments/ci").glob(f"{arguments.only}.yaml")):
            for what, differing in measured(before, after, sweep):
                told(what, differing)
    print(f"{failed} differ" if failed else "everything is the same")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
