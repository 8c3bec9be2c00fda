"""A claim on a ratio names the instances that it is about."""

from types import SimpleNamespace

import numpy as np
import pytest

from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient import compare
from maxk_lab.sweeps.spec.claims import RatioClaim

# Every instance has more variance than its partner, few have very much more.
RATIOS = np.array([1.1] * 20 + [3.0, 4.0, 6.0, 8.0])


def row(variance):
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
    [(None, "undecided"), ("instances like these", "undecided"), ("these instances", "supported")],
)
def test_a_ratio_that_is_exact_here_may_be_open_elsewhere(monkeypatch, about, expected):
    monkeypatch.setattr(compare, "same_mean", lambda row, other: False)
    claim = RatioClaim(
        name="it",
        kind="ratio",
        metric="variance",
        of={"baseline": "none"},
        over={"baseline": "centred"},
        at_least=1.5,
        about=about,
    )
    judged = compare.judge(claim, [(row(RATIOS), row(np.ones(len(RATIOS))))], 0.05)
    assert judged.verdict == expected, judged.text
