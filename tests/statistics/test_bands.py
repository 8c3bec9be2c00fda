"""Simultaneous bands: coverage of all means together, and means without an error."""

import numpy as np
import pytest
from scipy import stats

from maxk_lab.statistics.bands import difference_band, ranges


def test_a_band_covers_all_means_together():
    """Its critical value is above Student's for one mean, and below Bonferroni's for 16."""
    rng = np.random.default_rng(0)
    mixing = np.tril(np.ones((16, 16)))
    covered, critical = 0, []
    for seed in range(30):
        band = difference_band([rng.standard_normal((40, 16)) @ mixing], seed=seed)
        covered += bool(((band.low <= 0) & (band.high >= 0)).all())
        critical.append(band.critical)
    assert covered >= 27
    assert 2.05 < np.median(critical) < 3.1


def test_the_band_of_one_mean_is_the_studentized_bootstrap_of_scipy():
    values = np.random.default_rng(3).gamma(4.0, size=40)
    band = difference_band([values[:, None]])
    draws = np.random.default_rng(4).choice(values, (10_000, 40))
    t = (draws.mean(1) - values.mean()) / stats.sem(draws, axis=1)
    assert band.critical == pytest.approx(np.quantile(np.abs(t), 0.95), rel=0.05)
    half = (band.high - band.low)[0] / 2
    assert half == pytest.approx(band.critical * stats.sem(values))


def test_a_mean_of_equal_values_has_no_band_and_no_part_in_the_others():
    values = np.full((40, 3), 0.25)
    values[:, :2] = np.random.default_rng(1).standard_normal((40, 2))
    band = difference_band([values])
    assert np.isnan([band.low[2], band.high[2], band.needed[2]]).all()
    assert band.settled[2] == 0
    assert band.critical == difference_band([values[:, :2]]).critical
    nothing = difference_band([np.zeros((40, 2))])
    assert np.isnan([nothing.low, nothing.high]).all()


def test_few_rows_that_carry_the_spread_widen_no_band_without_bound():
    """A draw without these rows has no spread but for rounding, and so no t of its own."""
    values = np.zeros((60, 6))
    values[:2, 0] = -1 / 3  # one draw in eight has neither row: no band
    for k in range(5):
        values[4 * k : 4 * k + 4, k + 1] = -1 / 3
    band = difference_band([values])
    assert np.isnan(band.low).tolist() == [True, *[False] * 5]
    assert band.critical < 10


def test_two_samples_are_independent():
    rng = np.random.default_rng(2)
    first, second = rng.standard_normal((50, 1)) + 1, rng.standard_normal((80, 1))
    band = difference_band([first, second])
    error = np.hypot(stats.sem(first), stats.sem(second))
    assert band.mean[0] == pytest.approx(first.mean() - second.mean())
    assert (band.high - band.low) / 2 / error == pytest.approx(2.0, abs=0.25)
    assert ranges([1, 2, 3, 8, 10, 11]) == "1 to 3, 8, 10 to 11"
