"""The advice of a gradient study on its design, as `plan` prints it."""

import pytest

from maxk_lab.studies.gradient.spec import Study

GRID = {"estimator": ["maxk"], "baseline": ["centred"], "n": [8, 16], "k": [2]}


def advice(**settings):
    return Study.model_validate({"stages": [0, 50], "grid": GRID} | settings).advice()


@pytest.mark.parametrize(
    ("instances", "pool", "wanted"), [(16, 1024, 256), (32, 1024, 512), (4, 4096, 256)]
)
def test_a_trained_policy_gets_more_instances_at_equal_rollouts(instances, pool, wanted):
    (sentence,) = advice(instances=instances, pool=pool)
    assert f"instances: 64, pool: {wanted}" in sentence
    assert 64 * wanted == instances * pool


@pytest.mark.parametrize(
    "settings",
    [
        {"instances": 64, "pool": 256},  # enough instances
        {"instances": 16, "pool": 512},  # a fourth of the pool would hold eight groups of 16
        {"instances": 16, "pool": 256, "stages": [0]},  # not trained
        {"instances": 16, "pool": 256, "complete": True},  # no pool is drawn
        {"instances": 1, "pool": 4096},  # a single instance is a choice
    ],
)
def test_a_design_that_cannot_be_bettered_gets_none(settings):
    assert advice(**settings) == ()


def test_too_few_groups_for_a_verdict_are_told():
    (sentence,) = advice(instances=64, pool=32, stages=[0])
    assert "holds 2 groups of n = 16" in sentence
    assert "a pool of 64" in sentence
