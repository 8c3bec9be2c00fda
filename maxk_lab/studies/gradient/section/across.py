"""Unbiased estimators of one gradient against each other, each with its baselines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from maxk_lab.report.tables import grouped
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.studies.gradient.row.best import candidates, rivals_of
from maxk_lab.studies.gradient.row.model import GradientRow, Rival
from maxk_lab.studies.gradient.row.order import is_oracle
from maxk_lab.studies.gradient.section.words import axes, joined


@dataclass(frozen=True)
class Across:
    """The methods of several estimators at one place, n and gradient: the least, and its rivals.

    The rivals are of other estimators than the least; those of its own stand in its row.
    """

    least: GradientRow
    others: tuple[GradientRow, ...]
    rivals: tuple[tuple[GradientRow, Rival], ...]

    @property
    def here(self) -> bool:
        """Whether the least is told apart from all others on the measured instances, at least."""
        return all(rival.here for _, rival in self.rivals)

    @property
    def same(self) -> bool:
        """Whether a method of another estimator is the same as the least on every instance."""
        return any(rival.why == "same" for _, rival in self.rivals)


def across(rows: Sequence[GradientRow], alpha: float) -> list[Across]:
    """Each comparison of the least with other estimators; Bonferroni at `alpha` over all."""
    fair = [row for row in rows if row.catalogued_unbiased and not is_oracle(row)]
    groups = grouped(fair, lambda row: (row.key.gradient, row.key.n)).values()
    pairs = [found for group in groups if (found := _least(group)) is not None]
    level = 1 - alpha / max(1, sum(len(others) for _, others in pairs))
    return [
        Across(
            least,
            tuple(others),
            tuple((other, rival) for other in others for rival in rivals_of(least, [other], level)),
        )
        for least, others in pairs
    ]


def _least(group: Sequence[GradientRow]) -> tuple[GradientRow, list[GradientRow]] | None:
    competing = candidates(group)
    if any(math.isnan(row.intervals["variance"].value) for row in competing):
        return None
    if len({row.key.estimator for row in competing}) < 2:
        return None
    least = min(competing, key=lambda row: row.intervals["variance"].value)
    return least, [row for row in competing if row.key.estimator != least.key.estimator]


def across_sentence(found: Sequence[Across]) -> str:
    """The estimator of least variance with its best baseline, in counts; empty without a choice."""
    if not found:
        return ""
    names = dict.fromkeys(
        name
        for one in found
        for name in (one.least.key.estimator, *(row.key.estimator for row in one.others))
    )
    what, total = axes(one.least for one in found), len(found)
    clear = Counter(one.least.key.estimator for one in found if not one.rivals)
    local = Counter(
        one.least.key.estimator for one in found if one.rivals and one.here and not one.same
    )
    same = sum(one.same for one in found)
    parts = [f"{name} has it in {count} of {total} {what}" for name, count in clear.most_common()]
    parts += [
        f"{name} has it in {count} of {total} {what}, for the measured instances alone"
        for name, count in local.most_common()
    ]
    rest = total - sum(clear.values()) - sum(local.values()) - same
    if same:
        parts.append(f"the best of two is the same on every instance in {same} of {total} {what}")
    if rest:
        parts.append(f"no single one is told apart in {rest} of {total} {what}")
    return (
        f"Least variance of the unbiased estimators of the same gradient ({joined(list(names))}), "
        f"each with its best baseline: {'; '.join(parts)}."
    )


def ratio(row: GradientRow, least: GradientRow, level: float) -> Interval:
    """The paired ratio of the variance of a row to that of the least."""
    assert row.units is not None
    assert least.units is not None
    return log_ratio(row.units, least.units, level=level).mapped(math.exp)
