"""Compare run B with run A: match rows by key, and give each number a verdict."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, count, product, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import MistakeError, shown
from maxk_lab.reports.selection import part_of
from maxk_lab.reports.tables import NAME, Tables
from maxk_lab.results.changes import changes
from maxk_lab.results.frame import ReadRun, Run, check_share, find, names_of
from maxk_lab.statistics.measures import described

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = ("worse", "better", "differs", "not significant", "equivalent", "identical")
# Differences within this share of the number of A are equivalent.
EQUIVALENT = 0.01
# Rounding errors are below this share of the largest number with the same unit in the row.
ROUNDING = 1e-9
PLACE = list(NAME)
KEY = [*PLACE, "measure"]
COLUMNS = [
    *(*KEY, "unit", "better", "a", "a_low", "a_high", "b", "b_low", "b_high"),
    *("difference", "low", "high", "level", "verdict", "reason"),
]
# Counts, and numbers that compare two rows of one run.
_NOT_COMPARED = re.compile(
    "instances|instances_without|pool|steps|rollouts|effective_instances_.*|lower_on|bias_at_most"
    "|detectable_bias|(median_)?over_.*|(.*_)?difference(@.*|_.*)?|improvement"
)
# Contradicting verdicts of a test.
_REVERSALS = ({"lowest", "worse"}, {"highest", "worse"}, {"better", "worse"})
_CLAIMS = ("refuted", "undecided", "supported")


@dataclass(frozen=True, repr=False)
class Comparison:
    """The comparison of run B with run A: every number with a verdict.

    `changes` are lines about differences between the sweeps and origins of the runs. `numbers` has
    a line for each row and measure of both runs. Its first columns are study, environment, row,
    measure and unit; then:

    | column | meaning |
    |---|---|
    | better | the better side, lower or higher; empty if neither side is better |
    | a, a_low, a_high, b, b_low, b_high | the number in A and in B, with 95 % intervals |
    | difference, low, high, level | B − A; its interval is corrected for all comparisons |
    | verdict | worse, better, differs, not significant, equivalent or identical |
    | reason | why the number cannot differ significantly |

    `findings` has the rows, claims and verdicts of tests that differ between the runs. Its columns
    are kind, name, a, b, and state (worse, lost, redefined or changed). `tests` counts the
    comparisons in the correction of the verdicts, at the error rate `alpha`.
    """

    names: tuple[str, ...]
    changes: tuple[str, ...]
    numbers: pd.DataFrame
    findings: pd.DataFrame
    tests: int
    alpha: float

    def __repr__(self) -> str:
        counts = [f"{number} {verdict}" for verdict, number in self.verdicts.items() if number]
        return f"<Comparison of {' and '.join(self.names)}: {', '.join(counts) or 'no number'}>"

    def _repr_markdown_(self) -> str:
        return self.to("markdown")

    def to(self, format: str) -> str:
        """Return the comparison as terminal, markdown, csv or json.

        Raises `LabError` for another format.
        """
        from maxk_lab.results.text import comparison_text

        return comparison_text(self, format)

    @property
    def verdicts(self) -> dict[str, int]:
        """The count of numbers by verdict."""
        return {verdict: int((self.numbers.verdict == verdict).sum()) for verdict in VERDICTS}

    @property
    def worse(self) -> bool:
        """Whether a number or a claim's verdict is worse in B."""
        return self.verdicts["worse"] > 0 or "worse" in set(self.findings.state)

    @property
    def missing(self) -> bool:
        """Whether B lacks results or supported claims of A."""
        return "lost" in set(self.findings.state)

    @property
    def changed(self) -> bool:
        """Whether a number, row or claim of one run is not identical in the other."""
        return self.verdicts["identical"] < len(self.numbers) or len(self.findings) > 0


def compare(
    a: Run,
    b: Run,
    *,
    where: str | None = None,
    measures: str | Iterable[str] = (),
    alpha: float = 0.05,
    results: str | os.PathLike[str] = "results",
) -> Comparison:
    """Compare run `b` with run `a`, with a verdict for each number.

    Runs are names under `results`, folders or bundles. Rows are matched by study, environment and
    name. Numbers equal up to rounding are identical. They are equivalent if the whole interval of
    the difference is within 1 % of the number of A. If both runs have the same seeds, the intervals
    decide. If the seeds or the number of instances differ, an exact rank test over the seeds
    decides. Verdicts are corrected for all numbers that differ (Bonferroni), at the error rate
    `alpha`.

    `where` selects rows, as in "k=8,baseline=centred"; `measures` selects numbers by name. With
    fewer comparisons, smaller differences are significant. Raises `LabError` for unknown runs, rows
    or measures.
    """
    check_share("alpha", alpha, such_as=0.05)
    directories = [find(run, results) for run in (a, b)]
    runs = [ReadRun(directory) for directory in directories]
    reports = [run.report(0.95) for run in runs]
    tables = [
        part_of(report, run.plan, where=where).tables
        for run, report in zip(runs, reports, strict=True)
    ]
    seeds = [{cell.seed for cell in run.plan.cells} for run in runs]
    pairs = _chosen(_matched(tables), measures)
    pairs["other_draws"] |= seeds[0] != seeds[1]
    numbers, tests = _judged(runs, pairs, alpha)
    return Comparison(
        names=tuple(names_of([a, b], directories)),
        changes=changes([run.plan.spec for run in runs], [report.origin for report in reports]),
        numbers=numbers,
        findings=_findings(runs, tables, seeds[0] != seeds[1]),
        tests=tests,
        alpha=alpha,
    )


