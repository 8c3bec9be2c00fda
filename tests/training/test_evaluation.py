"""The curves are the unbiased ρ̂ of each instance; extras are measured, or have a reason."""

from math import comb

import numpy as np
import pytest
import torch
from small_environments import make

from maxk_lab.environments.environment import make_environment
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.training.evaluation import (
    max_curves,
    measure_extras,
    reward_quantiles,
    sample_rewards,
)


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


@pytest.mark.slow
def test_a_uniform_policy_on_five_cities_has_the_curve_of_the_enumerated_tours():
    environment = make_environment(
        {"name": "tsp", "num_loc": 5},
        {
            "embed_dim": 16,
            "num_encoder_layers": 1,
            "num_heads": 2,
            "feedforward_hidden": 16,
            "dtype": "float64",
        },
    )
    policy = environment.policy(0)
    for parameter in policy.parameters():
        parameter.data.zero_()
    instances = environment.instances(60, 1, held_out=True)
    exact = torch.empty(60, 12, dtype=torch.float64)
    for i in range(60):
        one = environment.select(instances, i)
        actions, rewards = environment.enumerate(one)
        with torch.no_grad():
            chances = environment.log_probs(policy, one, actions.unsqueeze(0))[0].exp()
        torch.testing.assert_close(chances, torch.full_like(chances, 1 / 120), rtol=1e-12, atol=0)
        exact[i] = torch.stack(
            [torch.as_tensor(exact_value(chances, rewards, k)) for k in range(1, 13)]
        )
    difference = max_curves(sample_rewards(environment, policy, instances, 12, seed=2)) - exact
    z = difference.mean(0) / (difference.std(0) / 60**0.5)
    assert z.abs().max() < 3.5
    assert difference.mean(0).abs().max() < 0.05


def test_quantiles_are_of_each_instances_scored_samples():
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randn(4, 9, generator=generator, dtype=torch.float64)
    for fraction in (0.5, 0.9, 0.99):
        expected = np.quantile(rewards.numpy(), fraction, axis=1, method="linear")
        assert reward_quantiles(rewards, fraction).tolist() == pytest.approx(
            expected.tolist(), rel=1e-12
        )
    rewards[1, ::2] = torch.nan
    rewards[2] = torch.nan
    found = reward_quantiles(rewards, 0.9)
    assert found[1].item() == pytest.approx(np.quantile(rewards[1, 1::2].numpy(), 0.9))
    assert found.isnan().tolist() == [False, False, True, False]


@pytest.mark.parametrize("name", ["tsp", "toy_llm"])
@pytest.mark.parametrize("temperature", [0.25, 4.0])
def test_samples_at_a_temperature_estimate_max_at_k_of_the_tempered_policy(name, temperature):
    small = {"vocab_size": 4, "max_length": 3, "prompt_length": 3}
    environment = make(name, **small if name == "toy_llm" else {"num_loc": 5})
    policy, count = environment.policy(0), 4000
    # An untrained policy is near to uniform, and hardly another at another temperature.
    for parameter in policy.parameters():
        parameter.data.mul_(3 if name == "tsp" else 1.9)
    one = environment.select(environment.instances(1, 1), 0)
    actions, rewards = environment.enumerate(one)
    tempered = environment.tempered(temperature)
    with torch.no_grad():
        plain, chances = (
            each.log_probs(policy, one, actions.unsqueeze(0))[0].exp().double()
            for each in (environment, tempered)
        )
    many = one.repeat(count, 1) if name == "toy_llm" else one.expand(count)
    curves = max_curves(sample_rewards(tempered, policy, many, 4, seed=2))
    for k in (1, 2, 4):
        exact, other = (float(exact_value(each, rewards, k)) for each in (chances, plain))
        values = curves[:, k - 1]
        error = float(values.std()) / count**0.5
        assert abs(float(values.mean()) - exact) < 4 * error
        if k == 1:
            assert abs(exact - other) > 6 * error


ALL = ("greedy", "augmentation", "multistart", "multistart_augmentation")


def measured(environment, instances, names=ALL):
    policy = environment.policy(0)
    return measure_extras(environment, policy, instances, names, samples=6, seed=2)


def test_an_environment_without_them_says_so(sequences):
    found = measured(sequences(), torch.arange(3))
    assert list(found) == [
        "greedy", "greedy_augmented", "greedy_multistart", "multistart_sampling",
        "greedy_multistart_augmented",
    ]  # fmt: skip
    assert found["greedy"] == "this environment has no greedy decoding"
    assert found["multistart_sampling"] == "this environment has no forced starts"


def test_only_what_is_asked_for_is_measured(sequences):
    assert measured(sequences(), torch.arange(3), ()) == {}
    assert list(measured(sequences(), torch.arange(3), ("greedy",))) == ["greedy"]


def test_the_extras_of_a_routing_problem():
    environment = make_environment(
        {"name": "tsp", "num_loc": 6},
        {
            "embed_dim": 16,
            "num_encoder_layers": 1,
            "num_heads": 2,
            "feedforward_hidden": 16,
            "dtype": "float32",
        },
    )
    instances = environment.instances(4, 1)
    found = measured(environment, instances)
    assert all(
        rewards.shape == (4,) and rewards.dtype == torch.float64 for rewards in found.values()
    )
    # The unturned copy is one of the eight.
    assert (found["greedy_augmented"] >= found["greedy"] - 1e-6).all()
    assert (found["greedy_multistart_augmented"] >= found["greedy_multistart"] - 1e-6).all()
    policy = environment.policy(0)
    forced = sample_rewards(environment.forced_starts(), policy, instances, 6, 2)
    assert torch.equal(found["multistart_sampling"], forced.amax(1))
