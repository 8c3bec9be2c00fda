"""Verdicts on claims about bias: that there is none, or that there is one of a given kind."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maxk_lab.report.document import number
from maxk_lab.report.model import SummaryRow
from maxk_lab.report.verdicts import Judged, together
from maxk_lab.sweeps.spec.claims.shapes import BiasedClaim, UnbiasedClaim

_FOUND = ("biased", "scale bias")
_NOT_SEEN = ("no bias seen", "unbiased")


def judge_unbiased(claim: UnbiasedClaim, met: Sequence[SummaryRow]) -> Judged:
    """Refuted by a bias that was found, supported where none was and the claimed one would have been."""
    biased = [row for row in met if row.bias.verdict in _FOUND]
    if biased:
        worst = min(biased, key=_clearness)
        return (
            "refuted",
            f"{len(biased)} of {len(met)} rows biased, most clearly {_evidence(worst)}",
        )
    unjudged = [row for row in met if row.bias.verdict not in _NOT_SEEN]
    if unjudged:
        row = unjudged[0]
        return (
            "undecided",
            f"{len(unjudged)} of {len(met)} rows not judged, e.g. {row.key.path}: {row.bias.reason}",
        )
    widest = max(met, key=lambda row: row.bias.detectable)
    if all(row.exact for row in met):
        seen = (
            f"unbiased by complete enumeration in {len(met)} rows, to a relative bias of at most "
            f"{widest.bias.detectable:.2g} ({widest.key.path})"
        )
    else:
        seen = (
            f"no bias seen in {len(met)} rows; the smallest relative bias that could have been seen is at "
            f"most {widest.bias.detectable:.2g} ({widest.key.path})"
        )
    if not widest.bias.detectable <= claim.detectable:
        return "undecided", f"{seen}, more than the {claim.detectable:g} asked for"
    return "supported", seen


def judge_biased(claim: BiasedClaim, met: Sequence[SummaryRow]) -> Judged:
    """Supported where every row has the claimed bias.

    Enumeration decides every row. A test refutes only by finding the other kind where it proves it: a bias off the
    gradient, where one of scale alone was claimed; what it does not see leaves the claim undecided.
    """
    wanted = "biased" if claim.bias == "direction" else "scale bias"
    verdicts: list[Judged] = []
    for row in met:
        if row.bias.verdict == wanted:
            verdicts.append(("supported", _evidence(row)))
        elif row.bias.verdict == "biased" or (
            row.exact and row.bias.verdict in (*_FOUND, *_NOT_SEEN)
        ):
            verdicts.append(("refuted", _evidence(row)))
        else:
            verdicts.append(("undecided", _evidence(row)))
    return together(verdicts, "rows")


def _clearness(row: SummaryRow) -> tuple[float, float]:
    """Enumerated rows first, then the smallest p-value."""
    return -1.0 if row.exact else row.bias.p_value, -row.bias.relative_bias


def _evidence(row: SummaryRow) -> str:
    bias = row.bias
    text = f"{row.key.path}: {bias.verdict}"
    if bias.verdict == "undefined" or bias.verdict == "reference":
        return f"{text} ({bias.reason})"
    if row.exact:
        return f"{text}, relative bias {number(bias.relative_bias)} by complete enumeration"
    return f"{text}, p = {bias.p_value:.2g} (Holm)" if not math.isnan(bias.p_value) else text
