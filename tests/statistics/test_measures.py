"""The table of measures, and families of comparisons with their adjusted p-values."""

import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab.catalogue import load
from maxk_lab.errors import LabError
from maxk_lab.statistics.families import Family
from maxk_lab.statistics.measures import MEASURES, claimable, group_names, measures_of
from maxk_lab.statistics.moments import moment_function
from maxk_lab.statistics.units import FIELDS
from maxk_lab.sweep_file.studies import STUDIES


@pytest.mark.parametrize("row", list(MEASURES), ids=lambda row: row.name)
def test_a_row_is_complete(row):
    assert row.meaning
    assert row.unit
    assert row.study in STUDIES.names()
    # The subject of a claim is in a table or at least under a heading.
    assert row.heading or not (row.claims or row.group)
    assert row.source == "moments" or not (row.divides_by or row.judged or row.inverse_of)
    counted_by_the_worker = row.source not in ("moments", "groups")
    assert counted_by_the_worker or bool(row.implementation) != bool(row.inverse_of)
    assert not row.implementation or inspect.isfunction(load(row.implementation))


def test_names_that_reports_and_older_records_rely_on():
    assert group_names("gradient", "variance") == ("variance", "relative_variance", "snr")
    assert group_names("gradient", "bias") == ("scale", "cosine")
    assert [row.name for row in measures_of("objective")] == ["optimum", "optimum_value"]
    assert set(claimable("order")) - set(claimable("ratio")) == {"optimum"}
    exact = {"weight_sum", "weight_min", "zero_share"}
    assert set(claimable("equals")) - set(claimable("ratio")) == exact
    with pytest.raises(LabError, match=r"'varianse' \(did you mean variance\?\)"):
        MEASURES.get("varianse")


def test_a_measure_of_moments_takes_them_in_the_order_of_the_units():
    means = np.array([7.0, 3.0, 2.0, 4.0])
    expected = dict(zip(FIELDS, means, strict=True))
    expected |= {"variance": 4, "snr": 0.75, "squared_bias": 3, "scale": 0.5}
    expected["cosine"] = 2 / math.sqrt(12)
    assert {name: moment_function(name)(means) for name in expected} == pytest.approx(expected)
    # Only measures that depend on the gradient are judged against it.
    moments = np.array([means, [7.0, 3.0, 5.0, 8.0]]).T
    rows = [
        row for row in measures_of("gradient") if row.source == "moments" and not row.inverse_of
    ]
    changed = [(row.name, *moment_function(row.name)(moments)) for row in rows]
    judged = {row.name for row in rows if row.judged}
    assert {name for name, before, after in changed if before != after} == judged != set()


def test_holm_agrees_with_the_textbook():
    adjusted = Family("it", 3, correction="holm").adjusted({"a": 0.01, "b": 0.04, "c": 0.03})
    assert adjusted == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})
    assert Family("it", 0, correction="holm").adjusted({}) == {}
    assert Family("it", 5, alpha=0.1).level == pytest.approx(0.98)
    assert Family("it", 0).level == pytest.approx(0.95)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holm_rejects_what_bonferroni_does_and_more(p_values):
    asked, size = dict(enumerate(p_values)), len(p_values)
    holm = Family("it", size, correction="holm").adjusted(asked)
    bonferroni = Family("it", size).adjusted(asked)
    assert all(asked[key] <= holm[key] <= bonferroni[key] + 1e-12 for key in asked)
    assert min(holm.values()) == pytest.approx(min(bonferroni.values()))
