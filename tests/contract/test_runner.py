"""Every estimator and baseline of the catalogue, called exactly as a sweep calls them."""

import math

import pytest

from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline, choose_estimator, refusal
from maxk_lab.gradients.statistics import MEASURES, Units, interval
from maxk_lab.sweeps.gradient_study import measure_unit

PAIRS = [
    (choose_estimator(e).name, choose_baseline(b).name) for e in ESTIMATORS.names() for b in BASELINES.names()
]
UNIT = {
    "environment": {"name": "bandit", "arms": 4, "reward_shift": 0.0},
    "policy": {"init_std": 0.5, "dtype": "float64"},
    "warmup": {},
    "stage": 0,
    "seed": 0,
    "instances": 16,
    "pool": 4096,
}


def measured(estimator, baseline, n, k):
    cell = {"id": "c", "estimator": estimator, "baseline": baseline, "n": n, "k": k, "partitions": 1}
    ((name, result),) = measure_unit(UNIT, [cell], cache=None, event=lambda name, payload: None)
    assert name == "c"
    return result


@pytest.mark.parametrize(("estimator", "baseline"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_a_pair_runs_where_the_catalogue_says_and_fails_where_it_does_not(estimator, baseline):
    k = choose_estimator(estimator).row.fixed_k or 2
    result = measured(estimator, baseline, 8, k)
    if refusal(estimator, baseline, 8, k):
        assert isinstance(result, Exception)
        assert baseline.partition("[")[0] in str(result)
        return
    assert set(MEASURES) <= set(result)
    assert result["undefined"] == {}
    assert all(math.isfinite(result[name]) for name in MEASURES)
    scale = choose_estimator(estimator).row.expected_scale(8, k) * choose_baseline(
        baseline
    ).row.expected_scale(8, k)
    found = interval(Units.from_metrics(result), "scale", level=0.999)
    assert found.low <= scale <= found.high
