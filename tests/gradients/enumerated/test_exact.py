"""Exact J_K and ∇J_K against enumerated K-tuples, autograd and identities."""

import itertools

import pytest
import torch

from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError
from maxk_lab.gradients.enumerated.exact import (
    checked_probabilities,
    exact_gradient,
    exact_gradient_weights,
    exact_value,
)


def brute_force(probabilities, rewards, k):
    total = torch.zeros((), dtype=torch.float64)
    for arms in itertools.product(range(len(rewards)), repeat=k):
        total = total + probabilities[list(arms)].prod() * rewards[list(arms)].max()
    return total


@pytest.mark.parametrize(
    "rewards", [[0.3, -1.0, 2.0, 0.5], [1.0, 1.0, 0.0, 1.0], [-1e4, -1e4 + 1e-3, -1e4, -1e4 - 1e-3]]
)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_value_and_gradient_equal_the_sum_over_all_k_tuples(rewards, k):
    rewards = torch.tensor(rewards, dtype=torch.float64)
    logits = torch.tensor([0.1, -0.4, 0.2, 0.9], dtype=torch.float64, requires_grad=True)
    slow = brute_force(logits.softmax(0), rewards - rewards.max(), k)
    (slow_gradient,) = torch.autograd.grad(slow, logits)
    probabilities = logits.softmax(0).detach()
    assert exact_value(probabilities, rewards, k).item() == pytest.approx(
        (slow + rewards.max()).item(), rel=1e-12
    )
    scores = torch.eye(4).double() - probabilities
    fast_gradient = exact_gradient_weights(probabilities, rewards, k) @ scores
    torch.testing.assert_close(fast_gradient, slow_gradient, rtol=1e-10, atol=1e-14)


def test_gradient_of_a_neural_policy_equals_autograd_through_the_value():
    policy_parameters = {
        "embed_dim": 16,
        "num_encoder_layers": 1,
        "num_heads": 2,
        "feedforward_hidden": 16,
        "dtype": "float64",
    }
    environment = make_environment({"name": "tsp", "num_loc": 5}, policy_parameters)
    policy, instance = environment.policy(0), environment.instances(1, 1)
    listed, rewards = environment.enumerate(instance)
    parameters = list(policy.parameters())
    log_probs = environment.log_probs(policy, instance, listed.unsqueeze(0))[0]
    gradients = torch.autograd.grad(
        exact_value(log_probs.exp(), rewards, 3), parameters, allow_unused=True
    )
    slow = torch.cat(
        [
            torch.zeros(p.numel()).double() if g is None else g.flatten()
            for g, p in zip(gradients, parameters)
        ]
    )
    weights = exact_gradient_weights(log_probs.detach().exp(), rewards, 3)
    fast = exact_gradient(
        lambda i, j: environment.log_probs(policy, instance, listed[i:j].unsqueeze(0))[0],
        weights,
        parameters,
        chunk=50,
    )
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("probabilities", [[0.5, 0.4], [0.25, 0.16], [0.7, 0.6]])
def test_probabilities_that_do_not_sum_to_1_are_log_probs_fault_or_the_list_s(probabilities):
    given = torch.tensor(probabilities).double()
    said = rf"log_probs, sum to {sum(probabilities):.6g} and not to 1: log_probs must be .* lacks"
    with pytest.raises(LabError, match=said):
        checked_probabilities(given.log())
