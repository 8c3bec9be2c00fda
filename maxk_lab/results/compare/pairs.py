"""The rows of two runs that stand for each other, and the cells behind them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from maxk_lab.report.model import Summary
from maxk_lab.report.tables import PooledRow
from maxk_lab.results.compare.model import Absence, CellCounts
from maxk_lab.results.reading import ReadRun

Place = tuple[str, Any]
# Of an environment, what makes rewards other things: their numbers say nothing of each other.
_PROBLEM = ("name", "task", "reward")


@dataclass(frozen=True)
class Pair:
    """A row in both runs: its kind of study and its key in each of them."""

    kind: str
    a: PooledRow
    b: PooledRow

    @property
    def seeds(self) -> list[int]:
        """The seeds that both have."""
        return [seed for seed in self.a.cells if seed in self.b.cells]

    @property
    def same_seeds(self) -> bool:
        """Whether both rest on the same seeds; where only some are shared, they do not."""
        return set(self.a.cells) == set(self.b.cells)

    @property
    def same_cells(self) -> bool:
        """Whether both rest on the very same cells."""
        return dict(self.a.cells) == dict(self.b.cells)


@dataclass(frozen=True)
class Matched:
    """The rows that both have, and those of one alone."""

    pairs: tuple[Pair, ...]
    gone: tuple[tuple[str, PooledRow], ...]
    new: tuple[tuple[str, PooledRow], ...]


def matched(
    runs: tuple[ReadRun, ReadRun],
    summaries: tuple[Summary, Summary],
    ids: tuple[Collection[str], Collection[str]],
) -> Matched:
    """The rows of two reports by their keys; of those left, by their names where these are unique.

    A name leaves out the parameters of the environment, of which one may have been changed. Only
    rows with cells among the `ids` of their run count.
    """
    mine, theirs = (_rows(summary, kept) for summary, kept in zip(summaries, ids, strict=True))
    found = {place: place for place in mine if place in theirs}
    left, others_left = (
        _by_name({at: row for at, row in rows.items() if at not in found}, run)
        for rows, run in zip((mine, theirs), runs, strict=True)
    )
    for name, places in left.items():
        others = others_left.get(name, [])
        if len(places) == len(others) == 1:
            found[places[0]] = others[0]
    taken = set(found.values())
    return Matched(
        tuple(Pair(at[0], mine[at], theirs[found[at]]) for at in mine if at in found),
        tuple((at[0], row) for at, row in mine.items() if at not in found),
        tuple((at[0], row) for at, row in theirs.items() if at not in taken),
    )


def _rows(summary: Summary, ids: Collection[str]) -> dict[Place, PooledRow]:
    return {
        (kind, row.key): row
        for kind, found in summary.studies.items()
        for row in found.rows
        if any(cell in ids for cell in row.cells.values())
    }


def _by_name(rows: Mapping[Place, PooledRow], run: ReadRun) -> dict[tuple[Any, ...], list[Place]]:
    found: dict[tuple[Any, ...], list[Place]] = {}
    for (kind, key), row in rows.items():
        environment = run.cells[next(iter(row.cells.values()))].as_dict()["environment"]
        problem = tuple(environment.get(name) for name in _PROBLEM)
        found.setdefault((kind, key.path, problem), []).append((kind, key))
    return found


def is_identical(pair: Pair, a: ReadRun, b: ReadRun) -> bool:
    """Whether its cells are the same in both, and so are all metrics, to the last digit."""
    return pair.same_cells and all(same_metrics(cell, a, b) for cell in pair.a.cells.values())


def same_metrics(cell: str, a: ReadRun, b: ReadRun) -> bool:
    """Whether a cell has a result in both runs, which is the same to the last digit."""
    mine, theirs = a.records.get(cell), b.records.get(cell)
    return (
        mine is not None
        and theirs is not None
        and mine.status == theirs.status == "done"
        and mine.metrics == theirs.metrics
    )


def counted(found: Matched, a: ReadRun, b: ReadRun) -> CellCounts:
    """How many cells stand for each other, and how."""
    counts = dict.fromkeys(CellCounts.__dataclass_fields__, 0)
    for pair in found.pairs:
        for seed in dict.fromkeys((*pair.a.cells, *pair.b.cells)):
            counts[_standing(pair.a.cells.get(seed), pair.b.cells.get(seed), a, b)] += 1
    counts["gone"] += sum(len(row.cells) for _, row in found.gone)
    counts["new"] += sum(len(row.cells) for _, row in found.new)
    return CellCounts(**counts)


def _standing(mine: str | None, theirs: str | None, a: ReadRun, b: ReadRun) -> str:
    if mine is None or theirs is None:
        return "new" if mine is None else "gone"
    if mine in a.absent or theirs in b.absent:
        return "neither" if mine in a.absent and theirs in b.absent else "without"
    if mine != theirs:
        return "paired"
    return "identical" if same_metrics(mine, a, b) else "other_numbers"


def absences(found: Matched, a: ReadRun, b: ReadRun) -> Iterator[Absence]:
    """The rows that cannot be compared, or not with all seeds of A, and why."""
    for _, row in found.gone:
        lost = any(cell not in a.absent for cell in row.cells.values())
        yield Absence("gone", row.key.path, "B does not plan it", missing=lost)
    for _, row in found.new:
        yield Absence("new", row.key.path, "A does not plan it", missing=False)
    for pair in found.pairs:
        dropped = [seed for seed in pair.a.cells if seed not in pair.b.cells]
        if dropped:
            lost = any(pair.a.cells[seed] not in a.absent for seed in dropped)
            seeds = f"seed{'s' if len(dropped) > 1 else ''} {', '.join(map(str, dropped))}"
            yield Absence("gone", pair.a.key.path, f"B does not plan {seeds}", missing=lost)
        words = [
            f"{name}: {'; '.join(_states(row.cells, run))}"
            for name, row, run in (("A", pair.a, a), ("B", pair.b, b))
            if not row.all_finished
        ]
        lost = any(
            cell not in a.absent and pair.b.cells.get(seed, "") in b.absent
            for seed, cell in pair.a.cells.items()
        )
        if words:
            yield Absence("unfinished", pair.a.key.path, ". ".join(words), missing=lost)


def _states(cells: Mapping[int, str], run: ReadRun) -> Iterator[str]:
    for seed, cell in cells.items():
        if cell in run.absent:
            state, reason = run.absent[cell]
            yield f"seed {seed} {state}{f' ({reason})' if reason else ''}"