def _matched(tables: Sequence[Tables]) -> pd.DataFrame:
    """Return the numbers of both runs, matched; columns of A end in `_a`, of B in `_b`."""
    sides = []
    for table in tables:
        lines = table.estimates[table.estimates.measure.notna()]
        size = lines.value.abs().groupby([lines.study, lines.row, lines.unit]).transform("max")
        lines = lines.assign(size=size.where(lines.unit != "1", lines.value.abs()))
        instances = lines[lines.measure == "instances"].set_index(PLACE).value.rename("instances")
        sides.append(lines.join(instances, on=PLACE))
    pairs = sides[0].merge(sides[1], on=KEY, suffixes=("_a", "_b"))
    columns = {name: described(name) for name in pairs.measure.unique()}
    names = [name for name in columns if columns[name] and not _NOT_COMPARED.fullmatch(name)]
    defined = pairs.value_a.notna() | pairs.value_b.notna()
    pairs = pairs[pairs.measure.isin(names) & defined].reset_index(drop=True)
    return pairs.assign(
        better=[getattr(columns[name], "better", "") for name in pairs.measure],
        # The last term is the rounding of sums near 0.
        rounding=ROUNDING * pairs[["size_a", "size_b"]].max(axis=1) + 1e-12,
        other_draws=pairs.instances_a.fillna(0) != pairs.instances_b.fillna(0),
    )


def _chosen(pairs: pd.DataFrame, measures: str | Iterable[str]) -> pd.DataFrame:
    """Return the numbers of the measures; all numbers if `measures` is empty."""
    names = [measures] if isinstance(measures, str) else list(measures)
    present = list(pairs.measure.unique())
    for name in names:
        if name not in present:
            also = f"{did_you_mean(str(name), present)}; they have {', '.join(present) or 'none'}"
            raise MistakeError(f"no row of both runs has the measure {shown(name)}{also}")
    return pairs[pairs.measure.isin(names)].reset_index(drop=True) if names else pairs


def _judged(runs: Sequence[ReadRun], pairs: pd.DataFrame, alpha: float) -> tuple[pd.DataFrame, int]:
    """Return the numbers with verdicts, and the number of comparisons in the correction."""
    difference = pairs.value_b - pairs.value_a
    differ = difference.abs() > pairs.rounding
    tests = int(differ.sum())
    alpha /= max(tests, 1)
    low, high = _difference_ends(runs, pairs, 1 - alpha)
    lines = pairs.assign(difference=difference, low=low, high=high, level=1 - alpha, p_value=np.nan)
    lines.loc[lines.other_draws, ["low", "high"]] = np.nan
    enough = pairs[["seeds_a", "seeds_b"]].min(axis=1) >= least_seeds(alpha)
    if (tested := differ & lines.other_draws & enough).any():
        by_seed = [run.cells(0.95).dropna(subset="measure").groupby(KEY).value for run in runs]
        values = [lines[KEY].join(group.agg(list), on=KEY).value for group in by_seed]
        for i in lines.index[tested]:
            lines.loc[i, "p_value"] = rank_p_value(values[0][i], values[1][i], lines.rounding[i])
    verdicts = [verdict(line, alpha) for line in lines.to_dict("records")]
    lines[["verdict", "reason"]] = verdicts or np.empty((0, 2), str)
    names = {"value_a": "a", "value_b": "b", "unit_a": "unit"}
    names |= {f"{end}_{run}": f"{run}_{end}" for run in "ab" for end in ("low", "high")}
    return lines.rename(columns=names)[COLUMNS], tests


def _difference_ends(
    runs: Sequence[ReadRun], pairs: pd.DataFrame, level: float
) -> tuple[pd.Series[float], pd.Series[float]]:
    """Return the ends of the intervals of B − A, from the intervals of both runs at a level.

    Source: Zou and Donner 2008, for independent numbers; too wide if the runs share draws.
    """
    ends = [
        pairs[KEY].join(run.estimates(level).dropna(subset="measure").set_index(KEY), on=KEY)
        for run in runs
    ]
    a, b = pairs.value_a, pairs.value_b
    below = np.hypot(b - ends[1].low, ends[0].high - a)
    above = np.hypot(ends[1].high - b, a - ends[0].low)
    return b - a - below, b - a + above


