"""Verdicts on claims about the optima of objectives, which are known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from maxk_lab.reports.claims import ClaimVerdict, combined
from maxk_lab.reports.document import exact
from maxk_lab.studies.objective.pool import ObjectiveRow
from maxk_lab.sweep_file.claims import Claim


def judge(claim: Claim, met: Sequence[tuple[ObjectiveRow, ...]], alpha: float) -> ClaimVerdict:
    """Supported where the optimum moves up from each objective to the next, in every seed.

    Exact, so else refuted.
    """
    verdicts: list[ClaimVerdict] = []
    for lower, upper in (pair for rows in met for pair in pairwise(rows)):
        for seed in lower.finished:
            curves = lower.by_seed[seed], upper.by_seed[seed]
            below, above = (curve.best[0] for curve in curves)
            text = (
                f"optimum of {upper.key.path} over {lower.key.path}, seed {seed}: "
                f"{exact(above)} over {exact(below)}"
            )
            if reason := curves[0].reason or curves[1].reason:
                verdicts.append(ClaimVerdict("undecided", f"{text} ({reason})"))
            else:
                verdicts.append(ClaimVerdict("supported" if above > below else "refuted", text))
    return combined(verdicts, "exact comparisons")
