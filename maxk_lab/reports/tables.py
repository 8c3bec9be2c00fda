"""The tables of a run: `estimates` and `comparisons`. Every reader selects from them.

A kind of study makes them once: `pool` its rows with their paired arrays, `estimates` the numbers
of a row, `compare` the verdicts. Nothing else computes a number of a report.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from maxk_lab.statistics.families import Comparison
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.measures import Better
from maxk_lab.statistics.seeds import SAME
from maxk_lab.sweep_file.studies import STUDIES, StudyRow

if TYPE_CHECKING:
    import pandas as pd

    from maxk_lab.execution.records import Record

# Sums of the same numbers in another order, as on another processor, differ by less than this share
# of their largest terms.
ROUNDING = 1e-12
# The columns of `estimates` that hold the number; those before say whose it is.
NUMBER = ("measure", "value", "low", "high", "level", "about", "unit", "reason")
OF_ROWS = ("seeds", "seeds_finished", "status")

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class PooledRow:
    """One row of a report. Its `key` has a `path`, the name of the row.

    `cells` maps each planned seed to its cell id, `finished` lists the seeds that have a result.
    """

    key: Any
    cells: Mapping[int, str]
    finished: tuple[int, ...]

    @property
    def all_finished(self) -> bool:
        """Every planned seed has a result."""
        return len(self.finished) == len(self.cells)

    @property
    def unfinished(self) -> str:
        """The words for how many of the seeds finished; empty where all did."""
        if self.all_finished:
            return ""
        return f"incomplete: {len(self.finished)} of {len(self.cells)} seeds finished"

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Columns of words, counts, and yes or no."""
        return {}

    @property
    def details(self) -> Mapping[str, Any]:
        """Lists and mappings for JSON and trackers, such as the points of a curve."""
        return {}


@dataclass(frozen=True, kw_only=True)
class ExactRow(PooledRow):
    """A row whose numbers are computed from no samples: the content of each seed, as it is."""

    by_seed: Mapping[int, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Estimate:
    """A number of a row: its interval, its unit, and the side on which it is better.

    `of_pair` says that it compares the row with another of its run already, `as_ratio` that two of
    them are compared by their ratio rather than by their difference. Numbers that differ by up to
    `rounding` may be the same but for rounding, which matters where they are next to 0.
    """

    interval: Interval
    unit: str = ""
    better: Better = ""
    of_pair: bool = False
    as_ratio: bool = False
    rounding: float = 0.0


@dataclass(frozen=True)
class Effect:
    """How far a number of one run is from that of another: their difference, or their `ratio`.

    `paired` names the values that were compared one by one, such as "seed and instance"; empty
    where both intervals were set against each other.
    """

    interval: Interval
    ratio: bool = False
    paired: str = ""


RowType = TypeVar("RowType", bound=PooledRow, covariant=True)


@dataclass(frozen=True)
class Pooled(Generic[RowType]):
    """The rows of one kind of study in the order of the report, and the lines that compare them.

    `beside` are rows of another sort by the name of their section.
    """

    rows: tuple[RowType, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    beside: tuple[tuple[str, tuple[PooledRow, ...]], ...] = ()


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items with the same key together, in the order in which the keys come first."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def members_by_key(
    cells: Sequence[Mapping[str, Any]],
    done: Mapping[str, Record],
    key: Callable[[Mapping[str, Any]], Key],
) -> Iterator[tuple[Key, list[Mapping[str, Any]], dict[int, Record]]]:
    """The key of each row with its cells in the order of seeds, and the records of those done."""
    for found, members in grouped(cells, key).items():
        members.sort(key=lambda cell: int(cell["seed"]))
        yield found, members, {c["seed"]: done[c["id"]] for c in members if c["id"] in done}


def pooled_of(
    kind: str,
    cells: Sequence[Mapping[str, Any]],
    done: Mapping[str, Record],
    *,
    level: float,
    alpha: float,
    compared: bool = False,
) -> Pooled[PooledRow]:
    """The rows of the cells of a kind with their verdicts; where `compared` with all lines."""
    study = STUDIES.get(kind)
    part = study.part("pool")
    pooled: Pooled[PooledRow]
    if hasattr(part, "pool"):
        pooled = part.pool(cells, done, level=level, alpha=alpha)
    else:
        rows = _exact_rows(study, cells, done)
        pooled = Pooled(tuple(getattr(part, "sorted_rows", list)(list(rows))))
    part = study.part("compare")
    if hasattr(part, "judged"):
        pooled = part.judged(pooled, level=level, alpha=alpha)
    if compared and hasattr(part, "compare"):
        lines = tuple(part.compare(pooled, level=level, alpha=alpha))
        pooled = replace(pooled, comparisons=lines)
    return pooled


def rows_of_cells(records: Iterable[Record], level: float) -> dict[str, PooledRow]:
    """The row of every finished cell by its id: that of a report on its seed alone."""
    done = {record.cell["id"]: record for record in records if record.status == "done"}
    cells = [record.cell for record in done.values()]
    found: dict[str, PooledRow] = {}
    for (study, _), some in grouped(cells, lambda cell: (cell["study"], cell["seed"])).items():
        pooled = pooled_of(study, some, done, level=level, alpha=1 - level)
        found |= {one: row for row in pooled.rows for one in row.cells.values()}
    return found


def _exact_rows(
    study: StudyRow, cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record]
) -> Iterator[ExactRow]:
    """The rows of a kind that pools nothing, in the order of its cells."""
    part, content = study.part("pool"), study.part("record").Metrics
    for key, members, records in members_by_key(cells, done, part.key):
        yield getattr(part, "Row", ExactRow)(
            key=key,
            cells={cell["seed"]: cell["id"] for cell in members},
            finished=tuple(records),
            by_seed={seed: content.of(record) for seed, record in records.items()},
        )


