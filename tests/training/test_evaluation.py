"""The evaluation's curves are the unbiased ρ̂ of each instance; unscorable samples shorten a curve and do not enter it."""

from math import comb

import pytest
import torch

from maxk_lab.training.evaluation import evaluate


def test_the_curve_of_binary_rewards_is_pass_at_k(sequences):
    environment = sequences(reward=lambda actions: (actions[..., 0] == 1).double())
    policy = environment.policy(0)
    curves = evaluate(environment, policy, torch.arange(5), 8, seed=3)
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
    curves = evaluate(environment, policy, torch.arange(3), 6, seed=1)
    rewards = environment.rollout(policy, torch.arange(3), 6, seed=1).rewards
    assert not curves[0].isnan().any()
    assert curves[1].isnan().tolist() == [False] * 3 + [True] * 3
    assert curves[1, 0].item() == pytest.approx(rewards[1, 1::2].mean().item())
    assert curves[1, 2].item() == pytest.approx(rewards[1, 1::2].max().item())
    assert curves[2].isnan().all()
