"""Coverage of the whole chain on bandits: pool → units → interval against exact variances."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators import advantages, maxk_reward_estimate
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.measures import LIKE_THESE, THESE
from maxk_lab.statistics.units import Units

TRIALS = 300
CELL = {"id": "c", "estimator": "maxk", "baseline": "subloo", "n": 4, "k": 2, "partitions": 2}


def exact_variances(probabilities, rewards):
    """tr Cov ĝ and Var ρ̂ of every reward table: rewards [I, A] → [I] each, listing all groups.

    Neither depends on the order of a group: one of each multiset stands for all its orders.
    """
    arms, n = len(probabilities), CELL["n"]
    scores = torch.eye(arms).double() - probabilities
    groups = torch.tensor(list(itertools.combinations_with_replacement(range(arms), n)))
    counts = torch.nn.functional.one_hot(groups, arms).sum(1).double()
    orders = math.factorial(n) / (counts + 1).lgamma().exp().prod(1)
    chance = orders * probabilities[groups].prod(1)
    torch.testing.assert_close(chance.sum(), torch.ones((), dtype=chance.dtype))
    weights = advantages(
        rewards[:, groups], estimator="maxk", baseline=CELL["baseline"], k=CELL["k"]
    )
    estimates = torch.einsum("ign,gnp->igp", weights, scores[groups])
    mean = torch.einsum("g,igp->ip", chance, estimates)
    values = maxk_reward_estimate(rewards[:, groups], CELL["k"])
    return {
        "variance": torch.einsum("g,igp->i", chance, estimates.square()) - mean.square().sum(1),
        "value_variance": values.square() @ chance - (values @ chance).square(),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "pool_size", "question"),
    [(2, 512, THESE), pytest.param(24, 64, LIKE_THESE, marks=pytest.mark.deep)],
)
def test_the_95_percent_intervals_of_variances_cover_95_percent_of_the_time(
    count, pool_size, question
):
    environment = make_environment(
        {"name": "bandit", "arms": 4, "reward_shift": 0.0}, {"init_std": 0.5, "dtype": "float64"}
    )
    policy = environment.policy(0)
    probabilities = policy().exp().detach()
    fixed = environment.instances(count, 1)
    population = fixed if question == THESE else environment.instances(50_000, 2)
    truth = {
        name: values.mean().item()
        for name, values in exact_variances(probabilities, population).items()
    }
    hits, asked = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    for trial in range(TRIALS):
        instances = fixed if question == THESE else environment.instances(count, 1000 + trial)
        pool = draw_pool(
            environment, policy, instances, count, pool_size, objectives=[2], seed=trial
        )
        ((_, metrics),) = measure_cells(pool, [CELL], seed=trial)
        for name, value in truth.items():
            found = interval(Units.from_metrics(metrics), name)
            # A sample of which too few carry the mean is about itself, and says so.
            asked[name] += found.question == question
            hits[name] += found.question == question and found.low <= value <= found.high
    # One about new instances is withheld where one of 24 carries too much of the mean.
    least = 0.95 if question == THESE else 0.6
    assert all(count >= least * TRIALS for count in asked.values()), asked
    # Binomial(300, 0.95) lies between 0.906 and 0.983 in 99.8 of 100 runs.
    assert all(0.906 <= hits[name] / asked[name] <= 0.983 for name in hits), hits


def test_a_rate_that_no_group_showed_is_bounded_by_how_many_groups_there_were():
    units = [
        Units(
            np.zeros(4, np.int64),
            *np.ones((4, 4)),
            measures={"dead_gradient_rate": np.zeros(4)},
            groups=groups,
        )
        for groups in (64, 64)
    ]
    found = interval(Units.pool(units), "dead_gradient_rate")
    assert (found.value, found.low) == (0.0, 0.0)
    # P(no dead group among 128 | rate) = (1 - rate)^128 falls to 2.5 % at the upper end.
    assert (1 - found.high) ** 128 == pytest.approx(0.025)
    always = interval(
        replace(units[0], measures={"dead_gradient_rate": np.ones(4)}), "dead_gradient_rate"
    )
    assert (always.value, always.high) == (1.0, 1.0)
    assert always.low**64 == pytest.approx(0.025)
