"""The range that an environment declares of its rewards: kept by every reward, wherever it acts."""

import math

import pytest
import small_environments

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, NOT_POSITIVE, SHARES, Range

LLM = {"task": "edit", "rewards": [], "reward_weights": []}


def parameters(row, **given):
    """Every parameter of a small setting of this environment."""
    named = row.settings.defaults(later=False)
    return {"name": row.name, **named, **row.small, **given}


@pytest.mark.parametrize("row", list(ENVIRONMENTS), ids=lambda row: row.name)
def test_no_reward_leaves_the_range(row):
    told = small_environments.parameters_of(row.name, **row.small)
    environment = small_environments.make(row.name, **row.small)
    instances = environment.instances(8, 0)
    rewards = environment.rollout(environment.policy(0), instances, 16, seed=1).rewards
    assert rewards.isfinite().all()
    assert row.reward_range(told).holds(rewards.flatten().tolist())


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, SHARES),
        ({"rewards": ["exact_match", "brevity"]}, Range(0, 2)),
        ({"rewards": ["exact_match", "brevity"], "reward_weights": [2.0, -0.5]}, Range(-0.5, 2)),
        ({"rewards": ["math:sqrt"]}, ANYWHERE),
    ],
)
def test_rewards_of_the_toy_language_add_up(given, wanted):
    assert ENVIRONMENTS.get("toy_llm").reward_range(LLM | given) == wanted


def test_declared_ranges():
    found = {name: ENVIRONMENTS.get(name).rewards_within for name in ("tsp", "op", "mcp", "bandit")}
    assert found == {
        "tsp": NOT_POSITIVE,
        "op": NOT_NEGATIVE,
        "mcp": NOT_NEGATIVE,
        "bandit": ANYWHERE,
    }
    bandit = ENVIRONMENTS.get("bandit")
    assert bandit.reward_range({"rewards": "binary", "reward_shift": 2.0}) == Range(2, 3)
    assert bandit.reward_range({"reward_shift": 2.0}) == ANYWHERE
    gaussian = ENVIRONMENTS.get("gaussian")
    assert gaussian.reward_range({"reward": "inside_unit"}) == SHARES
    assert gaussian.reward_range({"reward": "math:sqrt"}) == ANYWHERE


def test_differences_of_bounded_values_are_bounded():
    assert Range(2, 5).of_differences == Range(-3, 3)
    assert NOT_NEGATIVE.of_differences == ANYWHERE
    assert (SHARES.clamped(1.5), SHARES.clamped(-1), SHARES.share(2)) == (1, 0, 1)
    assert math.isnan(SHARES.clamped(math.nan))
