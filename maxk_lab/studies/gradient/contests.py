"""Paired comparisons of gradient rows, and contests of baselines for the lowest variance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from maxk_lab.reports.tables import grouped
from maxk_lab.statistics.families import Comparison, Family
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.log_ratios import (
    RARE_ALONE,
    RARE_GROUPS,
    UNPAIRED,
    log_ratio,
    stays_less,
    typical_ratio,
)
from maxk_lab.statistics.measures import NEW, Question
from maxk_lab.studies.gradient.row import (
    FOUND_BIASED,
    ROUNDED,
    GradientRow,
    is_oracle,
)

# A larger exponential overflows.
_MOST = 700.0
# Reasons why two rows are not significantly different: their variances are equal up to rounding,
# ...
SAME = "equal on every instance"
FEW = "too few effective instances to speak of new ones"


@dataclass(frozen=True)
class Contest:
    """The unbiased baselines of one estimator at one size, setting and stage, without oracles."""

    rows: tuple[GradientRow, ...]

    @cached_property
    def candidates(self) -> list[GradientRow]:
        """The rows that were not found biased."""
        return [row for row in self.rows if row.bias.verdict not in FOUND_BIASED]

    @cached_property
    def least(self) -> GradientRow | None:
        """The candidate of lowest variance; None if there is nothing to compare.

        It is also None if a row is unfinished, because this row might be the lowest.
        """
        variances = [variance(row) for row in self.candidates]
        if len(variances) < 2 or any(map(math.isnan, variances)):
            return None
        return min(self.candidates, key=variance)

    @property
    def others(self) -> list[GradientRow]:
        """The other candidates, by their variance."""
        return sorted((row for row in self.candidates if row is not self.least), key=variance)

    @property
    def undecided(self) -> list[GradientRow]:
        """The rows that neither equal the lowest nor differ significantly from it."""
        return [row for row in self.others if _reason(row) not in ("", SAME)]

    @property
    def lowest(self) -> tuple[str, ...]:
        """The lowest and the rows that equal it on every instance, in catalogue order."""
        same = (row for row in self.candidates if row is self.least or _reason(row) == SAME)
        return tuple(row.key.baseline for row in same)

    @property
    def all_equal(self) -> bool:
        """Whether all rows are equal on every instance."""
        return len(self.lowest) == len(self.candidates)

    @cached_property
    def close(self) -> list[GradientRow]:
        """The lowest, and the rows close to it.

        A row is close if neither the corrected test nor its own interval shows more variance. A
        tied row far above the lowest is not close, even with few instances.
        """
        if self.least is None:
            return []
        return [
            self.least,
            *(row for row in self.others if row.over_least and row.over_least.close),
        ]

    @property
    def decided(self) -> bool:
        """Whether the `lowest` differ significantly from all other candidates."""
        return not self.undecided and not self.all_equal

    @property
    def fixed_only(self) -> bool:
        """Whether it is decided for the fixed instances only."""
        lines = [row.over_least.line for row in self.undecided if row.over_least is not None]
        return bool(lines) and all(line.fixed for line in lines)


def contests(rows: Sequence[GradientRow]) -> list[Contest]:
    """Return the contests of at least two baselines, in the order of the rows."""
    return candidate_groups(rows, lambda row: row.key.group)


def candidate_groups(
    rows: Sequence[GradientRow], key: Callable[[GradientRow], Any]
) -> list[Contest]:
    """Return the rows that are unbiased by formula and usable in training, by group."""
    fair = (row for row in rows if row.catalogued_unbiased and not is_oracle(row))
    return [Contest(tuple(group)) for group in grouped(fair, key).values() if len(group) > 1]


def simplest(rows: Sequence[GradientRow]) -> GradientRow:
    """The recommended one of close rows: the first in the catalogue that needs rewards alone.

    If no row needs rewards alone, return the first row.
    """
    simple = [row for row in rows if row.key.method.needs_rewards_alone]
    return min(simple, key=lambda row: row.key.method.catalogue_order) if simple else rows[0]


def ratio(
    row: GradientRow,
    partner: GradientRow,
    level: float,
    measure: str = "variance",
    about: Question | None = None,
    *,
    alike: bool = False,
) -> Interval:
    """Return the paired ratio of a measure of two rows; `alike` means they share one mean."""
    assert row.units is not None
    assert partner.units is not None
    logs = log_ratio(
        row.units, partner.units, measure=measure, level=level, same_mean=alike, question=about
    )
    return logs.mapped(lambda value: math.inf if value > _MOST else math.exp(value))


def compared(family: Family, row: GradientRow, partner: GradientRow, level: float) -> Comparison:
    """Return the variance of a row over that of another, without a verdict."""
    return Comparison(
        family.name,
        row.key.path,
        partner.key.path,
        "variance",
        ratio(row, partner, level),
        ratio=True,
        paired="seed and instance",
        comparisons=family.size,
        alpha=family.alpha,
    )


def comparison_line(
    family: Family, row: GradientRow, partner: GradientRow, level: float
) -> Comparison:
    """Return the variance of a row over that of another, with the verdict worse or tied.

    The verdict is worse if two paired intervals about new instances exclude 1 (the ratio of mean
    variances, and the median over instances of the ratio), and if the tail of the ratios could not
    change it (`stays_less`). If too few instances carry a mean, the line is `fixed` when the other
    row has less variance on most measured instances.
    """
    line = compared(family, row, partner, level)
    assert row.units is not None
    assert partner.units is not None
    mean = log_ratio(partner.units, row.units, level=family.level)
    if not mean.defined:
        unpaired = "enumerated and sampled rows make no pairs"
        reasons = {UNPAIRED: unpaired, RARE_GROUPS: RARE_GROUPS}
        reason = reasons.get(mean.reason, "the ratio has no interval")
        return replace(line, verdict="open", reason=reason)
    typical = typical_ratio(partner.units, row.units, level=family.level)
    if not mean.high < -ROUNDED:
        same = typical.ties == typical.instances
        reason = SAME if same else "the corrected interval of the ratio includes 1"
    elif mean.question != NEW:
        few = 2 * typical.below > typical.instances
        return replace(line, verdict="tied", reason=FEW, fixed=few)
    elif not typical.most < 1 - ROUNDED:
        alone = typical.median.reason == RARE_ALONE
        reason = RARE_ALONE if alone else "mean and median over instances disagree"
    elif not stays_less(partner.units, row.units):
        reason = "one more outlier instance could undo it"
    else:
        return replace(line, verdict="worse")
    return replace(line, verdict="tied", reason=reason)


def variance(row: GradientRow) -> float:
    return row.intervals["variance"].value


def _reason(row: GradientRow) -> str:
    """Why the row is not significantly above the lowest; empty if it is, or is the lowest."""
    return "" if row.over_least is None else row.over_least.line.reason
