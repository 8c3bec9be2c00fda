"""`compare`: two runs, read and set against each other."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, MistakeError, shown
from maxk_lab.report.model import Summary
from maxk_lab.report.tables import axes, numbers
from maxk_lab.report.view.asked import asked_view
from maxk_lab.results.compare.changes import (
    claims_redefined,
    meanings_changed,
    origins_changed,
    settings_changed,
)
from maxk_lab.results.compare.model import ClaimChange, ComparedRow, Comparison, Number
from maxk_lab.results.compare.numbers import Differences, compared, identical
from maxk_lab.results.compare.pairs import (
    Matched,
    Pair,
    absences,
    counted,
    is_identical,
    matched,
)
from maxk_lab.results.reading import (
    ReadRun,
    Run,
    check_share,
    find,
    names_of,
)
from maxk_lab.sweeps.plan.plan import Plan

_ABSENT = "not in this run"
# As plain JSON.
Cell = Mapping[str, Any]


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
    wanted = _names(measures)
    asked = [a, b]
    directories = [find(run, results) for run in asked]
    mine, theirs = (ReadRun(directory) for directory in directories)
    one, other = names_of(asked, directories)
    first, second = mine.summary(level), theirs.summary(level)
    found = matched((mine, theirs), (first, second), _selected(mine.plan, theirs.plan, where))
    same = {place for place, pair in enumerate(found.pairs) if is_identical(pair, mine, theirs)}
    _check_measures(found, wanted)
    to_compare = [
        pair
        for place, pair in enumerate(found.pairs)
        if place not in same and pair.a.all_finished and pair.b.all_finished
    ]
    told, tests = compared(
        Differences(mine, theirs), to_compare, wanted, level=level, alpha=alpha, tie=tie
    )
    rows = [
        _row(found.pairs[place], identical(found.pairs[place], wanted), is_same=True)
        for place in sorted(same)
    ]
    rows += [_row(pair, of_pair) for pair, of_pair in zip(to_compare, told, strict=True)]
    return Comparison(
        names=(one, other),
        commits=(_commits(first), _commits(second)),
        rows=tuple(rows),
        absences=tuple(absences(found, mine, theirs)),
        alarms=tuple(_alarms(found.pairs)),
        counts=counted(found, mine, theirs),
        settings=settings_changed(mine.plan.spec, theirs.plan.spec),
        origins=origins_changed(*map(_provenances, (mine, theirs))),
        meanings=meanings_changed(list(_renamed(to_compare, mine, theirs))),
        claims=tuple(
            _claims(
                (first, second),
                claims_redefined(mine.plan.spec, theirs.plan.spec),
                other_seeds=not all(pair.same_seeds for pair in found.pairs),
            )
        ),
        tests=tests,
        level=level,
        alpha=alpha,
        tie=tie,
    )


def _selected(a: Plan, b: Plan, where: str | None) -> tuple[Collection[str], Collection[str]]:
    """The cells that are asked for; one of the runs may have none of them."""
    found: list[Collection[str]] = []
    wrong: list[LabError] = []
    for plan in (a, b):
        try:
            asked = asked_view(plan, where=where).cells
            found.append({cell.id for cell in plan.cells} if asked is None else asked)
        except LabError as error:
            wrong.append(error)
            found.append(())
    if len(wrong) == 2:
        raise wrong[0]
    return found[0], found[1]


def _names(measures: str | Iterable[str]) -> tuple[str, ...]:
    named = (measures,) if isinstance(measures, str) else measures
    names = tuple(named) if isinstance(named, Iterable) else (named,)
    for name in names:
        if not isinstance(name, str):
            raise MistakeError(f"measures must be names such as 'variance', got {shown(name)}")
    return names


def _check_measures(found: Matched, measures: Sequence[str]) -> None:
    known = dict.fromkeys(
        name
        for pair in found.pairs
        for name, one in numbers(pair.kind, pair.a).items()
        if not one.of_pair
    )
    for name in measures:
        if name not in known:
            also = did_you_mean(name, known)
            raise MistakeError(
                f"no row of both runs has the measure {shown(name)}{also}; "
                f"they have {', '.join(known) or 'none'}"
            )


def _row(pair: Pair, told: tuple[Number, ...], *, is_same: bool = False) -> ComparedRow:
    return ComparedRow(
        kind=pair.kind,
        path=pair.b.key.path,
        axes=axes(pair.kind, pair.b.key),
        numbers=told,
        same_cells=pair.same_cells,
        identical=is_same,
    )


def _alarms(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield the rows of each run whose test of bias rejects what is unbiased by proof."""
    for letter, rows in {"A": [one.a for one in pairs], "B": [one.b for one in pairs]}.items():
        for row in rows:
            # Studies without a test of bias have no such verdict.
            bias = getattr(row, "bias", None)
            if bias is not None and bias.verdict == "alarm":
                yield f"{letter}: {row.key.path}: {bias.reason}"


def _renamed(pairs: Sequence[Pair], a: ReadRun, b: ReadRun) -> Iterator[tuple[Cell, Cell]]:
    """The cells that stand for each other under different ids."""
    for pair in pairs:
        for seed in pair.seeds:
            one, other = a.cells[pair.a.cells[seed]], b.cells[pair.b.cells[seed]]
            if one.id != other.id:
                yield one.as_dict(), other.as_dict()


def _provenances(run: ReadRun) -> Iterator[Mapping[str, Any]]:
    return (record.provenance for record in run.records.values())


def _commits(summary: Summary) -> str:
    return ", ".join(summary.header.commits) or "unknown commit"


def _claims(
    summaries: tuple[Summary, Summary],
    redefined: Mapping[str, tuple[str, ...]],
    *,
    other_seeds: bool,
) -> Iterator[ClaimChange]:
    mine, theirs = ({claim.name: claim for claim in summary.claims} for summary in summaries)
    for name in dict.fromkeys((*mine, *theirs)):
        before = mine[name].verdict if name in mine else _ABSENT
        after = theirs[name].verdict if name in theirs else _ABSENT
        lines = redefined.get(name, ())
        if before != after or lines:
            detail = theirs[name].detail if name in theirs else ""
            yield ClaimChange(name, before, after, detail, lines, other_seeds)
