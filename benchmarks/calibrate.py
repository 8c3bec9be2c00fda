"""Measure by simulation how often intervals hold and verdicts err, and write the tables.

    make calibrate
    python benchmarks/calibrate.py --scale 0.3 --out results/golden/calibration

Every part is a file of rows in the folder; one of as many repetitions or more is not measured
again, so an interrupted run goes on. `table.md` there has every row of the parts that have a file,
and the page gets their summary.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from calibration import bands, hard, intervals, plans, pools, steps, trainings
from calibration.populations import HEAVY, MILD
from calibration.rows import LEVEL, Row
from timing import options, print_or_put

from maxk_lab.files import write_atomically

ROOT = Path(__file__).parents[1]
# The least and the greatest are over the regimes in which at least this share has an interval.
SOLID = 0.2
_REFERENCES = partial(
    intervals.family_wise_error,
    populations=(MILD, HEAVY, intervals.NORMS[0]),
    designs=intervals.JUDGED[2:4],
    judge="cell 1",
)
# Not from seed 0, with which it was chosen what can be tested.
_PEAKED = partial(pools.false_verdicts, tasks=pools.PEAKED, seed=100)
# The rows of each part as a function of the repetitions, and the repetitions.
PARTS: Mapping[str, tuple[Callable[[int], Iterator[Row]], int]] = {
    "training": (trainings.everything, 1000),
    "stars": (intervals.stars, 200),
    "family": (intervals.family_wise_error, 120),
    "family-against-a-reference": (_REFERENCES, 150),
    "power": (intervals.power, 80),
    "intervals": (intervals.coverage, 100),
    "bands": (bands.coverage, 600),
    "plans": (plans.coverage, 100),
    "steps": (steps.coverage, 400),
    "tails": (pools.heavy_tails, 100),
    "pools": (pools.false_verdicts, 4),
    "pools-nearly-deterministic": (_PEAKED, 4),
    "hard": (hard.verdicts, 40),
    "training-collapse": (partial(trainings.winners, shapes=trainings.COLLAPSE), 1000),
    "pools-against-a-reference": (partial(pools.false_verdicts, tasks=pools.UNLISTED), 2),
}


def measure(name: str, scale: float, path: Path) -> None:
    """Write the rows of a part, unless its file has enough repetitions."""
    of, repetitions = PARTS[name]
    repetitions = max(2, round(scale * repetitions))
    if path.exists() and json.loads(path.read_text("utf-8"))["repetitions"] >= repetitions:
        return
    rows, start = [], time.process_time()
    for row in of(repetitions):
        rows.append(row._asdict())
        print(f"{name}: {row.regime}, {row.statistic}", flush=True)
    seconds = round(time.process_time() - start)
    content = {"repetitions": repetitions, "seconds": seconds, "rows": rows}
    write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False).encode())


def table(rows: Iterable[Row]) -> list[str]:
    """Return every row, in markdown."""
    lines = [
        "| regime | statistic | nominal | measured | undefined | defined and wrong |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        measured = "–" if math.isnan(row.covered) else f"{row.covered:.1%} ± {row.se:.1%}"
        lines.append(
            f"| {row.regime} | {row.statistic} | {_nominal(row)} | {measured} "
            f"| {1 - row.shown:.0%} | {_wrong(row)} |"
        )
    return lines


def _nominal(row: Row) -> str:
    return "" if math.isnan(row.nominal) else f"{row.nominal:.3g}"


def _wrong(row: Row) -> str:
    """The share of reports with a wrong interval; of verdicts there is none."""
    return f"{row.wrong:.1%}" if row.nominal == LEVEL and not math.isnan(row.covered) else ""


def summary(parts: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return a line per statistic: the least and the greatest over the regimes, and where."""
    lines = [
        "| statistic | nominal | regimes | least | greatest | wrong of all, at most | undefined |",
        "|---|--:|--:|---|---|--:|--:|",
    ]
    by_statistic = defaultdict(list)
    for name, rows in parts.items():
        ends = {"reference": ", against a reference", "deterministic": ", nearly deterministic"}
        which = ends.get(name.rpartition("-")[2], "")
        for row in rows:
            by_statistic[name, f"{row.statistic}{which}"].append(row)
    for (_, statistic), rows_of_statistic in by_statistic.items():
        defined = [row for row in rows_of_statistic if not math.isnan(row.covered)]
        # Of the few reports that show it elsewhere, a share tells nothing.
        solid = sorted((row for row in defined if row.shown >= SOLID), key=lambda r: r.covered)
        if not solid:
            continue
        most = next(row for row in solid if row.covered == solid[-1].covered)
        ends = [f"{r.covered:.1%} ± {r.se:.1%} ({r.regime})" for r in (solid[0], most)]
        shares = sorted({round(100 * (1 - row.shown)) for row in rows_of_statistic})
        undefined = f"{shares[0]}%" + (f" to {shares[-1]}%" if len(shares) > 1 else "")
        columns = [statistic, _nominal(solid[0]), str(len(rows_of_statistic)), *ends]
        wrong = _wrong(max(defined, key=lambda row: row.wrong))
        lines.append(f"| {' | '.join(columns)} | {wrong} | {undefined} |")
    return lines


def main() -> None:
    """Measure the parts that are asked for, and write the tables."""
    parser = options(__doc__)
    parser.set_defaults(into=ROOT / "docs/method.md")
    parser.add_argument("--scale", type=float, default=1.0, help="times the repetitions")
    parser.add_argument("--out", type=Path, default=ROOT / "results/golden/calibration")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="these parts")
    arguments = parser.parse_args()
    files = {name: arguments.out / f"{name}.json" for name in PARTS}
    for name in arguments.only:
        measure(name, arguments.scale, files[name])
    tables = {
        name: [Row(**row) for row in json.loads(path.read_text("utf-8"))["rows"]]
        for name, path in files.items()
        if path.exists()
    }
    text = "\n".join(
        ["# Calibration", "", *table(row for rows in tables.values() for row in rows), ""]
    )
    write_atomically(arguments.out / "table.md", text.encode())
    print_or_put(summary(tables), arguments.into, "calibration")


if __name__ == "__main__":
    main()
