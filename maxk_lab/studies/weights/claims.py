"""Verdicts on claims about the weights of given rewards, whose measures are known exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maxk_lab.report.document import exact
from maxk_lab.report.verdicts import Judged, together
from maxk_lab.studies.weights.rows import WeightsRow
from maxk_lab.sweeps.spec.claims.arithmetic import evaluate_value
from maxk_lab.sweeps.spec.claims.shapes import EqualsClaim


def judge(claim: EqualsClaim, met: Sequence[tuple[WeightsRow]], alpha: float) -> Judged:
    """Supported where the measure lies within the tolerance in every row and seed, else refuted."""
    verdicts: list[Judged] = []
    for (row,) in met:
        wanted = evaluate_value(claim.value, row.key.n, row.key.k, row.key.setting)
        slack = claim.slack(wanted)
        for seed, weighed in row.by_seed.items():
            found = weighed.measures[claim.metric]
            text = (
                f"{row.key.path} seed {seed}: {exact(found)}, claimed {exact(wanted)} ± {slack:.3g}"
            )
            if math.isnan(found):
                verdicts.append(("undecided", f"{text} (not measured)"))
            else:
                verdicts.append(("supported" if abs(found - wanted) <= slack else "refuted", text))
    return together(verdicts, "exact numbers")
