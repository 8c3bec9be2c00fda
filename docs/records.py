"""The numbers of the golden results, as the templates in docs/templates ask for them.

A template names a run and the axes of a row; `Run.row` finds the one row of its report that has
them. What matches no row, or several, and what has no number is an error, so that a page never
shows a number that no record stands behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from words import WrongReferenceError, duration, given, number

GOLDEN = Path(__file__).resolve().parents[1] / "results/golden"


class Claim:
    """The verdict on a claim, and the number that its detail begins with."""

    def __init__(self, run: str, found: Any) -> None:
        self.verdict, self.detail, self._found = found.verdict, found.detail, found
        self._named = f"{run}, claim {found.name}"

    @property
    def measured(self) -> str:
        """The number with its interval, as `12.3 [11.0, 13.9]`."""
        interval = self._found.interval
        if interval is None or not interval.known:
            raise WrongReferenceError(f"{self._named}: no interval in {self.detail!r}")
        return f"{number(interval.value)} [{number(interval.low)}, {number(interval.high)}]"

    @property
    def counted(self) -> str:
        """How many of how many bear the verdict out, as `40 of 40 ratios`."""
        return f"{self._found.count} of {self._found.of} {self._found.parts}"

    @property
    def level(self) -> str:
        """The level of its intervals, as `97.5 %`."""
        return f"{100 * self._found.interval.level:.4g} %"


class Row:
    """A row of a report: its axes and numbers by their names in the report's CSV."""

    def __init__(self, run: Run, values: Mapping[str, Any], measured: Any = None) -> None:
        self.run, self._values, self.measured = run, values, measured

    def __getitem__(self, name: str) -> Any:
        """Return a value. Raises where the row has none of that name, or an undefined one."""
        found = self._values.get(name)
        if found is None:
            reason = self._values.get("reason") or "there is none"
            raise WrongReferenceError(f"{self}: no {name} ({reason})")
        return found

    def __str__(self) -> str:
        axes = ("stage", "estimator", "baseline", "n", "k", "proxy")
        values = {axis: self._values.get(axis) for axis in axes}
        words = ", ".join(f"{axis}={value}" for axis, value in values.items() if value is not None)
        return f"{self.run.name} ({words})"

    def has(self, where: Mapping[str, Any]) -> bool:
        """Return whether the row has these values; of a list, any of them."""
        return all(
            self._values.get(axis) in (wanted if isinstance(wanted, list) else [wanted])
            for axis, wanted in where.items()
        )

    def knows(self, name: str) -> bool:
        """Return whether the row has a value of this name."""
        return self._values.get(name) is not None

    def low(self, name: str) -> float:
        """Return the lower end of a number's interval."""
        return float(self[_end(name, "low")])

    def high(self, name: str) -> float:
        """Return the upper end of a number's interval."""
        return float(self[_end(name, "high")])

    def told(self, name: str) -> str:
        """Return a number with its interval, as `12.3 [11.0, 13.9]`."""
        return f"{number(self[name])} {self.ends(name)}"

    def ends(self, name: str) -> str:
        """Return the interval of a number, as `[11.0, 13.9]`."""
        return f"[{number(self.low(name))}, {number(self.high(name))}]"


