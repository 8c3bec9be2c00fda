"""Strata: their units, the means over each, and the weights of units in the mean of these."""

import numpy as np
import pytest

from maxk_lab.statistics.strata import Strata


@pytest.mark.parametrize(
    "stratum", [[0, 0, 1, 1], [0, 0, 1], [0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1, 1, 2]], ids=str
)
def test_strata_are_those_of_their_labels(stratum):
    stratum = np.array(stratum)
    strata, values = (
        Strata.of_labels(stratum),
        np.random.default_rng(0).normal(size=(2, len(stratum))),
    )
    expected = [np.flatnonzero(stratum == which) for which in np.unique(stratum)]
    for one, other in zip(strata, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    means = np.array([values[:, m].mean(1) for m in expected])
    np.testing.assert_array_equal(strata.means(values), means)
    by_unit = means[np.unique(stratum, return_inverse=True)[1]].T
    np.testing.assert_array_equal(strata.centred(values), values - by_unit)
    weights = [1 / (len(expected) * (stratum == which).sum()) for which in stratum]
    np.testing.assert_array_equal(strata.weights(len(stratum)), weights)


def test_values_beyond_the_strata_are_left_out():
    strata = Strata([np.arange(2), np.arange(2, 4)])
    values = np.arange(5.0)[np.newaxis]
    np.testing.assert_array_equal(strata.means(values), [[0.5], [2.5]])
    np.testing.assert_array_equal(strata.centred(values), [[-0.5, 0.5, -0.5, 0.5, 0.0]])
    np.testing.assert_array_equal(strata.weights(5), [0.25, 0.25, 0.25, 0.25, 0.0])
