"""The curves are the unbiased ρ̂ of each instance; extras are measured, or have a reason."""

from math import comb

import pytest
import torch
from small_environments import make

from maxk_lab.training.evaluation import (
    decoded,
    max_curves,
    sample_rewards,
)
from maxk_lab.training.settings import EXTRAS, EvaluationSettings


def test_the_curve_of_binary_rewards_is_pass_at_k(sequences):
    environment = sequences(reward=lambda actions: (actions[..., 0] == 1).double())
    policy = environment.policy(0)
    curves = max_curves(sample_rewards(environment, policy, torch.arange(5), 8, seed=3))
    rewards = environment.rollout(policy, torch.arange(5), 8, seed=3).rewards
    correct = rewards.sum(1).long().tolist()
    assert len(set(correct)) > 1
    for row, c in enumerate(correct):
        expected = [1 - comb(8 - c, k) / comb(8, k) for k in range(1, 9)]
        assert curves[row].tolist() == pytest.approx(expected, abs=1e-12)


def test_unscorable_samples_are_left_out(sequences):
    def reward(actions):
        """A group of 3 instances: all scorable, half of them, none."""
        values = actions.sum(-1).double()
        values[1, ::2] = torch.nan
        values[2] = torch.nan
        return values

    environment = sequences(reward=reward)
    policy = environment.policy(0)
    curves = max_curves(sample_rewards(environment, policy, torch.arange(3), 6, seed=1))
    rewards = environment.rollout(policy, torch.arange(3), 6, seed=1).rewards
    assert not curves[0].isnan().any()
    assert curves[1].isnan().tolist() == [False] * 3 + [True] * 3
    assert curves[1, 0].item() == pytest.approx(rewards[1, 1::2].mean().item())
    assert curves[1, 2].item() == pytest.approx(rewards[1, 1::2].max().item())
    assert curves[2].isnan().all()


ALL = ("greedy", "augmentation", "multistart", "multistart_augmentation")


def measured(environment, instances, names=ALL):
    policy = environment.policy(0)
    evaluate = EvaluationSettings(extras=names, samples=6)
    where = environment, policy, instances, evaluate
    return decoded(*where, temperatures=(), seed=1, extras_seed=2)


def test_an_environment_that_cannot_be_turned_says_so():
    environment = make("smtwtp", num_job=5)
    found = measured(environment, environment.instances(2, 1), ("greedy", "augmentation"))
    assert found["greedy"].shape == (2,)
    assert "no coordinates to rotate" in found["greedy_augmented"]


def test_the_extras_of_a_routing_problem():
    environment = make("tsp", "float32", num_loc=6)
    instances = environment.instances(4, 1)
    found = measured(environment, instances)
    assert {rewards.dtype for rewards in found.values()} == {torch.float64}
    assert {way: tuple(rewards.shape) for way, rewards in found.items()} == (
        dict.fromkeys(EXTRAS, (4,)) | {"forced": (4, 6)}
    )
    # The unturned copy is one of the eight.
    assert (found["greedy_augmented"] >= found["greedy"] - 1e-6).all()
    assert (found["greedy_multistart_augmented"] >= found["greedy_multistart"] - 1e-6).all()
    policy = environment.policy(0)
    forced = sample_rewards(environment.forced_starts(), policy, instances, 6, 2)
    assert torch.equal(found["multistart_sampling"], forced.amax(1))
