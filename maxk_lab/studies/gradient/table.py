"""Rows of a gradient study with their verdicts on bias, and the comparisons of a report.

The families of the correction are: the baselines of each place against the lowest, the estimators
of each gradient against the lowest, baselines against none, and the tests of bias.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from maxk_lab.reports.naming import NOT_PROVED
from maxk_lab.reports.tables import Pooled, grouped
from maxk_lab.statistics.bias import BiasVerdict, bias_verdicts
from maxk_lab.statistics.families import Comparison, Family
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.log_ratios import (
    RARE_GROUPS,
    typical_ratio,
)
from maxk_lab.studies.gradient.claims import judge as judge
from maxk_lab.studies.gradient.contests import (
    Contest,
    candidate_groups,
    compared,
    comparison_line,
    contests,
    ratio,
    variance,
)
from maxk_lab.studies.gradient.pool import estimates as estimates
from maxk_lab.studies.gradient.pool import key as key
from maxk_lab.studies.gradient.pool import pool as pool
from maxk_lab.studies.gradient.pool import sorted_rows as sorted_rows
from maxk_lab.studies.gradient.row import (
    FOUND_BIASED,
    GradientKey,
    GradientRow,
    OverLeast,
    is_oracle,
)

# The lower bound of all symmetric baselines.
_OPTIMUM = "joint_optimum"
# More pairs than this would take too long.
_PAIRS = 2000
ALARM = (
    "rejected although proven unbiased: the pool misses trajectories that carry the gradient, or "
    "sampling is not i.i.d."
)


def judged(pooled: Pooled[GradientRow], *, level: float, alpha: float) -> Pooled[GradientRow]:
    """Return the rows with their verdicts on bias, their ratios to others, and the lowest marked.

    `best` is set on at most one row of a contest: the row that is significantly lower than every
    other candidate (`comparison_line`). The level is Bonferroni over all comparisons of the sweep,
    so the probability of any wrong mark is at most `alpha`. Without a known lowest there is no
    mark.

    Every row of the group has its ratio to the lowest, and to the joint optimum of the same
    environment, setting, stage, n and objective. A row derived biased has no ratio to the joint
    optimum: a shorter or wrong gradient may have less variance.
    """
    units = {row.key: row.units for row in pooled.rows if row.units}
    verdicts = bias_verdicts(units, alpha=alpha)
    rows = [
        replace(row, bias=_verdict(row, verdicts.get(row.key, row.bias))) for row in pooled.rows
    ]
    rivals = contests(rows)
    family = _family_of_best(rivals, alpha)
    groups = grouped(rows, lambda row: row.key.group)
    over: dict[GradientKey, OverLeast] = {}
    best: set[GradientKey] = set()
    for contest in rivals:
        if (least := contest.least) is None:
            continue
        lines = {row.key: comparison_line(family, row, least, level) for row in contest.others}
        if all(line.verdict == "worse" for line in lines.values()):
            best.add(least.key)
        for row in groups[least.key.group]:
            if row is not least and row.units is not None:
                line = lines.get(row.key) or compared(family, row, least, level)
                over[row.key] = _over_least(row, least, line)
    for row, least in _not_proved(rows, over):
        over[row.key] = _over_least(row, least, compared(family, row, least, level))
    optima = {
        (row.key.gradient, row.key.n): row
        for row in rows
        if row.key.method.baseline.row.name == _OPTIMUM
    }
    return replace(
        pooled,
        rows=tuple(
            replace(
                row,
                best=row.key in best,
                over_least=over.get(row.key),
                over_best=_over_best(row, optima.get((row.key.gradient, row.key.n)), level),
            )
            for row in rows
        ),
    )


def _over_least(row: GradientRow, least: GradientRow, line: Comparison) -> OverLeast:
    """Return the variance over the lowest; no median if groups that decide it are missing."""
    assert row.units is not None
    assert least.units is not None
    level = line.interval.level
    typical = typical_ratio(row.units, least.units, level=level)
    if line.interval.reason == RARE_GROUPS:
        typical = replace(typical, median=undefined(level, RARE_GROUPS))
    return OverLeast(least.key.baseline, line, typical)


def _not_proved(
    rows: Sequence[GradientRow], over: Mapping[GradientKey, OverLeast]
) -> Iterator[tuple[GradientRow, GradientRow]]:
    """Yield the user's own rows without a ratio, each with the lowest unbiased row.

    Both estimate one gradient with the same n.
    """
    groups = grouped(rows, lambda row: (row.key.gradient, row.key.n)).values()
    for group in groups:
        fair = [
            row
            for row in group
            if row.catalogued_unbiased and row.units is not None and not is_oracle(row)
        ]
        for row in group:
            if row.units is not None and row.bias_state == NOT_PROVED and row.key not in over:
                yield from ((row, least) for least in sorted(fair, key=variance)[:1])


def _verdict(row: GradientRow, verdict: BiasVerdict) -> BiasVerdict:
    """Return the verdict on a row; rejecting a method with a proof of unbiasedness is an alarm.

    If enumeration proves a bias, the derivation itself is refuted.
    """
    if not row.catalogued_unbiased or row.enumerated or verdict.verdict not in FOUND_BIASED:
        return verdict
    return replace(verdict, verdict="alarm", reason=ALARM)


def _over_best(row: GradientRow, optimum: GradientRow | None, level: float) -> Interval | None:
    if optimum is None or not row.catalogued_unbiased:
        return None
    if row.key == optimum.key:
        return Interval(1.0, 1.0, 1.0, level)
    if row.units is None or optimum.units is None:
        return undefined(level, (row if row.units is None else optimum).bias.reason)
    return ratio(row, optimum, level)


def _family_of_best(rivals: Sequence[Contest], alpha: float) -> Family:
    return Family("best", sum(max(0, len(contest.candidates) - 1) for contest in rivals), alpha)


def compare(pooled: Pooled[GradientRow], *, level: float, alpha: float) -> Iterator[Comparison]:
    """Yield the lines of every family, each with its uncorrected interval at `level`.

    Families: the baselines of each contest against the lowest; the unbiased rows of other
    estimators of one gradient, at one n, against the lowest of all; baselines with more variance
    than no baseline; the bias of every row against 0, relative to the length of the gradient.
    """
    rows, rivals = pooled.rows, contests(pooled.rows)
    for contest in rivals:
        lines = [row.over_least.line for row in contest.candidates if row.over_least is not None]
        yield from lines
        if contest.least is not None:
            yield Comparison(
                "best",
                contest.least.key.path,
                "",
                "variance",
                Interval(1.0, 1.0, 1.0, level),
                "lowest" if contest.least.best else "tied",
                ratio=True,
                comparisons=lines[0].comparisons,
                alpha=alpha,
            )
    pairs = [
        (row, several.least)
        for several in candidate_groups(rows, lambda row: (row.key.gradient, row.key.n))
        for row in several.candidates
        if several.least is not None and row.key.estimator != several.least.key.estimator
    ]
    family = Family("best estimator", len(pairs), alpha)
    yield from (comparison_line(family, *pair, level) for pair in pairs)
    pairs = [
        (row, none)
        for contest in rivals
        for none in contest.candidates
        for row in contest.candidates
        if none.key.baseline == "none" and row is not none and row.units and none.units
    ]
    family = Family("reference", len(pairs), alpha)
    # For most baselines the mean alone shows less variance than none, without an interval.
    more = [pair for pair in pairs[:_PAIRS] if variance(pair[0]) > variance(pair[1])]
    yield from (comparison_line(family, *pair, level) for pair in more)
    tested = sum(not math.isnan(row.bias.p_value) for row in rows)
    for row in rows:
        bias = row.bias
        yield Comparison(
            "bias",
            row.key.path,
            "",
            "relative_bias",
            Interval(bias.relative_bias, math.nan, bias.at_most, 1 - alpha),
            bias.verdict,
            p_adjusted=bias.p_value,
            reason=bias.reason,
            comparisons=tested,
            alpha=alpha,
        )
