"""Means over strata: those of a table, against one stratum after the other, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from maxk_lab.statistics.errors import over_instances
from maxk_lab.statistics.strata import Strata

SIZES = [(50, 16), (3, 64), (7, 33), (1, 200), (5, 1), (2, 3), (20, 9)]


def values_of(rows, count):
    draws = np.random.default_rng(count + rows)
    return draws.normal(size=(rows, count)) * 10 ** draws.uniform(-6, 6, (rows, count))


def in_turn(values, strata):
    return np.array([values[:, m].mean(axis=-1) for m in strata])


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize(("strata", "size"), SIZES)
def test_the_means_of_a_table_are_those_of_each_stratum(rows, strata, size):
    values = values_of(rows, strata * size)
    found = Strata.told_by(np.repeat(np.arange(strata), size))
    assert found.table(values).shape == (rows, strata, size)
    each = in_turn(values, found)
    np.testing.assert_array_equal(found.means(values), each)
    together = np.mean(list(each), axis=0)
    np.testing.assert_array_equal(found.means(values).mean(axis=0), together)
    alone = float(np.mean([values[0][m].mean() for m in found]))
    assert float(found.means(values[:1]).mean(axis=0)[0]) == alone


@pytest.mark.parametrize(
    "stratum", [[0, 0, 1], [0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1, 1, 2]], ids=str
)
def test_strata_that_form_no_table_are_taken_in_turn(stratum):
    stratum = np.array(stratum)
    found = Strata.told_by(stratum)
    values = values_of(2, len(stratum))
    assert found.table(values) is None
    expected = [np.flatnonzero(stratum == which) for which in np.unique(stratum)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found.means(values), in_turn(values, expected))
    weights = [1 / (len(expected) * (stratum == which).sum()) for which in stratum]
    np.testing.assert_array_equal(found.weights(len(stratum)), weights)


def test_values_beyond_the_strata_are_left_out():
    found = Strata([np.arange(2), np.arange(2, 4)])
    values = values_of(2, 5)
    assert found.table(values) is None
    np.testing.assert_array_equal(found.means(values), in_turn(values, found))
    np.testing.assert_array_equal(found.weights(5), [0.25, 0.25, 0.25, 0.25, 0.0])


@pytest.mark.parametrize(("strata", "size"), SIZES)
def test_the_errors_of_a_table_are_those_of_each_stratum(strata, size):
    values = values_of(4, strata * size)
    table = Strata.told_by(np.repeat(np.arange(strata), size))
    # The same strata in an order that forms no table.
    turned = Strata([*table[1:], table[0]])
    one, other = over_instances(values, table), over_instances(values, turned)
    np.testing.assert_array_equal(one.parts, other.parts)
    np.testing.assert_array_equal(one.thirds, other.thirds)
    np.testing.assert_allclose(one.means, other.means, rtol=1e-12)
    assert one.freedom == other.freedom
