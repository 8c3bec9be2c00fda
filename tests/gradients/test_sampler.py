"""A sampler that draws from another distribution than log_probs gives is found, a sound one not."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import small_environments
import torch

from maxk_lab.errors import LabError
from maxk_lab.gradients.scores.draw import draw_pool, perturbed
from maxk_lab.gradients.scores.per_trajectory import trained
from maxk_lab.gradients.scores.sampler import (
    FALSE_ALARM,
    check_drawn,
    chosen,
    log_counting_bet,
    log_moved_policy_bet,
)

# Trajectories that can be listed, and so many that they cannot.
FEW = {"vocab_size": 4, "max_length": 3, "prompt_length": 3}
MANY = {"vocab_size": 8, "max_length": 8, "prompt_length": 4}
REFUSED = "rollout draws are not distributed as its log_probs says"


def changed(environment, **methods):
    """The environment with other methods."""
    other = copy.copy(environment)
    vars(other).update(methods)
    return other


WRONG = {
    "temperature": lambda it: {"rollout": it.tempered(2.0).rollout},
    "policy": lambda it: {
        "rollout": lambda _, *rest, seed: it.rollout(it.policy(5), *rest, seed=seed)
    },
    "sign": lambda it: {"log_probs": lambda *of: -it.log_probs(*of)},
    "position": lambda it: {
        "log_probs": lambda policy, x, actions: it.log_probs(policy, x, actions.roll(1, -1))
    },
}


def pool_of(environment, policy, size=256, **settings):
    instances = environment.instances(4, 1)
    return draw_pool(environment, policy, instances, 4, size, objectives=[2], seed=3, **settings)


def decided(environment, scale=2.0):
    """A policy that is further from uniform than a fresh one."""
    policy = environment.policy(0)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(scale)
    return policy


@pytest.mark.parametrize(
    ("sizes", "wrong"), [(FEW, "temperature"), *((MANY, name) for name in WRONG)]
)
def test_a_sampler_of_another_distribution_is_refused(sizes, wrong):
    environment = small_environments.make("toy_llm", "float32", **sizes)
    policy = decided(environment)
    if wrong == "temperature":
        pool_of(environment, policy)
    with pytest.raises(LabError, match=REFUSED) as caught:
        pool_of(changed(environment, **WRONG[wrong](environment)), policy)
    assert "temperature, masks and nucleus" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("bandit", {"init_std": 3.0}),
        ("gaussian", {}),
        # Whose scores have heavy tails.
        ("gaussian", {"mean": 0.9, "learn_scale": True}),
    ],
)
def test_bets_against_a_sound_environment_win_nothing_on_average(name, policy):
    environment = small_environments.make(name, policy=policy)
    won = []
    for seed in range(120):
        acting, instances = environment.policy(seed), environment.instances(2, seed)
        drawn = [
            (one, environment.rollout(acting, one, 16, seed=10 * seed + i).actions[0])
            for i in range(2)
            for one in [instances[i : i + 1]]
        ]
        won.append(math.exp(log_moved_policy_bet(environment, acting, drawn)))
    payoffs = torch.tensor(won)
    assert payoffs.mean() <= 1 + 4 * payoffs.std() / len(won) ** 0.5
    assert (payoffs > 100).sum() <= 6  # Markov: 1.2 are expected at most
    assert payoffs.max() < 1 / FALSE_ALARM


@pytest.mark.parametrize("chances", [[0.5, 0.3, 0.2], [0.98, 0.02, 0.0], [1.0]])
def test_a_bet_on_counts_has_a_mean_of_exactly_1(chances):
    """Summed over all that three draws of one instance and two of another can be."""
    chance = torch.tensor(chances, dtype=torch.float64)
    listed = range(len(chances))
    mean = 0.0
    for rows in itertools.product(listed, repeat=5):
        drawn = torch.tensor(rows)
        if probability := float(chance[drawn].prod()):
            bet = log_counting_bet([(drawn[:3], chance), (drawn[3:], chance)])
            mean += probability * math.exp(bet)
    assert mean == pytest.approx(1.0, abs=1e-9)


def test_a_bet_on_counts_wins_against_another_temperature_and_the_impossible():
    chance = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    counts = (1000 * chance**2 / chance.square().sum()).round().long()
    for won, drawn in ((False, (1000 * chance).round().long()), (True, counts)):
        rows = torch.arange(3).repeat_interleave(drawn)
        assert (log_counting_bet([(rows, chance)]) > -math.log(FALSE_ALARM)) == won
    assert log_counting_bet([(torch.tensor([1]), torch.tensor([1.0, 0.0]).double())]) == math.inf


def test_a_sampler_is_compared_with_the_policy_that_draws():
    environment = small_environments.make("toy_llm", "float64", **FEW)
    policy = decided(environment)
    behaviour = perturbed(policy, 3.0, 1)
    assert pool_of(environment, policy, behaviour=behaviour).off_policy
    wrong = changed(environment, **WRONG["temperature"](environment))
    with pytest.raises(LabError, match=REFUSED):
        pool_of(wrong, policy, behaviour=behaviour)


def test_the_policy_and_the_random_state_are_as_before():
    environment = small_environments.make("toy_llm", "float32", **MANY)
    policy = decided(environment)
    before, state = [p.detach().clone() for p in trained(policy)], torch.get_rng_state()
    for one in (environment, changed(environment, **WRONG["sign"](environment))):
        try:
            pool_of(one, policy, 64)
        except LabError:
            assert one is not environment
    assert all(torch.equal(p, old) for p, old in zip(trained(policy), before, strict=True))
    assert all(p.grad is None for p in trained(policy))
    assert torch.equal(torch.get_rng_state(), state)


def test_trajectories_that_cannot_be_drawn_are_refused():
    environment = small_environments.make("bandit")

    def impossible(policy, instances, actions):
        log_probs = environment.log_probs(policy, instances, actions)
        return log_probs.masked_fill(actions[..., 0] == 0, -math.inf)

    environment.enumerable = False
    with pytest.raises(LabError, match="won infinitely many times its stake"):
        pool_of(changed(environment, log_probs=impossible), environment.policy(0))


@pytest.mark.parametrize("sizes", [FEW, MANY])
def test_log_probs_without_a_gradient_are_told(sizes):
    environment = small_environments.make("toy_llm", "float32", **sizes)

    def detached(policy, instances, actions):
        return environment.log_probs(policy, instances, actions).detach()

    wrong, policy = changed(environment, log_probs=detached), environment.policy(0)
    with pytest.raises(LabError, match="environment's log_probs returns a tensor that has no grad"):
        pool_of(wrong, policy, 16)
    instances = environment.instances(2, 1)
    actions = environment.rollout(policy, instances, 4, seed=1).actions
    with pytest.raises(LabError, match="environment's log_probs returns a tensor that has no grad"):
        check_drawn(wrong, policy, instances, actions)


def test_a_policy_whose_likelihood_has_no_slope_wins_nothing():
    environment = small_environments.make("bandit")

    def constant(policy, instances, actions):
        return 0.0 * environment.log_probs(policy, instances, actions)

    policy, instance = environment.policy(0), environment.instances(1, 1)
    drawn = [(instance, environment.rollout(policy, instance, 16, seed=1).actions[0])]
    assert log_moved_policy_bet(changed(environment, log_probs=constant), policy, drawn) == 0.0


@pytest.mark.parametrize(
    ("count", "size", "instances", "each"),
    [(1, 64, [0], 64), (3, 4096, [0, 1, 2], 341), (64, 256, list(range(0, 64, 8)), 128)],
)
def test_a_bounded_number_of_trajectories_is_bet_on(count, size, instances, each):
    chosen_instances, chosen_each = chosen(count, size)
    assert (list(chosen_instances), chosen_each) == (instances, each)