def verdict(line: Mapping[Any, Any], alpha: float) -> tuple[str, str]:
    """Return the verdict on a number, and the reason if no significant verdict is possible.

    `line` has value_a, value_b, better, rounding and other_draws. If the draws differ, `p_value`
    decides, else the ends `low` and `high` of the interval of B − A.
    """
    a, b, low, high = (line[name] for name in ("value_a", "value_b", "low", "high"))
    slack = max(EQUIVALENT * abs(a), line["rounding"])
    if abs(a - b) <= line["rounding"]:
        return "identical", ""
    if math.isnan(a) or math.isnan(b):
        return "not significant", f"undefined in {'A' if math.isnan(a) else 'B'}"
    if line["other_draws"] and math.isnan(line["p_value"]):
        return "not significant", f"a test needs {least_seeds(alpha)} seeds in each run"
    if not line["other_draws"] and (math.isnan(low) or math.isnan(high)):
        return "not significant", "no interval in A or B"
    if -slack <= low and high <= slack:
        return "equivalent", ""
    if low <= 0 <= high or line["p_value"] >= alpha:
        return "not significant", ""
    if not line["better"]:
        return "differs", ""
    return ("better" if (b > a) == (line["better"] == "higher") else "worse"), ""


def rank_p_value(a: Sequence[float], b: Sequence[float], rounding: float) -> float:
    """Return the two-sided p-value of Mann and Whitney's exact test; NaN if a value is undefined.

    Values closer than `rounding` count against a difference.
    """
    if np.isnan([*a, *b]).any():
        return math.nan
    tails = _rank_tails(len(a), len(b))
    pairs = ((np.add(b, -rounding), a), (a, np.add(b, rounding)))
    one_sided = (
        tails[int(np.greater.outer(x, y).sum() + np.equal.outer(x, y).sum() / 2)] for x, y in pairs
    )
    return min(1.0, 2 * min(one_sided))


@lru_cache
def _rank_tails(n: int, m: int) -> list[float]:
    """Return P(U >= u) for u = 0..n m; U counts the pairs x > y of n x and m y in random order.

    The recurrence splits the orders by the largest value: x or y.
    """
    counts = {(0, j): [1] for j in range(m + 1)} | {(i, 0): [1] for i in range(n + 1)}
    for i, j in product(range(1, n + 1), range(1, m + 1)):
        x_last, y_last = [0] * j + counts[i - 1, j], counts[i, j - 1]
        counts[i, j] = [sum(both) for both in zip_longest(x_last, y_last, fillvalue=0)]
    orders = [*accumulate(reversed(counts[n, m]))]
    return [number / orders[-1] for number in reversed(orders)]


def least_seeds(alpha: float) -> int:
    """Return the fewest seeds of each run for which the rank test can reach the level `alpha`."""
    return next(seeds for seeds in count(2) if 2 / math.comb(2 * seeds, seeds) < alpha)


def _findings(runs: Sequence[ReadRun], tables: Sequence[Tables], other_seeds: bool) -> pd.DataFrame:
    """Return the rows, claims and verdicts that differ between the runs; see `Comparison`.

    If the seeds differ, a lower verdict on a claim does not make B worse.
    """
    import pandas as pd

    a, b = (dict(_statements(*each)) for each in zip(runs, tables, strict=True))
    lines = []
    for kind, name in {**a, **b}:
        (before, *of_a), (after, *of_b) = (run.get((kind, name), ("absent", 0)) for run in (a, b))
        both, state = "absent" not in (before, after), "changed"
        if kind == "row":
            state = "lost" if of_a > of_b else state
        elif kind == "claim":
            redefined = both and of_a != of_b
            if before == "supported" and (redefined or not both):
                state = "lost"
            elif redefined:
                state = "redefined"
            elif both and not other_seeds and _CLAIMS.index(after) < _CLAIMS.index(before):
                state = "worse"
        elif {before, after} not in _REVERSALS and not after == "alarm" != before:
            continue
        if before != after or state in ("lost", "redefined"):
            lines.append((kind, name, before, after, state))
    return pd.DataFrame(lines, columns=["kind", "name", "a", "b", "state"])


def _statements(run: ReadRun, tables: Tables) -> Iterator[tuple[tuple[str, str], tuple[str, Any]]]:
    """Yield ((kind, name), (text, compared value)) for each row, claim and test."""
    for row in tables.estimates.drop_duplicates(PLACE).itertuples():
        words = f"{row.seeds_finished} of {row.seeds} seeds"
        yield ("row", f"{row.study} {row.environment} {row.row}"), (words, row.seeds_finished)
    defined = {claim.name: claim for claim in run.plan.spec.claims}
    for claim in tables.claims.itertuples():
        yield ("claim", str(claim.name)), (str(claim.verdict), defined[str(claim.name)])
    for line in tables.comparisons.itertuples():
        yield (str(line.family), f"{line.row} {line.measure}"), (str(line.verdict), None)
