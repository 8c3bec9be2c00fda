"""Hold the numbers of the golden runs against their frozen values.

    python benchmarks/golden_values.py                 compare all runs; exit 1 on a difference
    python benchmarks/golden_values.py quick           compare this run only
    python benchmarks/golden_values.py --write quick   freeze its present values

Frozen values lie in results/golden/values/<name>/{estimates,comparisons,claims}.csv. A value that
no longer exists needs a line in results/golden/values/removed.txt: the run (* for any), the table,
conditions on columns, and after a # the reason.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import golden
import pandas as pd

VALUES = golden.GOLDEN / "values"
REMOVED = VALUES / "removed.txt"
RELATIVE, ABSOLUTE, SMALL = 1e-9, 1e-12, 1e-3
MOST_SHOWN = 20
# The columns with a value; all other columns of a table say whose value it is.
NUMBERS = {
    "estimates": ("value", "low", "high"),
    "comparisons": ("value", "low", "high", "p_adjusted", "comparisons", "verdict"),
    "claims": ("value", "low", "high", "verdict"),
}


def tables(name: str) -> dict[str, pd.DataFrame]:
    """Return the estimates, comparisons and claims of a golden run, read from its bundle."""
    from maxk_lab.execution.archive import find_run
    from maxk_lab.reports.report import read_report

    made = read_report(find_run(golden.bundle_of(name))).tables
    rows = ["row", "seeds", "seeds_finished", "status", "bias", "level", "about", "unit", "reason"]
    dropped = {
        "estimates": rows,
        "comparisons": ["about", "ratio", "paired", "reason", "fixed", "alpha"],
        "claims": ["text", "detail", "judged", "level", "count", "of", "parts"],
    }
    return {table: getattr(made, table).drop(columns=names) for table, names in dropped.items()}


def as_csv(frame: pd.DataFrame) -> str:
    """Return a table as CSV, each number with all its digits."""
    return str(frame.to_csv(index=False, lineterminator="\n"))


def write(name: str) -> None:
    """Freeze the present values of a golden run."""
    (VALUES / name).mkdir(parents=True, exist_ok=True)
    for table, frame in tables(name).items():
        (VALUES / name / f"{table}.csv").write_text(as_csv(frame), encoding="utf-8")


def keyed(text: str, table: str) -> dict[frozenset[tuple[str, str]], dict[str, str]]:
    """Return the values of each line of a CSV by the (column, text) pairs that name the line."""
    numbers = NUMBERS[table]
    return {
        frozenset((name, value) for name, value in line.items() if value and name not in numbers): {
            name: line[name] for name in numbers if name in line
        }
        for line in csv.DictReader(text.splitlines())
    }


def equal(now: str, then: str) -> bool:
    """Return whether two values agree: numbers to 1e-9, or 1e-12 absolute below 1e-3."""
    try:
        number, frozen = float(now), float(then)
    except ValueError:
        return now == then
    tolerance = ABSOLUTE if abs(frozen) < SMALL else RELATIVE * abs(frozen)
    return number == frozen or abs(number - frozen) <= tolerance


@dataclass(frozen=True)
class Removed:
    """A line of removed.txt: the values that no longer exist, and why."""

    run: str
    table: str
    conditions: Mapping[str, str]
    reason: str

    @classmethod
    def read(cls, line: str) -> Removed:
        """Parse one line; raises `ValueError` for a line without a reason."""
        words, mark, reason = line.partition("#")
        run, table, *conditions = words.split()
        if not (mark and reason.strip()):
            raise ValueError(f"{REMOVED.name}: no reason in {line!r}")
        pairs = [condition.split("=", 1) for condition in conditions]
        return cls(run, table, dict(pairs), reason.strip())

    def explains(self, run: str, table: str, names: frozenset[tuple[str, str]]) -> bool:
        """Return whether this line covers a frozen value; | separates alternative patterns."""
        texts = dict(names)
        return (
            self.run in ("*", run)
            and self.table in ("*", table)
            and all(
                any(fnmatchcase(texts.get(column, ""), pattern) for pattern in patterns.split("|"))
                for column, patterns in self.conditions.items()
            )
        )


def removed_lines() -> list[Removed]:
    """Return the lines of removed.txt."""
    lines = REMOVED.read_text(encoding="utf-8").splitlines() if REMOVED.is_file() else []
    return [Removed.read(line) for line in lines if line.strip() and not line.startswith("#")]


def differences(name: str, removed: Sequence[Removed]) -> tuple[list[str], set[int]]:
    """Compare a golden run with its frozen values.

    Returns a sentence for each difference, and the indices in `removed` that explain a lost value.
    """
    problems: list[str] = []
    used: set[int] = set()
    for table, frame in tables(name).items():
        now = keyed(as_csv(frame), table)
        frozen = (VALUES / name / f"{table}.csv").read_text(encoding="utf-8")
        for names, values in keyed(frozen, table).items():
            label = " ".join(f"{column}={text}" for column, text in sorted(names))
            label = f"{name} {table} {label}"
            if names not in now:
                reasons = [i for i, line in enumerate(removed) if line.explains(name, table, names)]
                used.update(reasons)
                problems += [] if reasons else [f"lost: {label}"]
                continue
            line = now[names]
            # A p-value is corrected for the size of its family, and families may shrink.
            if "comparisons" in values and not equal(line["comparisons"], values["comparisons"]):
                line = line | {column: values[column] for column in ("p_adjusted", "comparisons")}
            problems += [
                f"changed: {label}: {column} {values[column]} -> {line[column]}"
                for column in values
                if not equal(line[column], values[column])
            ]
    return problems, used


def main() -> None:
    """Compare or freeze the golden runs that are named; exit with 1 on a difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="golden runs; default: all")
    parser.add_argument("--write", action="store_true", help="freeze the present values")
    arguments = parser.parse_args()
    names = arguments.names or golden.SWEEPS
    if arguments.write:
        for name in names:
            write(name)
        return
    removed, used, failed = removed_lines(), set[int](), False
    for name in names:
        problems, explained = differences(name, removed)
        used |= explained
        failed |= bool(problems)
        print(f"{name}: {len(problems)} differences")
        for problem in problems[:MOST_SHOWN]:
            print(f"  {problem}")
    if not arguments.names:
        unused = [line for index, line in enumerate(removed) if index not in used]
        failed |= bool(unused)
        for line in unused:
            print(f"{REMOVED.name}: explains nothing: {line}")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
