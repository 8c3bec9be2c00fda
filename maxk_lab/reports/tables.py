"""The tables of a run: estimates, comparisons and claims. All formats read them.

A kind of study pools its records into rows, gives the `estimates` of a row, and compares rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from maxk_lab.statistics.families import Comparison
from maxk_lab.statistics.intervals import EXACT, Interval, undefined
from maxk_lab.statistics.measures import described
from maxk_lab.sweep_file.studies import STUDIES
from maxk_lab.visible import visible

if TYPE_CHECKING:
    import pandas as pd

    from maxk_lab.execution.records import Record
    from maxk_lab.reports.claims import ClaimVerdict

# Sums of the same numbers in another order differ by less than this share of the largest term.
ROUNDING = 1e-12
# The last columns of `estimates`; the columns before identify the row.
NUMBER = ("measure", "value", "low", "high", "level", "about", "unit", "reason")
# The columns that identify a row, or a cell.
ROWS = ("row", "seeds", "seeds_finished", "status", "bias")
CELLS = ("row", "seed", "cell", "status", "bias")
_ENDS = ("value", "low", "high")
_PAIR = ("family", "row", "other", "measure", *_ENDS, "about", "verdict", "ratio", "paired")
COMPARISON = (*_PAIR, "p_adjusted", "comparisons", "alpha", "fixed", "reason")
CLAIM = ("name", "text", "verdict", "detail", "judged", *_ENDS, "level", "count", "of", "parts")
# The columns that name a row.
NAME = ("study", "environment", "row")
# Measures that are whole numbers.
COUNTS = ("instances", "instances_without", "lower_on", "pool", "rollouts", "steps")
# The fields of a number, and the suffixes of their columns in `wide`.
_ENDINGS = {"value": "", "low": "_low", "high": "_high", "about": "_about"}
# Family and verdict at a K, and the column of `wide` that lists such K.
_LISTS_OF_K = {
    ("best", "highest"): "best_at",
    ("best", "tied"): "best_at",
    ("reference", "better"): "better_at",
    ("reference", "worse"): "worse_at",
}

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


class Tables(NamedTuple):
    """The numbers of a run as three DataFrames.

    `estimates` has one line for each row of the report and measure.

    | column | unit | meaning |
    |---|---|---|
    | study, environment | | the kind of study, and the environment with its sizes |
    | policy.embed_dim, ... | | one column for each key that the sweep varies |
    | estimator, baseline, n, k | | the method, the samples of a group, and K |
    | stage | steps | the training steps of the measured policy |
    | proxy | | the trajectory weight that a `correlation` is about |
    | row | | the name of the row, as in `comparisons` |
    | seeds, seeds_finished | seeds | the planned seeds, and those with a result |
    | status | | done, or incomplete: a row without all of its seeds has no number |
    | bias | | unbiased (proved), not proved, or biased |
    | measure | | the name of the number; docs/reference/tables.md lists all |
    | value, low, high | `unit` | the number and the ends of its confidence interval |
    | level | | the confidence level; 1 for an exact number |
    | about | | the interval is about fixed instances, new instances or seeds; exact has none |
    | unit | | the unit of the number; 1 for a ratio |
    | reason | | why the number or its interval is missing, or is about fixed instances |

    `comparisons` has one line for each comparison of a row with another row, or with 0.

    | column | unit | meaning |
    |---|---|---|
    | study | | the kind of study |
    | family | | best (against the lowest or highest row), best estimator, reference, or bias |
    | row, other | | the names of the rows; `other` is empty for bias, and for the best itself |
    | measure | | the number that is compared |
    | value, low, high | | the ratio or difference with its own 95 % interval |
    | about | | as in `estimates` |
    | verdict | | lowest, highest, tied, better, worse, or open where no test is possible; |
    | | | of bias: unbiased, no bias seen, scale bias, biased, alarm, reference, undefined |
    | ratio | | whether `value` is a ratio of the rows, else their difference |
    | paired | | what both numbers of a pair share, such as the seed |
    | p_adjusted | | the p-value after correction (Holm); empty for verdicts by intervals |
    | comparisons, alpha | | the comparisons that are corrected together, and their error rate |
    | fixed | | whether a tie holds for new instances only: on the fixed ones it is worse |
    | reason | | why the verdict is tied, open or undefined |

    `claims` has one line for each claim of the sweep file.

    | column | unit | meaning |
    |---|---|---|
    | name, text | | the name of the claim, and the claim in words |
    | verdict | | supported, refuted or undecided |
    | detail | | the evidence in words |
    | judged | | whether all cells of the claim have a result |
    | value, low, high, level | | the number that `detail` begins with |
    | count, of, parts | | how many of the `parts` (such as ratios) have the verdict |
    """

    estimates: pd.DataFrame
    comparisons: pd.DataFrame
    claims: pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class PooledRow:
    """One row of a report. Its `key` has a `path`, the name of the row.

    `cells` maps each planned seed to its cell id; `finished` has the seeds with a result.
    """

    key: Any
    cells: Mapping[int, str]
    finished: tuple[int, ...]

    @property
    def all_finished(self) -> bool:
        """Whether every planned seed has a result."""
        return len(self.finished) == len(self.cells)

    @property
    def unfinished(self) -> str:
        """Return how many seeds finished, in words; empty if all did."""
        if self.all_finished:
            return ""
        return f"incomplete: {len(self.finished)} of {len(self.cells)} seeds finished"

    @property
    def bias_state(self) -> str:
        """The column `bias`: unbiased (proved), not proved or biased; empty without estimates."""
        return str(getattr(self.key, "bias_state", ""))


RowType = TypeVar("RowType", bound=PooledRow, covariant=True)


@dataclass(frozen=True)
class Pooled(Generic[RowType]):
    """The rows of one kind of study in the order of the sweep, and their comparisons.

    `proxies` are rows about trajectory weights.
    """

    rows: tuple[RowType, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    proxies: tuple[PooledRow, ...] = ()


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by key, in the order of the keys' first appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def members_by_key(
    cells: Sequence[Mapping[str, Any]],
    done: Mapping[str, Record],
    key: Callable[[Mapping[str, Any]], Key],
) -> Iterator[tuple[Key, list[Mapping[str, Any]], dict[int, Record]]]:
    """Yield the key of each row, its cells by seed, and the records of the finished seeds."""
    for row_key, members in grouped(cells, key).items():
        members.sort(key=lambda cell: int(cell["seed"]))
        yield row_key, members, {c["seed"]: done[c["id"]] for c in members if c["id"] in done}


def pooled_study(
    kind: str,
    cells: Sequence[Mapping[str, Any]],
    done: Mapping[str, Record],
    *,
    level: float,
    alpha: float,
    compared: bool = False,
) -> Pooled[PooledRow]:
    """The rows of the cells of a kind with their verdicts; if `compared`, all comparisons."""
    table = STUDIES.get(kind).load_module("table")
    pooled: Pooled[PooledRow] = table.pool(cells, done, level=level, alpha=alpha)
    if hasattr(table, "judged"):
        pooled = table.judged(pooled, level=level, alpha=alpha)
    if compared and hasattr(table, "compare"):
        comparisons = tuple(table.compare(pooled, level=level, alpha=alpha))
        pooled = replace(pooled, comparisons=comparisons)
    return pooled


def rows_of_cells(records: Iterable[Record], level: float) -> dict[str, PooledRow]:
    """Return the row of every finished cell by its id, as in a report on its seed alone."""
    done = {record.cell["id"]: record for record in records if record.status == "done"}
    cells = [record.cell for record in done.values()]
    rows: dict[str, PooledRow] = {}
    for (study, _), members in grouped(cells, lambda cell: (cell["study"], cell["seed"])).items():
        pooled = pooled_study(study, members, done, level=level, alpha=0.05)
        rows |= {next(iter(row.cells.values())): row for row in pooled.rows}
    return rows


def axes(kind: str, key: Any) -> dict[str, Any]:
    """Return the place of a row: environment, varied keys, and the axes of its kind of study."""
    names = getattr(key, "axes", STUDIES.get(kind).axes)
    settings = {
        name: visible(value) if isinstance(value, str) else value
        for name, value in getattr(key, "setting", ())
    }
    values = {axis: getattr(key, axis) for axis in names}
    return {"study": kind, "environment": key.environment, **settings, **values}


def row_estimates(kind: str, row: PooledRow) -> Mapping[str, Interval]:
    """Return the numbers of a row by the names of their measures."""
    estimates: Mapping[str, Interval] = STUDIES.get(kind).load_module("table").estimates(row)
    return estimates


def number_lines(
    place: Mapping[str, Any], estimates: Mapping[str, Interval], reason: str = ""
) -> Iterator[dict[str, Any]]:
    """The lines of a row or cell at its `place`; without estimates a line with the `reason`."""
    if not estimates:
        yield {**place, **_number(undefined(float("nan"), reason))}
    for name, interval in estimates.items():
        column = described(name)
        unit = "" if column is None else column.unit
        yield {**place, "measure": name, "unit": unit, **_number(interval)}


def _number(interval: Interval) -> dict[str, Any]:
    return {
        "value": interval.value,
        "low": interval.low,
        "high": interval.high,
        "level": interval.level,
        "about": interval.question,
        "reason": interval.reason,
    }


def estimate_lines(studies: Mapping[str, Pooled[PooledRow]]) -> Iterator[dict[str, Any]]:
    """Yield the lines of `estimates` for every row of a report, in reading order."""
    for kind, pooled in studies.items():
        ordered = getattr(STUDIES.get(kind).load_module("table"), "sorted_rows", tuple)
        for row in (*ordered(pooled.rows), *pooled.proxies):
            place = axes(kind, row.key) | {
                "row": row.key.path,
                "seeds": len(row.cells),
                "seeds_finished": len(row.finished),
                "status": "done" if row.all_finished else "incomplete",
                "bias": row.bias_state,
            }
            estimates = row_estimates(kind, row) if row.all_finished else {}
            yield from number_lines(place, estimates, row.unfinished)


def frame(
    lines: Sequence[Mapping[str, Any]], whose: Sequence[str], first: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the lines of `estimates` as a DataFrame; `whose` are the columns of a row or cell."""
    import pandas as pd

    kinds = [kind for kind in STUDIES if any(line["study"] == kind.name for line in lines)]
    names = dict.fromkeys(name for line in lines for name in line)
    grid = [axis for kind in kinds for axis in kind.axes]
    grid = list(dict.fromkeys([*grid, *(name for name in names if name == "proxy")]))
    fixed = {"study", "environment", *first, *whose, *NUMBER, *grid}
    settings = [name for name in names if name not in fixed]
    columns = [*first, "study", "environment", *settings, *grid, *whose, *NUMBER]
    table = pd.DataFrame.from_records(list(lines), columns=columns)
    for name in (*settings, *grid):
        # Missing values would turn whole numbers into floats.
        if all(type(line.get(name, 0)) is int for line in lines):
            table[name] = table[name].astype("Int64")
    return table


