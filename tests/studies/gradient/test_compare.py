"""Claims on gradients: no bias by chance refutes a proof; a ratio names what it is about."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from maxk_lab.reports.claims import ClaimVerdict
from maxk_lab.statistics.bias import BiasVerdict
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient import claims
from maxk_lab.studies.gradient.claims import judge
from maxk_lab.sweep_file.claims import Claim

CLAIM = Claim(name="it", kind="unbiased", where={"baseline": "none"}, detectable=0.5)


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
    assert f"{len(found)} of {len(found) + 1} rows biased, most clearly a row" in judged.detail
    assert (f"which refutes below {alpha / 5:g}" in judged.detail) == (expected == "undecided")


def test_a_tested_bias_of_the_claimed_kind_supports_and_one_of_the_other_refutes() -> None:
    """Of a row that is derived biased: of another the test raises an alarm."""
    tested = row(BiasVerdict("biased", p_value=1e-9))
    for bias, expected in (("direction", "supported"), ("scale", "refuted")):
        claim = Claim(name="it", kind="biased", bias=bias, where={"baseline": "none"})
        judged = judge(claim, [(tested,)], 0.05)
        assert judged.verdict == expected
        assert "biased, p = 1e-09 (Holm)" in judged.detail


def test_an_enumerated_bias_refutes_whatever_the_level() -> None:
    proven, chance = BiasVerdict("biased", relative_bias=0.2), BiasVerdict("biased", p_value=0.04)
    assert judge(CLAIM, [(row(proven, enumerated=True),)], 0.05).verdict == "refuted"
    mixed = [(row(chance),), (row(proven, enumerated=True),)]
    assert judge(CLAIM, mixed, 0.05).verdict == "refuted"
    assert judge(CLAIM, [(row(NOTHING),)], 0.05).verdict == "supported"


# Every instance has more variance than its partner, few have very much more.
RATIOS = np.array([1.1] * 20 + [3.0, 4.0, 6.0, 8.0])


def measured(variance):
    """What a claim on a ratio reads of a row whose groups were all enumerated."""
    ones = np.ones(len(RATIOS))
    units = Units(
        np.zeros(len(RATIOS), dtype=np.int64),
        m2=variance + ones,
        mean_square=ones,
        inner=ones,
        truth=ones,
        squared_bias=0 * ones,
        off_direction=0 * ones,
        tolerance=1e-9,
    )
    return SimpleNamespace(
        key=SimpleNamespace(path="a row"), units=units, bias=SimpleNamespace(verdict="unbiased")
    )


@pytest.mark.parametrize(
    ("about", "expected"),
    [(None, "undecided"), ("new instances", "undecided"), ("fixed instances", "supported")],
)
def test_a_ratio_that_is_exact_here_may_be_open_elsewhere(monkeypatch, about, expected):
    monkeypatch.setattr(claims, "same_mean", lambda row, other: False)
    claim = Claim(
        name="it",
        kind="ratio",
        metric="variance",
        of={"baseline": "none"},
        over={"baseline": "centred"},
        at_least=1.5,
        about=about,
    )
    judged = judge(claim, [(measured(RATIOS), measured(np.ones(len(RATIOS))))], 0.05)
    assert judged.verdict == expected, judged.detail


@pytest.mark.parametrize(
    ("bias", "text"),
    [
        (
            BiasVerdict("undefined", reason="no gradient"),
            "1 of 2 rows not judged, e.g. a row: no gradient",
        ),
        (
            BiasVerdict("no bias seen", p_value=1.0, reason="few groups"),
            "no bias seen in 2 rows, but in 1 a row: few groups",
        ),
        (
            BiasVerdict("no bias seen", p_value=1.0, detectable=0.6),
            "no bias seen in 2 rows; the smallest bias along the gradient that could have been "
            "seen is at most 0.6 (a row), more than the 0.5 asked for",
        ),
    ],
)
def test_a_bias_that_could_not_have_been_seen_leaves_a_claim_undecided(bias, text) -> None:
    expected = ClaimVerdict("undecided", text)
    assert judge(CLAIM, [(row(NOTHING),), (row(bias),)], 0.05) == expected
