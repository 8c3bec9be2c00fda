"""Verdicts on claims about numbers that are known exactly: the weights of given rewards, the optima of objectives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from maxk_lab.report.document import exact
from maxk_lab.report.verdicts import Judged, together
from maxk_lab.studies.objective.rows import ObjectiveRow
from maxk_lab.studies.weights.rows import WeightsRow
from maxk_lab.sweeps.spec.claims.shapes import EqualsClaim, evaluate_value


def judge_exactly_equal(claim: EqualsClaim, met: Sequence[WeightsRow]) -> Judged:
    """Supported where the number lies within the tolerance in every row and seed, refuted where it does not."""
    verdicts: list[Judged] = []
    for row in met:
        wanted = evaluate_value(claim.value, row.key.n, row.key.k, row.key.setting)
        slack = claim.slack(wanted)
        for seed, weighed in row.by_seed.items():
            found = weighed.numbers[claim.metric]
            text = (
                f"{row.key.path} seed {seed}: {exact(found)}, claimed {exact(wanted)} ± {slack:.3g}"
            )
            verdicts.append(("supported" if abs(found - wanted) <= slack else "refuted", text))
    return together(verdicts, "exact numbers")


def judge_optima(met: Sequence[tuple[ObjectiveRow, ...]]) -> Judged:
    """Supported where the optimum moves up from each objective to the next, in every seed; exact, so else refuted."""
    verdicts: list[Judged] = []
    for lower, upper in (pair for row in met for pair in pairwise(row)):
        for seed in lower.finished:
            below, above = lower.curves[seed], upper.curves[seed]
            text = (
                f"optimum of {upper.key.path} over {lower.key.path}, seed {seed}: "
                f"{exact(above.optimum)} over {exact(below.optimum)}"
            )
            if math.isnan(below.optimum) or math.isnan(above.optimum):
                verdicts.append(("undecided", f"{text} ({below.reason or above.reason})"))
            else:
                verdicts.append(("supported" if above.optimum > below.optimum else "refuted", text))
    return together(verdicts, "exact comparisons")