def make_tables(studies: Mapping[str, Pooled[PooledRow]], claims: Sequence[ClaimVerdict]) -> Tables:
    """Return the three tables of the rows of all kinds of study, and of the verdicts on claims."""
    import pandas as pd

    comparisons = [
        {"study": kind, **comparison.as_dict()}
        for kind, pooled in studies.items()
        for comparison in pooled.comparisons
    ]
    return Tables(
        frame(list(estimate_lines(studies)), ROWS),
        pd.DataFrame(comparisons, columns=["study", *COMPARISON], dtype=object),
        pd.DataFrame([claim.as_dict() for claim in claims], columns=CLAIM, dtype=object),
    )


def wide(tables: Tables) -> pd.DataFrame:
    """Return one line for each row of the report: its axes, numbers with ends, and verdicts.

    A number `variance` has the columns variance, variance_low, variance_high and variance_about.
    `verdict` (lowest, tied, worse or open) is about the variance of the row, `bias_test` and
    `bias_p` about its bias. `best_at`, `better_at` and `worse_at` list the K of trained rows.
    `reason` has the reasons of all numbers.
    """
    import pandas as pd

    index, estimates = list(NAME), tables.estimates
    places = estimates.drop(columns=list(NUMBER)).drop_duplicates(index).set_index(index)
    numbers = estimates[estimates.measure.notna()]
    sampled = set(numbers.measure[numbers.about != EXACT])
    parts = numbers.pivot(index=index, columns="measure", values=list(_ENDINGS))
    columns = {
        f"{name}{ending}": parts[column, name].infer_objects()
        for name in numbers.measure.unique()
        for column, ending in _ENDINGS.items()
        if column == "value" or name in sampled
    }
    columns |= {name: columns[name].astype("Int64") for name in COUNTS if name in columns}
    places = places.join(_row_verdicts(tables.comparisons), on=["study", "row"])
    reasons = estimates[estimates.reason.astype(bool)].groupby(index).reason
    reason = reasons.agg(lambda each: "; ".join(dict.fromkeys(each)))
    return places.join(pd.DataFrame(columns, index=parts.index)).join(reason).reset_index()


def _row_verdicts(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Return the verdicts of each row by study and row, as `wide` describes them."""
    import pandas as pd

    verdicts: dict[tuple[str, str], dict[str, Any]] = {}
    for line in comparisons.to_dict("records"):
        row = verdicts.setdefault((line["study"], line["row"]), {})
        k = line["measure"].partition("@")[2]
        name = _LISTS_OF_K.get((line["family"], line["verdict"])) if k else None
        if line["family"] == "bias":
            row |= {"bias_test": line["verdict"], "bias_p": line["p_adjusted"]}
        elif name is not None:
            row[name] = f"{row[name]}, {k}" if name in row else k
        elif line["family"] == "best" and not k:
            row["verdict"] = line["verdict"]
    index = pd.MultiIndex.from_arrays(
        [[study for study, _ in verdicts], [row for _, row in verdicts]]
    )
    return pd.DataFrame(list(verdicts.values()), index=index)
