"""The distances: of the next baseline, of none at all, from the best, of weights that stand in."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.report.document import compact
from maxk_lab.report.tables import grouped
from maxk_lab.studies.gradient.row.contests import Contest
from maxk_lab.studies.gradient.row.model import GradientRow, ProxyRow
from maxk_lab.studies.gradient.row.order import is_oracle
from maxk_lab.studies.gradient.section.words import (
    Words,
    bounded,
    here,
    joined,
    method,
    some,
    stage,
    times,
)

_NAMED = 4


def how_much(found: Sequence[Contest], words: Words) -> str:
    """The distances at the first and the last of these contests, which have one size."""
    told = [one for one in found if one.least is not None and not one.one]
    shown = [*told[:1], *(told[-1:] if len(told) > 1 else [])]
    if not shown:
        return ""
    key = shown[0].first.key
    several = len({one.first.key.estimator for one in told}) > 1
    where = [
        ", ".join(filter(None, (one.first.key.estimator * several, words.place(one.first))))
        for one in shown
    ]
    parts = [": ".join(filter(None, pair)) for pair in zip(where, map(_of, shown), strict=True)]
    return f"At n = {key.n} and K = {key.k}{',' * any(where)} {'; '.join(parts)}."


def _of(one: Contest) -> str:
    """`affine[0.5] has 1.10 [1.08, 1.11] times the variance of centred, no baseline 553 [...]`."""
    rows = [row for name in one.competing if name not in one.top and (row := one.of(name))]
    rows.sort(key=lambda row: row.intervals["variance"].value)
    known = [row for row in rows if row.over_least and bounded(row.over_least.mean)]
    least = joined(list(one.top))
    if not known:
        return f"no interval of a ratio to {least} says anything"
    rivals = {rival.baseline for rival in one.against if not rival.here}
    return joined(
        [
            f"{'no baseline at all' if row.key.baseline == 'none' else row.key.baseline} has "
            f"{times(row.over_least.mean)}{'' if i else f' the variance of {least}'}"
            f"{' (not told apart)' if row.key.baseline in rivals else ''}"
            for i, row in enumerate(known)
            if row.over_least and (i == 0 or row.key.baseline == "none")
        ]
    )


def from_best(rows: Sequence[GradientRow], words: Words) -> str:
    """The variances over that of the best possible baseline, at the first place of these rows."""
    having = [row for row in rows if row.over_best and not is_oracle(row)]
    if not having:
        return ""
    first = having[0]
    near = [
        row
        for row in having
        if row.key.group[:3] == first.key.group[:3] and row.over_best and row.over_best.known
    ]
    near.sort(key=lambda row: row.intervals["variance"].value)
    each = [
        f"{method(row, estimator=words.estimators)} {compact(row.over_best)}{here(row.over_best)}"
        for row in near
        if row.over_best
    ]
    if not each:
        return ""
    return (
        f"Times the variance of the best possible baseline (joint_optimum) {words.point(first)}: "
        f"{some(each, _NAMED)}."
    )


def stand_ins(proxies: Sequence[ProxyRow], rows: Sequence[GradientRow]) -> str:
    """How well the cheap weights of baselines track ‖ψ‖², which they stand in for.

    At the first and the last stage; of the weights that some of the rows need.
    """
    needed = {row.key.method.needed_weight for row in rows}
    asked = [each for each in proxies if each.proxy in needed and not each.setting]
    told = []
    for name, found in grouped(asked, lambda each: each.proxy).items():
        known = [each for each in found if each.correlation.known]
        ends = known if len(known) < 2 else [known[0], known[-1]]
        if ends and len({each.environment for each in found}) == 1:
            each_end = [f"{compact(end.correlation)} {stage(end.stage)}" for end in ends]
            told.append(f"{name} {joined(each_end)}")
    if not told:
        return ""
    return (
        "Correlation of the cheap weights with the squared norm of the score that they stand in "
        f"for: {'; '.join(told)}."
    )