class Run:
    """A golden result, read from its bundle when it is first asked for."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self._path = name, path

    @cached_property
    def report(self) -> Any:
        """Its report, as `maxk_lab.report` returns it."""
        import maxk_lab

        return maxk_lab.report(self._path)

    @property
    def alpha(self) -> float:
        """The error rate of a family of comparisons in its report."""
        level: float = self.report.origin.alpha
        return level

    @cached_property
    def _rows(self) -> Sequence[Row]:
        from maxk_lab.reports.formats.data import lines_of
        from maxk_lab.reports.tables import wide

        measured = {
            (kind, row.key.path): row
            for kind, pooled in self.report.studies.items()
            for row in (*pooled.rows, *pooled.proxies)
        }
        lines = lines_of(wide(self.report.tables))
        rows = [(line, measured[line["study"], line["row"]]) for line in lines]
        return [Row(self, line | _more_values(line, row), row) for line, row in rows]

    def rows(self, where: Mapping[str, Any] | None = None, /, **axes: Any) -> list[Row]:
        """Return the rows with these values: axes by keyword, names with a dot in a mapping."""
        wanted = {**(where or {}), **axes}
        found = [row for row in self._rows if not row.knows("proxy") and row.has(wanted)]
        if not found:
            raise WrongReferenceError(f"{self.name}: no row where {wanted}")
        return found

    def row(self, where: Mapping[str, Any] | None = None, /, **axes: Any) -> Row:
        """Return the only row with these values."""
        return _only(self.rows(where, **axes), f"{self.name}: rows where {where or ''} {axes}")

    def proxy(self, **axes: Any) -> Row:
        """Return the only row of the table of proxies with these values."""
        found = [row for row in self._rows if row.knows("proxy") and row.has(axes)]
        return _only(found, f"{self.name}: proxies where {axes}")

    @cached_property
    def apart(self) -> Any:
        """The differences between trainings that are significant, corrected for all."""
        from maxk_lab.studies.training.table import corrected

        return corrected(self.report.studies["training"].rows, self.alpha)

    @cached_property
    def asked(self) -> list[int]:
        """The K that its training study asks about: 1, those it trains for, and all samples."""
        from maxk_lab.studies.training.table import shown_ks

        return shown_ks(self.report.studies["training"].rows)

    @cached_property
    def at_every_k(self) -> Mapping[Any, float]:
        """The p-values of its trainings by row and K, Holm over every K that is kept."""
        from maxk_lab.statistics.families import Family

        rows = self.report.studies["training"].rows
        p_values = {
            (row.key, k): p_value
            for row in rows
            for k, p_value in row.sampled.p_values.items()
            if p_value == p_value
        }
        return Family("every K", len(p_values), correction="holm").adjusted(p_values)

    def beaten(self, row: Row, k: int) -> bool:
        """Return whether some other training is told to be better at a K, were it asked alone.

        A report that asks at several K, or places, shares the level, and tells no more.
        """
        from maxk_lab.studies.training.table import beaten

        rows = self.report.studies["training"].rows
        return row.measured in beaten(rows, k, self.alpha)

    def trajectories(self, row: Row, way: str) -> int:
        """Return how many trajectories another way of decoding takes on an instance."""
        cell = next(iter(row.measured.cells.values()))
        found: int = self._directory.read(cell).metrics["extras"][way]["trajectories"]
        return found

    def recommended(self, budget: int, objective: str) -> Mapping[str, Any]:
        """Return what `maxk-lab recommend --json` says for a budget of rollouts a step."""
        from maxk_lab.cli.verbs.recommend import as_json
        from maxk_lab.planning.plan import make_plan
        from maxk_lab.studies.gradient import recommend

        plan = make_plan(self.spec)
        question = recommend.ask(plan, budget=budget, objective=objective, stage=None)
        (answer,) = recommend.answers(self.report.studies["gradient"], question)
        return as_json(answer)

    def claim(self, name: str) -> Claim:
        """Return the verdict on a claim."""
        try:
            return Claim(self.name, self.report.verdicts[name])
        except KeyError:
            raise WrongReferenceError(f"{self.name}: no claim {name}") from None

    def figure(self, name: str) -> str:
        """Return the path of its figure of this name, or of the first whose name begins so."""
        folder = self._path.parent / "figures"
        found = sorted(folder.glob(f"{name}*.png"), key=lambda path: (path.stem != name, path.stem))
        given(found, f"{self.name} has a figure {name}")
        return f"results/golden/{self.name}/figures/{found[0].name}"

    @cached_property
    def _directory(self) -> Any:
        from maxk_lab.execution.archive import find_run

        return find_run(str(self._path))

    @cached_property
    def spec(self) -> Any:
        """The sweep that was run, with every setting."""
        return self._directory.spec()

    @property
    def took(self) -> str:
        """How long its cells took, one after the other, as `5 minutes`."""
        seconds = sum(head.seconds for head in self._directory.heads.values())
        return duration(seconds)

    @property
    def seeds(self) -> int:
        """How many seeds the sweep has."""
        return len(self.report.origin.seeds)


class Golden:
    """All golden results by their names, each loaded once."""

    def __init__(self, folder: Path = GOLDEN) -> None:
        self._folder = folder
        self._runs: dict[str, Run] = {}

    def __call__(self, name: str) -> Run:
        """Return the golden result of this name."""
        if name not in self._runs:
            path = self._folder / name / f"{name}.zip"
            if not path.is_file():
                raise WrongReferenceError(f"no golden result {name}: {path} is not there")
            self._runs[name] = Run(name, path)
        return self._runs[name]


def _more_values(line: Mapping[str, Any], row: Any) -> dict[str, Any]:
    """What templates ask for beside the columns of the CSV."""
    values = {"lowest": line.get("verdict") == "lowest", "complete": line["status"] == "done"}
    values |= row.details
    if line["study"] == "training":
        values |= {"seeds_apart": row.sampled.apart}
    elif line["study"] == "gradient" and line.get("proxy") is None:
        values |= {"derived_unbiased": row.catalogued_unbiased}
        values |= {"relative_bias": row.bias.relative_bias}
    return values


def _only(found: Sequence[Row], asked: str) -> Row:
    if len(found) != 1:
        raise WrongReferenceError(f"{asked}: {len(found)} instead of one")
    return found[0]


def _end(name: str, end: str) -> str:
    return f"{name}_{end}"
