"""Families of comparisons: adjusted p-values against textbooks, and the level of each interval."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab.statistics.families import Comparison, Family
from maxk_lab.statistics.intervals import Interval, undefined


def test_holm_agrees_with_the_textbook():
    family = Family("it", 3, correction="holm")
    assert family.adjusted({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "c": 0.06, "b": 0.06}
    )
    assert Family("it", 0, correction="holm").adjusted({}) == {}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holm_rejects_what_bonferroni_does_and_more(p_values):
    asked = dict(enumerate(p_values))
    size = len(p_values)
    holm = Family("it", size, correction="holm").adjusted(asked)
    bonferroni = Family("it", size).adjusted(asked)
    assert all(asked[key] <= holm[key] <= bonferroni[key] + 1e-12 for key in asked)
    assert min(holm.values()) == pytest.approx(min(bonferroni.values()))


def test_intervals_share_the_level():
    assert Family("it", 5, alpha=0.1).level == pytest.approx(0.98)
    assert Family("it", 0).level == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("interval", "ratio", "excluded"),
    [
        (Interval(2.0, 1.5, 3.0, 0.95), True, True),
        (Interval(1.2, 0.9, 1.5, 0.95), True, False),
        (Interval(1.2, 0.9, 1.5, 0.95), False, True),
        (undefined(0.95, "none"), True, False),
    ],
)
def test_an_interval_alone_excludes_no_difference(interval, ratio, excluded):
    line = Comparison("it", "a", "b", "variance", interval, "tied", ratio=ratio)
    assert line.excludes_none == excluded
