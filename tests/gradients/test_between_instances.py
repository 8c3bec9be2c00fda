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
from maxk_lab.gradients.scores.per_trajectory import trained, trajectory_scores
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.units import Units

K = 2


def toy_llm():
    sizes = {"vocab_size": 3, "max_length": 2, "prompt_length": 2}
    return small_environments.make("toy_llm", policy={"embed_dim": 8, "init_std": 0.5}, **sizes)


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


@pytest.mark.parametrize(("make", "size", "k"), [(toy_llm, 2, 1), (bandit, 3, 2)])
def test_the_mean_product_over_all_draws_is_the_exact_product(make, size, k):
    environment = make()
    policy, two = environment.policy(0), environment.instances(2, 1)
    exact = exact_gradients(environment, policy, two, k)
    listed = [environment.enumerate(two[i : i + 1]) for i in range(2)]
    draws, chances = [], []
    for i, (actions, _) in enumerate(listed):
        p = environment.log_probs(policy, two[i : i + 1], actions.unsqueeze(0))[0].exp()
        for rows in itertools.product(range(len(actions)), repeat=size):
            draws.append((i, actions[list(rows)]))
            chances.append(p[list(rows)].prod())
    # A pool with an instance for every possible draw: rollout i gives draw i.
    environment.enumerable, remaining = False, iter(draws)
    rollout = environment.rollout

    def forced(policy, instance, size, *, seed):
        i, actions = next(remaining)
        drawn = rollout(policy, instance, size, seed=seed)
        every, rewards = listed[i]
        rows = [int((every == one).all(1).nonzero()[0, 0]) for one in actions]
        values = {"actions": actions.unsqueeze(0), "rewards": rewards[rows].unsqueeze(0)}
        return type(drawn)(**(vars(drawn) | values))

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
    environment = small_environments.make("tsp", num_loc=6, policy={"embed_dim": 16})
    policy, instances, size = environment.policy(0).double(), environment.instances(3, 1), 20
    environment.enumerable = False
    instances = instances.double() if isinstance(instances, torch.Tensor) else instances
    pool = pool_of(environment, size, 3, (1, 4), policy, instances)
    for k in (1, 4):
        rows = []
        for i in range(3):
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
    environment, n, count = bandit(), 4, 5
    policy, instances = environment.policy(0), environment.instances(count, 1)
    exact = exact_gradients(environment, policy, instances, K)
    pool = pool_of(environment, 64, count, (1, K), policy, instances)
    cells = [cell("maxk", name, n, K, complete) for name in ("centred", "group_mean")]
    cells.append(cell("grpo", "none", n, K, complete))
    metrics = measured(pool, *cells)
    for name, scale in (("centred", 1.0), ("group_mean", 1 - K / n)):
        units = Units.from_metrics(metrics[name_of("maxk", name, n, K)])
        assert units.no_between == ""
        squares, between = units.between_instances()
        # The unbiased covariance of the gradients between instances.
        spread = float((exact - exact.mean(0)).square().sum()) / (count - 1) * scale**2
        of_mean = float(exact.mean(0).square().sum()) * scale**2 - spread / count
        assert squares.mean() == pytest.approx(of_mean, rel=1e-9)
        if complete:
            assert between.mean() == pytest.approx(spread, rel=1e-9)
    biased = Units.from_metrics(metrics[name_of("grpo", "none", n, K)])
    assert np.isnan(biased.between_instances()[1]).all()
    assert "biased in direction" in biased.no_between


def test_the_variance_of_a_step_is_that_of_all_steps():
    """Two groups of n, each of one of three instances at random: all steps are listed."""
    environment, n, count = bandit(arms=2), 2, 3
    policy, instances = environment.policy(0), environment.instances(count, 1)
    estimates = []  # (probability, ĝ) of every group of every instance
    exact = exact_gradients(environment, policy, instances, 1)
    for i in range(count):
        actions, rewards = environment.enumerate(instances[i : i + 1])
        log_probs = environment.log_probs(policy, instances[i : i + 1], actions.unsqueeze(0))[0]
        scores = trajectory_scores(log_probs, trained(policy))
        for a, b in itertools.product(range(2), repeat=n):
            w = (rewards[a] - rewards[b]).double() / 2
            chance = float(log_probs[[a, b]].detach().sum().exp()) / count
            estimates.append((chance, w * scores[a] - w * scores[b]))
    mean = sum(p * g for p, g in estimates).detach()
    step = sum(
        p * q * float(((g + h) / 2 - mean).square().sum())
        for (p, g), (q, h) in itertools.product(estimates, repeat=2)
    )
    pool = pool_of(environment, 16, count, (1,), policy, instances)
    metrics = measured(pool, cell("maxk", "centred", n, 1))
    units = Units.from_metrics(metrics[name_of("maxk", "centred", n, 1)])
    # Instances drawn from these three with replacement: the covariance with divisor I.
    between = units.between_instances()[1].mean() * (count - 1) / count
    within = (units.m2 - units.mean_square).mean()
    assert step == pytest.approx((within + between) / 2, rel=1e-9)
    assert float(exact.mean(0).norm()) == pytest.approx(float(mean.norm()), rel=1e-9)


def test_seeds_keep_their_own_instances_and_records_without_products_have_a_reason():
    def units(crosses):
        three = np.ones(3)
        return Units(np.zeros(3, dtype=int), three, three, three, three, cross_products=crosses)

    pooled = Units.pool([units(np.array([0.0, 0.5, 1.0])), units(np.array([2.0, 2.0, 2.0]))])
    squares, between = pooled.between_instances()
    assert squares.tolist() == [-0.5, 0.5, 1.5, 2.0, 2.0, 2.0]
    assert between.tolist() == [1.5, 0.5, -0.5, -1.0, -1.0, -1.0]
    earlier = Units.pool([units(np.array([0.0, 0.5, 1.0])), units(None)])
    assert earlier.no_between.startswith("no products of the instances' gradients")
    assert [math.isnan(v) for v in earlier.between_instances()[1]] == [False] * 3 + [True] * 3
    again = Units.from_metrics(earlier.as_record() | {"replicates": 0})
    assert np.array_equal(again.cross_products, earlier.cross_products, equal_nan=True)
