"""Tell under which seeds each claim of the CI sweeps holds, as a table in markdown.

    make reproduce SEEDS="100 200 300"
    python benchmarks/claims_over_seeds.py results/seeds-* --into docs/method.md

A column for every folder of results, read from the reports that are in it. `--into` puts the table
between the two marks of a page in place of the one that is there; else it is printed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from timing import options, print_or_put

MARKS = {"supported": "●", "undecided": "○", "refuted": "✗"}
ABSENT = "–"

# The verdicts by sweep and claim.
Verdicts = Mapping[tuple[str, str], str]


def verdicts(results: Path) -> dict[tuple[str, str], str]:
    """Return the verdicts of every report in a folder of results, by sweep and claim."""
    by_claim = {}
    for path in sorted(results.glob("*/report/report.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        for claim in report["claims"]:
            by_claim[report["origin"]["name"], claim["name"]] = claim["verdict"]
    if not by_claim:
        sys.exit(f"{results} holds no report with claims: run make reproduce first")
    return by_claim


def table(columns: Mapping[str, Verdicts]) -> list[str]:
    """Return the lines of the table: sweep, claim, a mark for every column, and their counts."""
    claims = sorted({claim for verdict in columns.values() for claim in verdict})
    counted = ", ".join(f"{mark} {verdict}" for verdict, mark in MARKS.items())
    names = ["sweep", "claim", *columns, *MARKS]
    rows = [names, ["---", "---", *[":-:"] * len(columns), *["--:"] * len(MARKS)]]
    total: Counter[str] = Counter()
    for sweep, claim in claims:
        row_verdicts = [column.get((sweep, claim)) for column in columns.values()]
        counts = Counter(verdict for verdict in row_verdicts if verdict is not None)
        total.update(counts)
        marks = [ABSENT if verdict is None else MARKS[verdict] for verdict in row_verdicts]
        rows.append([sweep, f"`{claim}`", *marks, *(str(counts[verdict]) for verdict in MARKS)])
    sums = (str(total[verdict]) for verdict in MARKS)
    rows.append([f"{len(claims)} claims", "", *[""] * len(columns), *sums])
    heading = f"Seeds shifted by the number above the column; {counted}, {ABSENT} not run."
    return [heading, "", *(f"| {' | '.join(row)} |" for row in rows)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or put it into a page."""
    parser = options(__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="folders such as results/seeds-100")
    parsed = parser.parse_args(arguments)
    folders = sorted(parsed.results, key=lambda folder: (len(folder.name), folder.name))
    lines = table({folder.name.removeprefix("seeds-"): verdicts(folder) for folder in folders})
    print_or_put(lines, parsed.into, "claims over seeds")


if __name__ == "__main__":
    main()
