"""The products of instances' gradients, and the variance of a step that they give."""

import itertools
import math

import numpy as np
import pytest
import small_environments
import torch
from score_tables import bandit, cell, measured, name_of, pool_of

from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.gradients.scores.draw import gradient_coefficients
from maxk_lab.gradients.scores.per_trajectory import trained
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.units import Units


def gradients(policy, value):
    parts = torch.autograd.grad(value, trained(policy), allow_unused=True, materialize_grads=True)
    return torch.cat([part.flatten() for part in parts])


def exact_gradients(environment, policy, instances, k):
    """∇J_K of every instance by autograd through all trajectories: [I, P]."""
    rows = []
    for i in range(len(instances)):
        instance = instances[i : i + 1]
        actions, rewards = environment.enumerate(instance)
        log_probs = environment.log_probs(policy, instance, actions.unsqueeze(0))[0]
        rows.append(gradients(policy, exact_value(log_probs.exp(), rewards.double(), k)))
    return torch.stack(rows)


def test_the_mean_product_over_all_draws_is_the_exact_product():
    environment, size, k = bandit(), 3, 2
    policy, two = environment.policy(0), environment.instances(2, 1)
    exact = exact_gradients(environment, policy, two, k)
    listed = [environment.enumerate(two[i : i + 1]) for i in range(2)]
    draws, chances = [], []
    for i, (actions, rewards) in enumerate(listed):
        p = environment.log_probs(policy, two[i : i + 1], actions.unsqueeze(0))[0].exp()
        for rows in itertools.product(range(len(actions)), repeat=size):
            drawn = {"actions": actions[list(rows)], "rewards": rewards[list(rows)]}
            draws.append((i, {name: values.unsqueeze(0) for name, values in drawn.items()}))
            chances.append(p[list(rows)].prod())
    # A pool with an instance for every possible draw: rollout i gives draw i.
    environment.enumerable, remaining = False, iter(draws)
    rollout = environment.rollout

    def forced(policy, instance, size, *, seed):
        drawn = rollout(policy, instance, size, seed=seed)
        return type(drawn)(**(vars(drawn) | next(remaining)[1]))

    environment.rollout = forced
    instances = two[[i for i, _ in draws]]
    pool = pool_of(environment, size, len(draws), (k,), policy, instances)
    count = len(draws) // 2
    p = torch.stack(chances).detach().double()
    products = pool.gradient_products[f"max@{k}"][:count, count:]
    mean = float(p[:count] @ products @ p[count:])
    assert mean == pytest.approx(float(exact[0] @ exact[1]), rel=1e-10)
    assert products.std() > 0.1 * abs(mean)


def test_the_products_of_compressed_scores_are_those_of_autograd():
    environment = small_environments.make("tsp", num_loc=5, policy={"embed_dim": 16})
    policy, instances, size = environment.policy(0).double(), environment.instances(2, 1), 20
    environment.enumerable = False
    pool = pool_of(environment, size, 2, (1, 4), policy, instances)
    assert all(len(part.gram) < size for part in pool.parts)  # some tours are drawn twice
    for k in (1, 4):
        rows = []
        for i in range(2):
            instance = instances[i : i + 1]
            seed = derive_seed("rollouts", 3, i)
            drawn = environment.rollout(policy, instance, size, seed=seed)
            weights = gradient_coefficients(drawn.rewards[0], Objective("max", k))
            log_probs = environment.log_probs(policy, instance, drawn.actions)[0]
            rows.append(gradients(policy, (log_probs * weights.to(log_probs)).sum()))
        expected = torch.stack(rows).double()
        expected = expected @ expected.T
        found = pool.gradient_products[f"max@{k}"]
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8 * float(expected.max()))


@pytest.mark.parametrize("complete", [True, False])
def test_a_step_has_the_variance_of_its_groups_and_of_their_instances(complete):
    environment, n, k, count = bandit(), 4, 2, 5
    policy, instances = environment.policy(0), environment.instances(count, 1)
    exact = exact_gradients(environment, policy, instances, k)
    pool = pool_of(environment, 64, count, (1, k), policy, instances)
    cells = [cell("maxk", name, n, k, complete) for name in ("centred", "group_mean")]
    cells.append(cell("grpo", "none", n, k, complete))
    metrics = measured(pool, *cells)
    for name, scale in (("centred", 1.0), ("group_mean", 1 - k / n)):
        units = Units.from_metrics(metrics[name_of("maxk", name, n, k)])
        assert units.no_between == ""
        squares, between = units.between_instances()
        # The unbiased covariance of the gradients between instances.
        spread = float((exact - exact.mean(0)).square().sum()) / (count - 1) * scale**2
        of_mean = float(exact.mean(0).square().sum()) * scale**2 - spread / count
        assert squares.mean() == pytest.approx(of_mean, rel=1e-9)
        if complete:
            assert between.mean() == pytest.approx(spread, rel=1e-9)
    biased = Units.from_metrics(metrics[name_of("grpo", "none", n, k)])
    assert np.isnan(biased.between_instances()[1]).all()
    assert "biased in direction" in biased.no_between


def test_pseudo_values_are_those_of_the_jackknife_by_seed_or_have_a_reason():
    def units(crosses, count=3):
        one = np.ones(count)
        return Units(np.zeros(count, dtype=int), one, one, one, one, cross_products=crosses)

    gradients = np.random.default_rng(0).normal(size=(7, 4))
    crosses = (gradients @ gradients.T - np.diag((gradients**2).sum(1))).sum(1) / 6
    squares, _ = units(crosses, 7).between_instances()
    for i in range(7):
        sums = np.delete(gradients, i, axis=0)
        without = ((sums.sum(0) ** 2).sum() - (sums**2).sum()) / 30
        assert squares[i] == pytest.approx(7 * crosses.mean() - 6 * without, rel=1e-12)
    # Two instances have no spread, so no interval about others.
    assert units(np.ones(2), 2).no_between

    pooled = Units.pool([units(np.array([0.0, 0.5, 1.0])), units(np.array([2.0, 2.0, 2.0]))])
    squares, between = pooled.between_instances()
    assert squares.tolist() == [-1.5, 0.5, 2.5, 2.0, 2.0, 2.0]
    assert between.tolist() == [2.5, 0.5, -1.5, -1.0, -1.0, -1.0]
    earlier = Units.pool([units(np.array([0.0, 0.5, 1.0])), units(None)])
    assert earlier.no_between.startswith("no products of the instances' gradients")
    assert [math.isnan(v) for v in earlier.between_instances()[1]] == [False] * 3 + [True] * 3
    again = Units.from_metrics(earlier.as_record() | {"replicates": 0})
    assert np.array_equal(again.cross_products, earlier.cross_products, equal_nan=True)
