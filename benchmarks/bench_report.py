"""Time what a user waits for beside the measuring, and how it grows with cells and with seeds.

    python benchmarks/bench_report.py --seeds 5 50    # other numbers of seeds, of 20 points each

The records are those of a bandit: a few seeds are measured, and the others have their numbers in
turn. Times are processor seconds of fresh processes, medians. Per cell they are without those of a
sweep of one seed and four cells, and so are the exponents, each of one line and the one before it.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from timing import of_verb

from maxk_lab.studies.gradient.work import measure
from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

# Seconds above those of four cells that can be told from the scatter of start-ups.
RESOLVED = 0.04
# Seeds that are measured.
MEASURED = 4
BASELINES = ("none", "group_mean", "centred", "sample_loo", "pkpo_sloo", "subloo")
SHARES = ("0.25", "0.5", "0.75", "0.9")
SMALL = {"baseline": [*BASELINES[:4], "subloo"], "n": [8, 16], "k": [2, 4]}
LARGE = {
    "baseline": [*BASELINES, *(f"affine[{share}]" for share in SHARES)],
    "n": [8, 10, 12, 14, 16],
    "k": [2, 3, 4, 5],
}


@dataclass(frozen=True)
class Sweep:
    """A sweep of a bandit: its seeds and the grid that each of them measures."""

    kind: str
    seeds: int
    grid: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.kind.replace(' ', '-')}-{self.seeds}"

    def written_to(self, folder: Path) -> Path:
        """Write the sweep file and return its path."""
        content = {
            "name": self.name,
            "seeds": list(range(self.seeds)),
            "environment": {"name": "bandit"},
            "gradient": {"pool": 64, "grid": {"estimator": "maxk", **self.grid}},
            "tracking": {"wandb": "disabled"},
        }
        path = folder / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump(content))
        return path


def write_records(plan: Plan, run: RunDirectory) -> None:
    """Write a record of every cell, as a run would but for flushing each to the disk."""
    measured: list[dict[str, Any]] = []
    for unit in plan.units[:MEASURED]:
        results = measure(
            unit.as_dict(),
            [cell.as_dict() for cell in unit.cells],
            cache=None,
            event=lambda name, payload: None,
        )
        by_id = {cell_id: found for cell_id, found in results if isinstance(found, dict)}
        measured.append({_point(cell): by_id[cell.id] for cell in unit.cells})
    run.write_spec(plan.spec)
    lines = []
    for number, unit in enumerate(plan.units):
        for cell in unit.cells:
            metrics = measured[number % len(measured)][_point(cell)]
            timings = {"seconds": 0.01, "finished": 0.0}
            record = Record(cell.as_dict(), "done", metrics, timings=timings)
            lines.append(record.to_line())
    run.append(b"".join(lines))


def _point(cell: Cell) -> tuple[Any, ...]:
    return cell.estimator, cell.baseline, cell.n, cell.k


def timed(sweep: Sweep, folder: Path) -> Iterator[tuple[str, int, float]]:
    """Yield what was timed, over how many cells, and its seconds."""
    path = sweep.written_to(folder)
    plan = make_plan(load_spec(path))
    cells = len(plan.cells)
    nothing, results = ("--results", str(folder / "empty")), ("--results", str(folder))
    yield "plan, nothing done", cells, of_verb("plan", str(path), *nothing)
    if sweep.kind.startswith("units"):
        return
    write_records(plan, RunDirectory(folder / sweep.name))
    out = ("--out", str(folder / "report"))
    yield "plan, all done", cells, of_verb("plan", str(path), *results)
    yield "run, all done", cells, of_verb("run", str(path), *results)
    yield "report, all formats", cells, of_verb("report", sweep.name, *results, *out)


def main() -> None:
    """Print seconds, microseconds a cell and exponents."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", help="of 20 points each, and no others")
    asked = parser.parse_args().seeds
    point = {"baseline": ["none", "subloo"], "n": 8, "k": [2, 4]}
    one = {"baseline": "none", "n": 8, "k": 2}
    sweeps = [
        *(Sweep("points", 50, grid) for grid in (SMALL, LARGE)),
        *(Sweep("seeds", count, point) for count in (250, 1000)),
        *(Sweep("units of twenty", count, SMALL) for count in (500, 5000)),
        *(Sweep("units of one", count, one) for count in (1000, 10000)),
    ]
    if asked:
        sweeps = [Sweep("points", count, SMALL) for count in asked]
    with tempfile.TemporaryDirectory() as folder:
        least = {what: found for what, _, found in timed(Sweep("one", 1, point), Path(folder))}
    print(", ".join(f"{what} {found:.2f} s" for what, found in least.items()), "for four cells")
    before: dict[tuple[str, str], tuple[int, float]] = {}
    for sweep in sweeps:
        with tempfile.TemporaryDirectory() as folder:
            for what, cells, found in timed(sweep, Path(folder)):
                rest = found - least[what]
                line = f"{what:<20} {cells:>6} cells, {sweep.seeds:>5} seeds {found:7.2f} s"
                if rest >= RESOLVED:
                    line += f" {1e6 * rest / cells:7.0f} µs a cell"
                    fewer, less = before.get((sweep.kind, what), (cells, rest))
                    if fewer < cells:
                        exponent = math.log(rest / less) / math.log(cells / fewer)
                        line += f", exponent {exponent:.2f}"
                    before[sweep.kind, what] = cells, rest
                print(line, flush=True)


if __name__ == "__main__":
    main()
