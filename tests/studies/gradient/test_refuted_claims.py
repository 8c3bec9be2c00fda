"""A bias that is seen by chance now and then must not refute a claim that is true by proof."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from maxk_lab.report.claims import Judged
from maxk_lab.statistics.bias import BiasVerdict
from maxk_lab.studies.gradient.compare import judge
from maxk_lab.sweeps.spec.claims import BiasedClaim, UnbiasedClaim

CLAIM = UnbiasedClaim(name="it", kind="unbiased", where={"baseline": "none"}, detectable=0.5)


def row(bias: BiasVerdict, *, enumerated: bool = False) -> SimpleNamespace:
    """What a claim on bias reads of a row."""
    key = SimpleNamespace(path="a row")
    return SimpleNamespace(key=key, bias=bias, enumerated=enumerated, units=())


NOTHING = BiasVerdict("no bias seen", p_value=1.0, detectable=0.1)


@pytest.mark.parametrize(
    ("p_values", "alpha", "expected"),
    [
        ([0.049], 0.05, "undecided"),
        ([0.009], 0.05, "refuted"),
        ([0.049, 0.009], 0.05, "refuted"),
        ([0.009], 0.01, "undecided"),
    ],
)
def test_a_tested_bias_refutes_at_a_fifth_of_the_level(p_values, alpha: float, expected) -> None:
    found = [BiasVerdict("scale bias", p_value=p, relative_bias=0.2) for p in p_values]
    judged = judge(CLAIM, [(row(bias),) for bias in (*found, NOTHING)], alpha)
    assert judged.verdict == expected
    assert f"{len(found)} of {len(found) + 1} rows biased, most clearly a row" in judged.text
    assert (f"which refutes below {alpha / 5:g}" in judged.text) == (expected == "undecided")


def test_a_claim_that_meets_an_alarm_is_undecided_with_its_reason() -> None:
    alarm = row(BiasVerdict("alarm", p_value=1e-9, reason="rejected although proven unbiased"))
    expected = Judged("undecided", "a row: alarm (rejected although proven unbiased)")
    assert judge(CLAIM, [(row(NOTHING),), (alarm,)], 0.05) == expected
    claim = BiasedClaim(name="it", kind="biased", bias="direction", where={"baseline": "none"})
    assert judge(claim, [(alarm,)], 0.05) == expected


def test_a_tested_bias_of_the_claimed_kind_supports_and_one_of_the_other_refutes() -> None:
    """Of a row that is derived biased: of another the test raises an alarm."""
    tested = row(BiasVerdict("biased", p_value=1e-9))
    for bias, expected in (("direction", "supported"), ("scale", "refuted")):
        claim = BiasedClaim(name="it", kind="biased", bias=bias, where={"baseline": "none"})
        judged = judge(claim, [(tested,)], 0.05)
        assert judged.verdict == expected
        assert "biased, p = 1e-09 (Holm)" in judged.text


def test_an_enumerated_bias_refutes_whatever_the_level() -> None:
    proven = BiasVerdict("biased", relative_bias=0.2)
    assert judge(CLAIM, [(row(proven, enumerated=True),)], 0.05).verdict == "refuted"
    chance = row(BiasVerdict("biased", p_value=0.04))
    assert judge(CLAIM, [(chance,), (row(proven, enumerated=True),)], 0.05).verdict == "refuted"
    assert judge(CLAIM, [(row(NOTHING),)], 0.05).verdict == "supported"
