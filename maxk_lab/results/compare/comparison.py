"""`compare`: two runs, read and set against each other. They are A and B, and B is judged by A."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, MistakeError, shown
from maxk_lab.reports.report import Report
from maxk_lab.reports.selection import selected_cells
from maxk_lab.reports.tables import PooledRow, grouped
from maxk_lab.results.compare.changes import differences, meanings, origins, settings
from maxk_lab.results.compare.numbers import VERDICTS, Differences, Number, Pair, Verdict
from maxk_lab.results.frame import ReadRun, Run, check_share, find, names_of

# The verdicts on a claim, the worst first.
_ORDER = ("refuted", "undecided", "supported")
_ABSENT = "not in this run"
# Of an environment, what makes rewards other things: their numbers say nothing of each other.
_PROBLEM = ("name", "task", "reward")
# The states of the cells of two runs, in words. Cells of the first two have one id in both.
STATES = {
    "identical": "identical to the last digit",
    "other_numbers": "the same with other numbers",
    "paired": "of the same row and seed with another id",
    "new": "in B alone",
    "gone": "in A alone",
    "without": "without a result in A or in B",
    "neither": "without one in both",
}
# The rows of a report by their kind of study and key.
_Place = tuple[str, Any]
_Rows = dict[_Place, PooledRow]


@dataclass(frozen=True)
class Absence:
    """A row, or seeds of one, that cannot be compared, with the reason.

    It is `gone` or `new` in B, or `unfinished` in a run. `missing` says that A has results which B
    lacks.
    """

    state: Literal["gone", "new", "unfinished"]
    path: str
    reason: str
    missing: bool


@dataclass(frozen=True)
class ClaimChange:
    """A claim with another verdict in B, in one run alone, or `redefined`.

    `redefined` has a line for each place where the claim of this name is another in B: their
    verdicts are then on two claims, and neither is worse than the other. Nor is it where the runs
    have `other_seeds`, by which alone a verdict may change.
    """

    name: str
    a: str
    b: str
    detail: str
    redefined: tuple[str, ...] = ()
    other_seeds: bool = False

    @property
    def worse(self) -> bool:
        """It was supported, or not refuted, and is so no more."""
        same = {self.a, self.b} <= set(_ORDER) and not self.redefined
        return same and not self.other_seeds and _ORDER.index(self.b) < _ORDER.index(self.a)

    @property
    def missing(self) -> bool:
        """It was supported, and B has no such claim."""
        return self.a == "supported" and (self.b not in _ORDER or bool(self.redefined))


@dataclass(frozen=True, repr=False)
class Comparison:
    """Everything that `maxk-lab compare A B` tells.

    `counts` has the cells in each of `STATES`. `alarms` are lines on rows of either run whose test
    of bias rejects what is unbiased by proof. `settings`, `origins` and `meanings` are lines on
    what was changed: in the sweep file, in code, versions and machines, and in the cells that stand
    for each other. `tests` is how many comparisons the verdicts are corrected for, `tie` the share
    below which none matters.
    """

    names: tuple[str, ...]
    commits: tuple[str, ...]
    numbers: tuple[Number, ...]
    absences: tuple[Absence, ...]
    alarms: tuple[str, ...]
    counts: Mapping[str, int]
    settings: tuple[str, ...]
    origins: tuple[str, ...]
    meanings: tuple[str, ...]
    claims: tuple[ClaimChange, ...]
    tests: int
    level: float
    alpha: float
    tie: float

    def __repr__(self) -> str:
        found = [f"{count} {verdict}" for verdict, count in self.verdicts.items() if count]
        told = ", ".join(found) or "nothing to compare"
        return f"<Comparison of {' and '.join(self.names)}: {told}>"

    def _repr_markdown_(self) -> str:
        return self.to("markdown")

    def to(self, format: str) -> str:
        """Return it as text: terminal, markdown, csv or json.

        Raises `LabError` for another format.
        """
        from maxk_lab.results.compare.document import Document, format_of

        return format_of(format)(Document(self))

    @property
    def verdicts(self) -> dict[Verdict, int]:
        """How many numbers have each verdict."""
        found = Counter(number.verdict for number in self.numbers)
        return {verdict: found[verdict] for verdict in VERDICTS}

    @property
    def worse(self) -> bool:
        """Some number, or the verdict on a claim, is worse."""
        return self.verdicts["worse"] > 0 or any(claim.worse for claim in self.claims)

    @property
    def missing(self) -> bool:
        """Some result of A, or claim that it supports, has no counterpart in B."""
        absent = any(one.missing for one in self.absences)
        return absent or any(claim.missing for claim in self.claims)

    @property
    def changed(self) -> bool:
        """Some result or claim is not identical in both, or is in one alone."""
        of_cells = any(n for name, n in self.counts.items() if name not in ("identical", "neither"))
        return of_cells or self.missing or bool(self.claims)


def compare(
    a: Run,
    b: Run,
    *,
    where: str | None = None,
    measures: str | Iterable[str] = (),
    tie: float = 0.01,
    level: float = 0.95,
    alpha: float = 0.05,
    results: str | os.PathLike[str] = "results",
) -> Comparison:
    """Compare run `b` with run `a`: what is the same, better, worse, new or gone.

    Both are names of runs under `results`, folders or bundles. Rows of their reports stand for each
    other by their axes. Where the cells of a row have the same ids and metrics in both, nothing is
    compared: they are identical. Else each number has a difference, or a ratio, with an interval at
    `level`; paired by seed and instance where both runs have the same ones. With other seeds a
    number is better or worse only by the values of the seeds. Verdicts rest on intervals that are
    corrected (Bonferroni) for all comparisons at a family-wise error of `alpha`. A difference that
    is surely less than the share `tie` of A's number is a tie.

    `where` selects rows as that of a report does, such as "k=8,baseline=centred", and `measures`
    is the name of the number that is compared, or their names: fewer comparisons, and each is told
    apart sooner. Raises `LabError` for runs, rows or measures that are not there.
    """
    check_share("level", level, such_as=0.95)
    check_share("alpha", alpha, such_as=0.05)
    check_share("tie", tie, such_as=0.01, or_zero=True)
    several = isinstance(measures, Iterable) and not isinstance(measures, str)
    wanted: tuple[str, ...] = tuple(measures) if several else (measures,)  # type: ignore[assignment]
    for name in wanted:
        if not isinstance(name, str):
            raise MistakeError(f"measures must be names such as 'variance', got {shown(name)}")
    directories = [find(run, results) for run in (a, b)]
    runs = [ReadRun(directory) for directory in directories]
    names = names_of([a, b], directories)
    reports = [run.report(level) for run in runs]
    pairs = list(_pairs(runs, *_rows(runs, reports, where)))
    of_both = [pair for pair in pairs if pair.a.cells and pair.b.cells]
    known = dict.fromkeys(name for pair in of_both for name in pair.in_both())
    for name in wanted:
        if name not in known:
            raise MistakeError(
                f"no row of both runs has the measure {shown(name)}{did_you_mean(name, known)}; "
                f"they have {', '.join(known) or 'none'}"
            )
    finished = [pair for pair in of_both if pair.a.all_finished and pair.b.all_finished]
    finished.sort(key=lambda pair: not pair.identical)
    told, tests = Differences(runs, level, tie).of(finished, wanted, alpha)
    one, other = runs
    counts = Counter(state for pair in pairs for state in pair.states)
    return Comparison(
        names=tuple(names),
        commits=tuple(", ".join(it.origin.commits) or "unknown commit" for it in reports),
        numbers=told,
        absences=tuple(line for pair in pairs for line in _absences(pair, *runs)),
        alarms=tuple(_alarms(of_both)),
        counts={state: counts[state] for state in STATES},
        settings=tuple(differences(settings(one.plan.spec), settings(other.plan.spec))),
        origins=tuple(differences(origins(one.records), origins(other.records))),
        meanings=meanings(
            [
                (one.cells[cell].as_dict(), other.cells[pair.b.cells[seed]].as_dict())
                for pair in finished
                for seed, cell in pair.a.cells.items()
                if pair.b.cells.get(seed, cell) != cell
            ]
        ),
        claims=tuple(_claims(runs, reports, not all(pair.same_seeds for pair in of_both))),
        tests=tests,
        level=level,
        alpha=alpha,
        tie=tie,
    )


def _rows(runs: Sequence[ReadRun], reports: Sequence[Report], where: str | None) -> list[_Rows]:
    """The rows of both reports that are asked for; one of the runs may have none of them."""
    found: list[_Rows] = []
    wrong: list[LabError] = []
    for run, report in zip(runs, reports, strict=True):
        ids: Collection[str] | None = ()
        try:
            ids = selected_cells(run.plan, where)
        except LabError as error:
            wrong.append(error)
        found.append(
            {
                (kind, row.key): row
                for kind, pooled in report.studies.items()
                for row in pooled.rows
                if ids is None or any(cell in ids for cell in row.cells.values())
            }
        )
    if len(wrong) == len(runs):
        raise wrong[0]
    return found


def _pairs(runs: Sequence[ReadRun], mine: _Rows, theirs: _Rows) -> Iterator[Pair]:
    """The rows of A alone, those of B alone, and those that stand for each other.

    These have the same key or else, where it is unique, the same name, which leaves out the
    parameters of the environment, of which one may have been changed.
    """
    same = {place: place for place in mine if place in theirs}
    of_a, of_b = (
        grouped([at for at in rows if at not in same], partial(_name, rows, run))
        for rows, run in zip((mine, theirs), runs, strict=True)
    )
    for name, places in of_a.items():
        if len(places) == len(of_b.get(name, ())) == 1:
            same[places[0]] = of_b[name][0]
    both = [(place[0], row, theirs[same[place]]) for place, row in mine.items() if place in same]
    gone = [(place[0], row, _without(row)) for place, row in mine.items() if place not in same]
    taken = set(same.values())
    new = [(place[0], _without(row), row) for place, row in theirs.items() if place not in taken]
    for kind, a, b in (*gone, *new, *both):
        cells = [(a.cells.get(seed), b.cells.get(seed)) for seed in {**a.cells, **b.cells}]
        yield Pair(kind, a, b, tuple(_state(*cell, *runs) for cell in cells))


def _without(row: PooledRow) -> PooledRow:
    return PooledRow(key=row.key, cells={}, finished=())


def _name(rows: _Rows, run: ReadRun, place: _Place) -> tuple[Any, ...]:
    """The name of a row, with what makes the rewards of its environment other things."""
    cell = run.cells[next(iter(rows[place].cells.values()))].as_dict()
    return place[0], place[1].path, *(cell["environment"].get(name) for name in _PROBLEM)


def _state(mine: str | None, theirs: str | None, a: ReadRun, b: ReadRun) -> str:
    """Which of `STATES` a cell of A and that of B are in; None for a seed that is not planned."""
    if mine is None or theirs is None:
        return "new" if mine is None else "gone"
    lacking = (mine in a.absent) + (theirs in b.absent)
    if lacking:
        return "neither" if lacking == 2 else "without"
    if mine != theirs:
        return "paired"
    same = a.records[mine].metrics == b.records[mine].metrics
    return "identical" if same else "other_numbers"


def _absences(pair: Pair, a: ReadRun, b: ReadRun) -> Iterator[Absence]:
    """Why a row cannot be compared, or not with all seeds of A."""
    path, there = pair.a.key.path, pair.b.cells
    if not pair.a.cells:
        yield Absence("new", path, "A does not plan it", missing=False)
    dropped = [seed for seed in pair.a.cells if seed not in there]
    if dropped:
        lost = any(pair.a.cells[seed] not in a.absent for seed in dropped)
        seeds = f"seed{'s' if len(dropped) > 1 else ''} {', '.join(map(str, dropped))}"
        yield Absence("gone", path, f"B does not plan {seeds if there else 'it'}", missing=lost)
    words = [
        f"{name}: {'; '.join(_states(row.cells, run))}"
        for name, row, run in (("A", pair.a, a), ("B", pair.b, b))
        if pair.a.cells and there and not row.all_finished
    ]
    if words:
        lost = any(
            cell not in a.absent and there.get(seed, "") in b.absent
            for seed, cell in pair.a.cells.items()
        )
        yield Absence("unfinished", path, ". ".join(words), missing=lost)


def _states(cells: Mapping[int, str], run: ReadRun) -> Iterator[str]:
    for seed, cell in cells.items():
        if cell in run.absent:
            state, reason = run.absent[cell]
            yield f"seed {seed} {state}{f' ({reason})' if reason else ''}"


def _alarms(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield the rows of each run whose test of bias rejects what is unbiased by proof."""
    for letter in "ab":
        for row in (getattr(pair, letter) for pair in pairs):
            # Studies without a test of bias have no such verdict.
            bias = getattr(row, "bias", None)
            if bias is not None and bias.verdict == "alarm":
                yield f"{letter.upper()}: {row.key.path}: {bias.reason}"


def _claims(
    runs: Sequence[ReadRun], reports: Sequence[Report], other_seeds: bool
) -> Iterator[ClaimChange]:
    """The claims that have another verdict in B, or say something else there."""
    mine, theirs = ({claim.name: claim for claim in report.claims} for report in reports)
    a, b = (
        {claim.name: claim.model_dump(mode="json") for claim in run.plan.spec.claims}
        for run in runs
    )
    for name in {**mine, **theirs}:
        before, after = (its[name].verdict if name in its else _ABSENT for its in (mine, theirs))
        lines = tuple(differences(a[name], b[name])) if name in a and name in b else ()
        if before != after or lines:
            detail = theirs[name].detail if name in theirs else ""
            yield ClaimChange(name, before, after, detail, lines, other_seeds)