def axes(kind: str, key: Any) -> dict[str, Any]:
    """The place of a row: its environment, what the sweep varies, and the axes of its kind."""
    of_key = getattr(key, "axes", STUDIES.get(kind).axes)
    named = {axis: getattr(key, axis) for axis in of_key}
    setting = dict(getattr(key, "setting", ()))
    return {"study": kind, "environment": key.environment, **setting, **named}


def numbers(kind: str, row: PooledRow) -> Mapping[str, Estimate]:
    """The numbers of a row by their names."""
    found: Mapping[str, Estimate] = STUDIES.get(kind).part("pool").estimates(row)
    return found


def lines_of(
    place: Mapping[str, Any], found: Mapping[str, Estimate], reason: str = ""
) -> Iterator[dict[str, Any]]:
    """The lines of a row, or of a cell, at its `place`; one with the `reason` where it has none."""
    if not found:
        yield {**place, **_number(Estimate(undefined(float("nan"), reason)))}
    for name, estimate in found.items():
        yield {**place, "measure": name, **_number(estimate)}


def estimates(studies: Mapping[str, Pooled[PooledRow]]) -> Iterator[dict[str, Any]]:
    """The lines of every row of a report, in its order."""
    for kind, pooled in studies.items():
        for row in pooled.rows:
            status = "done" if row.all_finished else "incomplete"
            seeds = {"seeds": len(row.cells), "seeds_finished": len(row.finished)}
            place = axes(kind, row.key) | seeds | {"status": status}
            found = numbers(kind, row) if row.all_finished else {}
            yield from lines_of(place, found, row.unfinished)


def frame(
    lines: Sequence[Mapping[str, Any]], whose: Sequence[str], first: Sequence[str] = ()
) -> pd.DataFrame:
    """The lines as a table: the columns of any of them, which of the others are empty."""
    import pandas as pd

    fixed = {"study", "environment", *first, *whose, *NUMBER}
    kinds = [kind for kind in STUDIES if any(line["study"] == kind.name for line in lines)]
    of_kinds = list(dict.fromkeys(axis for kind in kinds for axis in kind.axes))
    varied = dict.fromkeys(name for line in lines for name in line)
    settings = [name for name in varied if name not in {*fixed, *of_kinds}]
    columns = [*first, "study", "environment", *settings, *of_kinds, *whose, *NUMBER]
    found = pd.DataFrame.from_records(list(lines), columns=columns)
    for name in (*settings, *of_kinds):
        # A kind of study without an axis would turn the whole numbers of the others into floats.
        if all(type(value) is int for value in (line.get(name, 0) for line in lines)):
            found[name] = found[name].astype("Int64")
    return found


def record(kind: str, row: PooledRow, found: Mapping[str, Estimate]) -> dict[str, Any]:
    """The row as one mapping: its place, the numbers that were `found` of it, its attributes.

    A number without a value or interval has its reason in `undefined`, and is None unless it is the
    same in every seed. Lists are for JSON alone.
    """
    flat: dict[str, Any] = axes(kind, row.key)
    del flat["study"]
    flat |= {
        "seeds_finished": len(row.finished),
        "seeds": len(row.cells),
        "complete": row.all_finished,
    }
    reasons = {}
    for name, estimate in found.items():
        number = estimate.interval
        flat[name] = None
        if not number.exact:
            about = number.question if number.known else None
            flat |= number.columns(name) | {f"{name}_about": about}
        if number.known or number.reason == SAME:
            flat[name] = number.value
        if not number.known:
            reasons[name] = number.reason or "no interval"
    flat |= row.attributes
    flat["cells"] = dict(row.cells)
    return flat | dict(row.details) | {"undefined": reasons}


def _number(estimate: Estimate) -> dict[str, Any]:
    found = estimate.interval
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "level": found.level,
        "about": found.question,
        "unit": estimate.unit,
        "reason": found.reason,
    }
