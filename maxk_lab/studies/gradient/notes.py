"""The notes of a gradient study: the basis of its measures, and which have no value and why."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

from maxk_lab.report.model import Summary
from maxk_lab.report.naming import listed, seed_words
from maxk_lab.statistics.bias import POWER
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.columns import ALWAYS
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.row.order import is_oracle

_LISTED = 4
_TESTED = ("no bias seen", "scale bias", "biased", "alarm")


def basis(
    rows: Sequence[GradientRow], judged_together: Sequence[GradientRow], summary: Summary
) -> tuple[str, ...]:
    """The lines on seeds, samples, resampling, and the gradient that bias is judged against."""
    finished = [row for row in rows if row.all_finished]
    first = (finished or rows)[0]
    tested = sum(row.bias.verdict in _TESTED and not row.enumerated for row in judged_together)
    enumerated = any(row.enumerated for row in rows)
    against = [
        _against(name)
        for name in dict.fromkeys(row.against for row in finished)
        if name != "complete"
    ]
    lines = [
        f"{seed_words(rows)}; {first.instances} instance{'s' if first.instances > 1 else ''}, "
        f"pool of {first.pool} trajectories each.",
        f"Intervals: {summary.level:.0%}; policies are held fixed. Of variances, SNR and their "
        "ratios: about instances like these, which are drawn anew within each seed. Of bias, scale "
        "and cosine: about these instances, whose trajectories are drawn anew.",
    ]
    if any(found.fallen_back for row in finished for found in row.told):
        lines.append(
            "†: about these instances all the same, because too few of them carry the mean to "
            "speak of others."
        )
    if enumerated:
        lines.append(
            "Complete enumeration: mean and variance are sums over every possible group of n "
            "samples, so bias and variance of each instance are exact: the verdict unbiased is "
            "proven there, to the tolerance of its row."
        )
    if against or not enumerated:
        which = "Rows too large for that, bias" if enumerated else "Bias"
        lines.append(
            f"{which} against {' and '.join(against) or 'nothing yet'}; "
            f"Holm-corrected over {tested} rows at {summary.alpha:g}."
        )
    return tuple(lines)


def reading(rows: Sequence[GradientRow], summary: Summary) -> tuple[str, ...]:
    """The lines that hold for all tables of these rows: what they rest on, and what words mean."""
    lines = [
        *basis(rows, rows, summary),
        "★: least variance of the baselines derived unbiased and not found biased, by paired "
        "comparison with each, of the means and of the typical instance (Bonferroni over the sweep "
        f"at {summary.alpha:g}).",
        "typical relative variance: the median over instances; carried by: the effective number "
        "of instances behind the mean of the variance or of ‖∇J‖², the smaller one.",
        "derived: by the catalogue; bias at most: the upper end of ‖E ĝ − ∇J‖/‖∇J‖ over these "
        "instances, of one row alone; could see: the smallest bias along ∇J, relative to ‖∇J‖, "
        f"that the test finds with probability {POWER:g}.",
    ]
    said: dict[str, Callable[[GradientRow], object]] = {
        "Oracles, which no training can have, are no candidates for the star.": is_oracle,
        "bias: √(mean ‖E ĝ − ∇J‖² / mean ‖∇J‖²) over these instances where it is enumerated; "
        "could see is its tolerance there, and at most the larger of the two.": _is_enumerated,
        "over the least: the mean variance over that of the unbiased baseline of least variance "
        "in the same group; typical instance: the median over instances of that ratio; less on: "
        "the instances where the row has less. Each interval alone, not corrected for the choice "
        "of the least.": lambda row: row.over_least,
        "over best possible: the variance over that of joint_optimum, the best of all symmetric "
        "leave-one-out baselines, at the same n and K; a paired ratio, of rows derived "
        "unbiased.": lambda row: row.over_best,
        "Variance anatomy: shares of the variance in percent; they sum to 100, and the interaction "
        "may be below 0. Exact for these instances, by complete enumeration: no "
        "interval.": lambda row: row.anatomy,
    }
    return (*lines, *(line for line, holds in said.items() if any(map(holds, rows))))


def _is_enumerated(row: GradientRow) -> bool:
    return row.enumerated


def _against(name: str) -> str:
    stand_in = f"the estimator {name.removeprefix('reference:')} (no exact gradient here)"
    return {"exact": "the exact gradient"}.get(name, stand_in)


def undefined_lines(rows: Sequence[GradientRow]) -> list[str]:
    """One line per reason: which measures of which rows have no value, and why."""
    everything = {MEASURES.get(name).heading for name in ALWAYS}
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        by_reason: dict[str, list[str]] = defaultdict(list)
        for name, interval in row.intervals.items():
            if not interval.known:
                by_reason[interval.reason or "no interval"].append(MEASURES.get(name).heading)
        if row.bias.verdict == "undefined":
            by_reason[row.bias.reason or "not judged"].append("bias")
        elif row.bias.verdict in _TESTED and math.isnan(row.bias.detectable):
            by_reason[row.bias.reason].append("could see")
        for reason, names in by_reason.items():
            which = "all" if everything < set(names) else ", ".join(names)
            found[reason, which].append(row.key.path)
    return [
        f"{reason}: {which} of {listed(paths, _LISTED)}" for (reason, which), paths in found.items()
    ]
