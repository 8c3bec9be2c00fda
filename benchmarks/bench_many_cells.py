"""Measure what a sweep costs beside the measuring of its cells, and how that grows.

    python benchmarks/bench_many_cells.py --into docs/performance.md
    python benchmarks/bench_many_cells.py --most 1000       # only up to so many cells

Each line is a fresh `maxk-lab` over sweeps of a bandit: a few seeds are measured, and the others
have their numbers in turn. The seconds are of the processor, those of its workers left out; the
exponent is the slope of their logarithms between the two largest sizes, without what four cells
cost. `--into` puts the table between the marks of a page.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from timing import print_or_put

from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

ONE = {"baseline": "none", "n": 8, "k": 2}
FOUR = {"baseline": ["none", "subloo"], "n": 8, "k": [2, 4]}
TWENTY = {
    "baseline": ["none", "group_mean", "centred", "sample_loo", "subloo"],
    "n": [8, 16],
    "k": [2, 4],
}
SIZES, DRIVEN = (1_000, 10_000), (1_000, 5_000, 10_000)
# Seeds that are measured, and seconds that can be told from the scatter of start-ups.
MEASURED, RESOLVED = 4, 0.1
PROGRAM = "from maxk_lab.cli import main; main()"
DRIVE = "import sys; from bench_many_cells import drive; drive(*sys.argv[1:])"
# The peak of a program is its own in /proc; that of `getrusage` may be of who started it.
COSTS = """
import atexit, resource, sys
def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    peak = int(status["VmHWM"].split()[0])
    print("costs", used.ru_utime + used.ru_stime, peak, file=sys.stderr)
atexit.register(tell)
"""
_METRICS: dict[tuple[Any, ...], dict[str, Any]] = {}


class Cost(NamedTuple):
    """The cost of one command: seconds of the processor and the peak in MB."""

    cells: int
    seconds: float
    peak: float


def cost(cells: int, code: str, *arguments: str) -> Cost:
    """Return what a fresh interpreter costs that runs this code; it tells its own costs."""
    done = subprocess.run(
        [sys.executable, "-c", COSTS + code, *arguments],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    last = next(line for line in reversed(done.stderr.splitlines()) if line.startswith("costs"))
    seconds, peak = map(float, last.split()[1:])
    return Cost(cells, seconds, peak / 2**10)


def written(folder: Path, seeds: int, grid: dict[str, Any]) -> Path:
    """Write a sweep of the bandit, and return the file."""
    path = folder / "sweep.yaml"
    content = {
        "name": "sweep",
        "seeds": list(range(seeds)),
        "environment": {"name": "bandit"},
        "gradient": {"pool": 64, "grid": {"estimator": "maxk", **grid}},
        "tracking": {"wandb": "disabled"},
    }
    path.write_text(yaml.safe_dump(content))
    return path


def repeated(
    unit: dict[str, Any], cells: list[dict[str, Any]], *, event: Callable[..., None], **_: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every unit the metrics of the first one that this worker has measured."""
    from maxk_lab.studies.gradient.work import measure

    def point(cell: dict[str, Any]) -> tuple[Any, ...]:
        return cell["estimator"], cell["baseline"], cell["n"], cell["k"]

    if not _METRICS:
        by_id = {cell["id"]: cell for cell in cells}
        for cell_id, metrics in measure(unit, cells, cache=None, event=event):
            assert isinstance(metrics, dict), metrics
            _METRICS[point(by_id[cell_id])] = metrics
    event("cells", {"done": len(cells), "of": len(cells)})
    for cell in cells:
        yield cell["id"], _METRICS[point(cell)]


def drive(sweep: str, root: str) -> None:
    """Run a sweep with such metrics, and show its progress as a user sees it."""
    from maxk_lab.cli.progress import Display
    from maxk_lab.sweeps.run.execute import execute

    plan = make_plan(load_spec(sweep))
    directory = RunDirectory(root)
    execute(plan, directory, on_event=Display(plan), measure="bench_many_cells:repeated")


def write_records(plan: Plan, run: RunDirectory) -> None:
    """Write a record of every cell, as a run would but for flushing each to the disk."""
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


def of_sweeps(most: int) -> Iterator[tuple[str, Cost]]:
    """Yield the name of a line and a cost, for sweeps of four cells and of every size."""
    for cells in (4, *(size for size in SIZES if size <= most)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path = written(folder, max(1, cells // 20), FOUR if cells == 4 else TWENTY)
            results = ("--results", name)
            empty = ("--results", str(folder / "empty"))
            yield "plan, nothing done", cost(cells, PROGRAM, "plan", str(path), *empty)
            write_records(make_plan(load_spec(path)), RunDirectory(folder / "sweep"))
            for what, words in (
                ("plan, all done", ("plan", str(path), *results)),
                ("run, all done", ("run", str(path), *results)),
                ("list runs", ("list", "runs", *results)),
                ("show RUN", ("show", "sweep", *results)),
                ("report, all formats", ("report", "sweep", *results, "--out", name + "/out")),
            ):
                yield what, cost(cells, PROGRAM, *words)


def of_driving(most: int) -> Iterator[tuple[str, Cost]]:
    """Yield the costs of driving a run whose cells are units of their own, and cost nothing."""
    for cells in (4, *(size for size in DRIVEN if size <= most)):
        with tempfile.TemporaryDirectory() as name:
            path, root = written(Path(name), cells, ONE), str(Path(name, "run"))
            yield "driver of a run, units of one", cost(cells, DRIVE, str(path), root)


def row(what: str, costs: list[Cost]) -> str:
    """Return the line of a table; the first cost is that of four cells."""
    least, *large = costs
    above = [one.seconds - least.seconds for one in large[-2:]]
    exponent = ""
    if len(above) == 2 and min(above) >= RESOLVED:
        slope = math.log(above[1] / above[0]) / math.log(large[-1].cells / large[-2].cells)
        exponent = f"{slope:.2f}"
    columns = [
        ", ".join(f"{one.cells:,}" for one in large),
        ", ".join(f"{one.seconds:.2f}" for one in large),
        ", ".join(f"{one.peak:.0f}" for one in large),
    ]
    return f"| {' | '.join([what, *columns, exponent])} |"


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, metavar="PAGE", help="a page with the two marks")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="cells of the largest sweep")
    arguments = parser.parse_args()
    lines: dict[str, list[Cost]] = {}
    for costs in (of_sweeps(arguments.most), of_driving(arguments.most)):
        for what, one in costs:
            lines.setdefault(what, []).append(one)
            print(what, one, file=sys.stderr, flush=True)
    heading = ["| command | cells | seconds | peak, MB | exponent |", "|---|---|---|---|--:|"]
    rows = [row(what, costs) for what, costs in lines.items()]
    print_or_put([*heading, *rows], arguments.into, "many cells")


if __name__ == "__main__":
    main()
