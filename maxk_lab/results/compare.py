"""Compare run B with run A: rows matched by key, a verdict for each number."""

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

VERDICTS = ("worse", "better", "differs", "not significant", "tied", "identical")
# A difference below this share of A's number does not matter.
TIE = 0.01
# Rounding moves a number by less than this share of the largest number of its unit in the row.
ROUNDING = 1e-9
PLACE = list(NAME)
KEY = [*PLACE, "measure"]
COLUMNS = [
    *(*KEY, "unit", "better", "a", "a_low", "a_high", "b", "b_low", "b_high"),
    *("difference", "low", "high", "level", "verdict", "reason"),
]
# Counts, and numbers that compare a row with another row of its run.
_NOT_COMPARED = re.compile(
    "instances|instances_without|pool|steps|rollouts|effective_instances_.*|lower_on|bias_at_most"
    "|detectable_bias|(median_)?over_.*|(.*_)?difference(@.*|_.*)?|improvement"
)
# Verdicts of a test that exclude each other.
_REVERSALS = ({"lowest", "worse"}, {"highest", "worse"}, {"better", "worse"})
_CLAIMS = ("refuted", "undecided", "supported")


@dataclass(frozen=True, repr=False)
class Comparison:
    """Run B compared with run A: every number with a verdict.

    `changes` are lines on what differs between the runs. `numbers` has a line for each row and
    measure of both runs, with these columns after its study, environment, row, measure and unit.

    | column | meaning |
    |---|---|
    | better | the better side, lower or higher; empty if neither side is better |
    | a, a_low, a_high, b, b_low, b_high | the number in A and in B with its 95 % interval |
    | difference, low, high, level | B − A; its interval is corrected for all comparisons |
    | verdict | worse, better, differs, not significant, tied or identical |
    | reason | why the number cannot differ significantly |

    `findings` has the rows, claims and verdicts of tests that are not the same in both runs: kind,
    name, a, b, and state (worse, lost, redefined or changed). `tests` counts the numbers that
    verdicts are corrected for, at the error rate `alpha`.
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
        """The comparison as terminal, markdown, csv or json. Raises `LabError` for another."""
        from maxk_lab.results.text import comparison_text

        return comparison_text(self, format)

    @property
    def verdicts(self) -> dict[str, int]:
        """How many numbers have each verdict."""
        return {verdict: int((self.numbers.verdict == verdict).sum()) for verdict in VERDICTS}

    @property
    def worse(self) -> bool:
        """Whether a number or the verdict on a claim is worse."""
        return self.verdicts["worse"] > 0 or "worse" in set(self.findings.state)

    @property
    def missing(self) -> bool:
        """Whether B lacks results of A, or claims that A supports."""
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
    """Compare run `b` with run `a`: what is identical, tied, better, worse, new or gone.

    Both are names of runs under `results`, folders or bundles. Rows are matched by study,
    environment and name. Numbers that are equal up to rounding are identical, and a difference
    below 1 % of A's number is a tie. With equal seeds, the intervals of both runs decide; with
    other seeds, an exact rank test over the seeds. Verdicts are corrected for all numbers that
    differ (Bonferroni), at the error rate `alpha`.

    `where` selects rows, as in "k=8,baseline=centred", and `measures` numbers by name: with fewer
    comparisons, smaller differences are significant. Raises `LabError` for unknown runs, rows or
    measures.
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
    """The numbers that both runs have, with the columns of A ending in `_a`, of B in `_b`."""
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
    """The numbers of these measures, all if none is named."""
    names = [measures] if isinstance(measures, str) else list(measures)
    present = list(pairs.measure.unique())
    for name in names:
        if name not in present:
            also = f"{did_you_mean(str(name), present)}; they have {', '.join(present) or 'none'}"
            raise MistakeError(f"no row of both runs has the measure {shown(name)}{also}")
    return pairs[pairs.measure.isin(names)].reset_index(drop=True) if names else pairs


def _judged(runs: Sequence[ReadRun], pairs: pd.DataFrame, alpha: float) -> tuple[pd.DataFrame, int]:
    """The numbers with their verdicts, and how many comparisons the verdicts are corrected for."""
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
    """The ends of the intervals of B − A, from the intervals of both runs at a level.

    Source: Zou and Donner 2008, for independent numbers; wider than needed where runs share draws.
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
    """The verdict on a number, and why the number cannot differ significantly.

    `line` has value_a, value_b, better, rounding, and other_draws: with other draws `p_value`
    decides, else the ends `low` and `high` of B − A.
    """
    a, b, low, high = (line[name] for name in ("value_a", "value_b", "low", "high"))
    slack = max(TIE * abs(a), line["rounding"])
    if abs(a - b) <= line["rounding"]:
        return "identical", ""
    if math.isnan(a) or math.isnan(b):
        return "not significant", f"undefined in {'A' if math.isnan(a) else 'B'}"
    if line["other_draws"] and math.isnan(line["p_value"]):
        return "not significant", f"a test needs {least_seeds(alpha)} seeds in each run"
    if not line["other_draws"] and (math.isnan(low) or math.isnan(high)):
        return "not significant", "no interval in A or B"
    if -slack <= low and high <= slack:
        return "tied", ""
    if low <= 0 <= high or line["p_value"] >= alpha:
        return "not significant", ""
    if not line["better"]:
        return "differs", ""
    return ("better" if (b > a) == (line["better"] == "higher") else "worse"), ""


def rank_p_value(a: Sequence[float], b: Sequence[float], rounding: float) -> float:
    """The two-sided p-value of Mann and Whitney's exact test; ties count against a difference.

    NaN if a value is undefined. Without a difference, every order of all values is as likely.
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
    """Return P(U >= u), u = 0..n m, of the pairs with x > y among n x and m y in random order.

    Counted by the largest value: an x above all y, or a y.
    """
    counts = {(0, j): [1] for j in range(m + 1)} | {(i, 0): [1] for i in range(n + 1)}
    for i, j in product(range(1, n + 1), range(1, m + 1)):
        x_last, y_last = [0] * j + counts[i - 1, j], counts[i, j - 1]
        counts[i, j] = [sum(both) for both in zip_longest(x_last, y_last, fillvalue=0)]
    orders = [*accumulate(reversed(counts[n, m]))]
    return [number / orders[-1] for number in reversed(orders)]


def least_seeds(alpha: float) -> int:
    """The seeds of two runs with which the rank test can be significant at the level `alpha`."""
    return next(seeds for seeds in count(2) if 2 / math.comb(2 * seeds, seeds) < alpha)


def _findings(runs: Sequence[ReadRun], tables: Sequence[Tables], other_seeds: bool) -> pd.DataFrame:
    """The rows, claims and verdicts that are not the same in both runs; see `Comparison`.

    With other seeds another verdict on a claim does not make B worse.
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
    """Yield ((kind, name), (words, what decides)) for each row, claim and comparison."""
    for row in tables.estimates.drop_duplicates(PLACE).itertuples():
        words = f"{row.seeds_finished} of {row.seeds} seeds"
        yield ("row", f"{row.study} {row.environment} {row.row}"), (words, row.seeds_finished)
    defined = {claim.name: claim for claim in run.plan.spec.claims}
    for claim in tables.claims.itertuples():
        yield ("claim", str(claim.name)), (str(claim.verdict), defined[str(claim.name)])
    for line in tables.comparisons.itertuples():
        yield (str(line.family), f"{line.row} {line.measure}"), (str(line.verdict), None)
