"""Measure what a sweep costs beside the measuring of its cells, up to a hundred thousand of them.

    python benchmarks/bench_many_cells.py
    python benchmarks/bench_many_cells.py --into docs/performance.md
    python benchmarks/bench_many_cells.py --most 1000       # only up to so many cells

Each line is a fresh `maxk-lab` over sweeps of a bandit. The seconds
are of the processor, those of its workers left out; the exponent is the slope of their logarithms
between the two largest sizes, without what four cells cost. `--into` puts the table between the
marks of a page.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench_report import SMALL, Sweep, write_records
from calibration.pages import print_or_put

from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

BEGIN, END = "<!-- many cells: begin -->", "<!-- many cells: end -->"
ONE = {"baseline": "none", "n": 8, "k": 2}
TINY = {"baseline": ["none", "subloo"], "n": 8, "k": [2, 4]}
SIZES = (1_000, 10_000, 100_000)
DRIVEN = (1_000, 5_000, 10_000)
_PROGRAM = "from maxk_lab.cli import main; main()"
# Seconds above those of four cells that can be told from the scatter of start-ups.
RESOLVED = 0.1


@dataclass(frozen=True)
class Cost:
    """The cost of one command: seconds of the processor and by the clock, and its peak in MB.

    The clock is told with every cost, and is no part of the table: other work may slow it.
    """

    cells: int
    processor: float
    clock: float
    peak: float


@dataclass
class Line:
    """A command and its costs by the number of cells; `least` are the seconds of four."""

    what: str
    least: float = 0.0
    costs: list[Cost] = field(default_factory=list)

    @property
    def exponent(self) -> float | None:
        """The slope between the two largest sizes; None where one of them costs too little."""
        *_, one, two = [Cost(0, 0, 0, 0), *self.costs]
        above = [cost.processor - self.least for cost in (one, two)]
        if min(above) < RESOLVED:
            return None
        return math.log(above[1] / above[0]) / math.log(two.cells / one.cells)


# The peak of a program is its own in /proc; that of `getrusage` may be of who started it.
_TELLING = """
import atexit, resource, sys
def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    peak = int(status["VmHWM"].split()[0])
    print("costs", used.ru_utime + used.ru_stime, peak, file=sys.stderr)
atexit.register(tell)
"""


def cost(cells: int, code: str, *arguments: str) -> Cost:
    """Return what a fresh interpreter costs that runs this code; it tells its own costs."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _TELLING + code, *arguments],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    clock = time.perf_counter() - start
    last = next(line for line in reversed(done.stderr.splitlines()) if line.startswith("costs"))
    processor, peak = map(float, last.split()[1:])
    return Cost(cells, processor, clock, peak / 2**10)


def of_sweeps(most: int) -> Iterator[tuple[str, Cost]]:
    """Yield the name of a line and a cost, for sweeps of four cells and of every size."""
    for cells in (4, *(size for size in SIZES if size <= most)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            grid = TINY if cells == 4 else SMALL
            sweep = Sweep("sweep", max(1, cells // 20), grid)
            path, results = sweep.written_to(folder), ("--results", str(folder))
            empty = ("--results", str(folder / "empty"))
            yield "plan, nothing done", cost(cells, _PROGRAM, "plan", str(path), *empty)
            if cells > 10_000:
                continue
            run = RunDirectory(folder / sweep.name)
            write_records(make_plan(load_spec(path)), run)
            for what, words in (
                ("plan, all done", ("plan", str(path), *results)),
                ("run, all done", ("run", str(path), *results)),
                ("list runs", ("list", "runs", *results)),
                ("show RUN", ("show", sweep.name, *results)),
                ("report, all formats", ("report", sweep.name, *results, "--out", name + "/out")),
            ):
                yield what, cost(cells, _PROGRAM, *words)


def of_driving(most: int) -> Iterator[tuple[str, Cost]]:
    """Yield the costs of driving a run whose cells are units of their own, and cost nothing."""
    for cells in (4, *(size for size in DRIVEN if size <= most)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path, root = Sweep("driven", cells, ONE).written_to(folder), folder / "run"
            code = "import sys; from driven import drive; drive(*sys.argv[1:])"
            yield "driver of a run, units of one", cost(cells, code, str(path), str(root))


def measured(most: int) -> list[Line]:
    """Return every line with its costs."""
    lines: dict[str, Line] = {}
    for found in (of_sweeps(most), of_driving(most)):
        for what, one in found:
            line = lines.setdefault(what, Line(what))
            if one.cells == 4:
                line.least = one.processor
            else:
                line.costs.append(one)
            print(what, json.dumps(vars(one)), file=sys.stderr, flush=True)
    return list(lines.values())


def table(lines: list[Line]) -> list[str]:
    """Return the lines of the table in markdown."""
    rows = [
        "| command | cells | seconds | peak, MB | exponent |",
        "| --- | --- | --- | --- | --: |",
    ]
    for line in lines:
        columns = [
            ", ".join(f"{cost.cells:,}" for cost in line.costs),
            ", ".join(f"{cost.processor:.2f}" for cost in line.costs),
            ", ".join(f"{cost.peak:.0f}" for cost in line.costs),
            "" if line.exponent is None else f"{line.exponent:.2f}",
        ]
        rows.append(f"| {line.what} | {' | '.join(columns)} |")
    return rows


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, metavar="PAGE", help="a page with the two marks")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="cells of the largest sweep")
    given = parser.parse_args()
    rows = table(measured(given.most))
    print_or_put(rows, given.into, BEGIN, END)


if __name__ == "__main__":
    main()
