"""Claims on gradients: no bias by chance refutes a proof; a ratio names what it is about."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from drawn_units import enumerated

from maxk_lab.statistics.bias import BiasVerdict
from maxk_lab.studies.gradient import claims
from maxk_lab.studies.gradient.claims import judge
from maxk_lab.sweep_file.claims import Claim

WHERE = {"name": "it", "where": {"baseline": "none"}}
UNBIASED = Claim(kind="unbiased", detectable=0.5, **WHERE)
DIRECTION, SCALE = (Claim(kind="biased", bias=bias, **WHERE) for bias in ("direction", "scale"))


def row(verdict: str, p: float = float("nan"), *, proven: bool = False, **more: Any) -> Any:
    """What a claim on bias reads of a row."""
    bias = BiasVerdict(verdict, p_value=p, relative_bias=0.2, **more)
    key = SimpleNamespace(path="a row")
    return SimpleNamespace(key=key, bias=bias, enumerated=proven, units=())


FINE = row("no bias seen", 1.0, detectable=0.1)
MANY, FEW = row("scale bias", 0.049), row("scale bias", 0.009)
PROVEN = row("biased", proven=True)


@pytest.mark.parametrize(
    ("claim", "rows", "alpha", "verdict", "detail"),
    [
        # A tested bias refutes at a fifth of the level, an enumerated one at any level.
        (UNBIASED, [MANY, FINE], 0.05, "undecided", "which refutes below 0.01"),
        (UNBIASED, [FEW, FINE], 0.05, "refuted", "1 of 2 rows biased, most clearly a row"),
        (UNBIASED, [MANY, FEW, FINE], 0.05, "refuted", "2 of 3 rows biased, most clearly a row"),
        (UNBIASED, [FEW, FINE], 0.01, "undecided", "which refutes below 0.002"),
        (UNBIASED, [PROVEN], 0.05, "refuted", ""),
        (UNBIASED, [MANY, PROVEN], 0.05, "refuted", ""),
        (UNBIASED, [FINE], 0.05, "supported", ""),
        (DIRECTION, [row("biased", 1e-9)], 0.05, "supported", "biased, p = 1e-09 (Holm)"),
        (SCALE, [row("biased", 1e-9)], 0.05, "refuted", "biased, p = 1e-09 (Holm)"),
        # A bias that could not have been seen leaves a claim undecided.
        (UNBIASED, [FINE, row("undefined", reason="no gradient")], 0.05, "undecided",
         "1 of 2 rows not judged, e.g. a row: no gradient"),
        (UNBIASED, [FINE, row("no bias seen", 1.0, reason="few groups")], 0.05, "undecided",
         "no bias seen in 2 rows, but in 1 a row: few groups"),
        (UNBIASED, [FINE, row("no bias seen", 1.0, detectable=0.6)], 0.05, "undecided",
         "the smallest bias along the gradient that could have been seen is at most 0.6 (a row), "
         "more than the 0.5 asked for"),
    ],
)  # fmt: skip
def test_a_claim_on_bias(claim: Any, rows: Any, alpha: float, verdict: str, detail: str) -> None:
    judged = judge(claim, [(each,) for each in rows], alpha)
    assert (judged.verdict, detail in judged.detail) == (verdict, True), judged.detail
    assert ("which refutes below" in judged.detail) == ("which refutes" in detail)


@pytest.mark.parametrize(
    ("about", "verdict"),
    [(None, "undecided"), ("new instances", "undecided"), ("fixed instances", "supported")],
)
def test_a_ratio_that_is_exact_on_the_fixed_instances_may_be_open_on_new_ones(
    monkeypatch: pytest.MonkeyPatch, about: Any, verdict: str
) -> None:
    """Every instance has more variance than its partner, few have very much more."""
    monkeypatch.setattr(claims, "same_mean", lambda row, other: False)
    sides = {"of": {"baseline": "none"}, "over": {"baseline": "centred"}}
    claim = Claim(name="it", kind="ratio", metric="variance", at_least=1.5, about=about, **sides)
    pair = []
    for variance in ([1.1] * 20 + [3.0, 4.0, 6.0, 8.0], [1.0] * 24):
        units = enumerated([0.0] * 24)
        units.m2[:] = np.array(variance) + 1
        measured = row("unbiased")
        measured.units = units
        pair.append(measured)
    judged = judge(claim, [tuple(pair)], 0.05)
    assert judged.verdict == verdict, judged.detail
