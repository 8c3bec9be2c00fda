"""Measure what a sweep costs beside the measuring of its cells, and how that grows.

    python benchmarks/bench_many_cells.py --into docs/performance.md
    python benchmarks/bench_many_cells.py --most 1000       # at most 1000 cells

Each line is a fresh `maxk-lab` over sweeps of a bandit: a few seeds are measured, and the others
have their numbers in turn. The seconds are of the processor, those of its workers left out; the
exponent is the slope of their logarithms between the two largest sizes, without what four cells
cost.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from timing import PROGRAM, Cost, bandit_sweep, cost, options, print_or_put

from maxk_lab.execution.records import Record, RunDirectory
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.load import load_spec

ONE = {"baseline": "none", "n": 8, "k": 2}
FOUR = {"baseline": ["none", "subloo"], "n": 8, "k": [2, 4]}
TWENTY = {
    "baseline": ["none", "group_mean", "centred", "sample_loo", "subloo"],
    "n": [8, 16],
    "k": [2, 4],
}
SIZES, DRIVEN = (1_000, 10_000), (1_000, 5_000, 10_000)
# Seeds that are measured, and seconds above the scatter of start-ups.
MEASURED, RESOLVED = 4, 0.1
DRIVE = """
import sys
from maxk_lab.cli.progress import Display
from maxk_lab.planning.plan import make_plan
from maxk_lab.execution.run import Run, execute
from maxk_lab.execution.records import RunDirectory
from maxk_lab.sweep_file.load import load_spec
plan = make_plan(load_spec(sys.argv[1]))
execute(Run(plan, RunDirectory(sys.argv[2])), on_event=Display(), measure="timing:repeated")
"""


def write_records(plan: Plan, run: RunDirectory) -> None:
    """Write a record of every cell, as a run does, without flushing each record to the disk."""
    from maxk_lab.studies.gradient.work import measure

    measured: list[list[Any]] = []
    for unit in plan.units[:MEASURED]:
        cells = [cell.as_dict() for cell in unit.cells]
        by_id = dict(measure(unit.as_dict(), cells, cache=None, event=lambda *_: None))
        measured.append([by_id[cell["id"]] for cell in cells])
    run.write_spec(plan.spec)
    timings = {"seconds": 0.01, "finished": 0.0}
    lines = [
        Record(cell.as_dict(), "done", metrics, timings=timings).to_line()
        for number, unit in enumerate(plan.units)
        for cell, metrics in zip(unit.cells, measured[number % len(measured)], strict=True)
    ]
    run.append(b"".join(lines))


def costs(most: int) -> Iterator[tuple[str, int, Cost]]:
    """Yield lines, cells and costs: of the verbs, and of a driver whose cells cost nothing."""
    for cells in (4, *(size for size in SIZES if size <= most)):
        with tempfile.TemporaryDirectory() as name:
            path = bandit_sweep(Path(name), max(1, cells // 20), FOUR if cells == 4 else TWENTY)
            results = ("--results", name)
            empty = ("--results", f"{name}/empty")
            yield "plan, nothing done", cells, cost(PROGRAM, "plan", str(path), *empty)
            write_records(make_plan(load_spec(path)), RunDirectory(Path(name, "sweep")))
            for what, words in (
                ("plan, all done", ("plan", str(path), *results)),
                ("run, all done", ("run", str(path), *results)),
                ("show", ("show", *results)),
                ("show RUN", ("show", "sweep", *results)),
                ("--help", ("--help",)),
                ("list baselines", ("list", "baselines")),
                ("report, all formats", ("report", "sweep", *results, "--out", name + "/out")),
            ):
                yield what, cells, cost(PROGRAM, *words)
    for cells in (4, *(size for size in DRIVEN if size <= most)):
        with tempfile.TemporaryDirectory() as name:
            path, root = bandit_sweep(Path(name), cells, ONE), str(Path(name, "run"))
            yield "driver of a run, units of one", cells, cost(DRIVE, str(path), root)


def row(what: str, of_sizes: dict[int, Cost]) -> str:
    """Return the line of a table; the first cost is that of four cells."""
    (_, least), *large = of_sizes.items()
    above = [run.seconds - least.seconds for _, run in large[-2:]]
    exponent = ""
    if len(above) == 2 and min(above) >= RESOLVED:
        exponent = f"{math.log(above[1] / above[0]) / math.log(large[-1][0] / large[-2][0]):.2f}"
    columns = [
        ", ".join(f"{cells:,}" for cells, _ in large),
        ", ".join(f"{run.seconds:.2f}" for _, run in large),
        ", ".join(f"{run.peak:.0f}" for _, run in large),
    ]
    return f"| {' | '.join([what, *columns, exponent])} |"


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="cells of the largest sweep")
    arguments = parser.parse_args()
    lines: dict[str, dict[int, Cost]] = {}
    for what, cells, run in costs(arguments.most):
        lines.setdefault(what, {})[cells] = run
        print(what, cells, *run, file=sys.stderr, flush=True)
    heading = ["| command | cells | seconds | peak, MB | exponent |", "|---|---|---|---|--:|"]
    table = [*heading, *(row(*line) for line in lines.items())]
    print_or_put(table, arguments.into, "many cells")
