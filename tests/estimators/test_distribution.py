"""The exact value of an objective against the sum over every tuple of K rewards."""

from itertools import product

import pytest
import torch

from maxk_lab.estimators.distribution import distribution_value, order_weight
from maxk_lab.estimators.objectives import Objective

PROBABILITIES = torch.tensor([0.1, 0.35, 0.05, 0.3, 0.2], dtype=torch.float64)
REWARDS = torch.tensor([2.0, -1.0, 0.5, -1.0, 4.0], dtype=torch.float64)
FORMS = [
    "max@1",
    "max@3",
    "top_m[2]@4",
    "cvar_upper[0.3]@4",
    "cvar_lower[0.5]@3",
    "median@3",
    "median@4",
    "trimmed_mean[0.2]@4",
    "l_statistic[1 0 0]@3",
    "l_statistic[-0.5 0.3 2]@3",
]


def brute(probabilities, rewards, objective):
    """Σ over all A^K tuples of their probability and Σ_j α_j R_(j)."""
    alpha = torch.tensor(objective.order_weights, dtype=torch.float64)
    return sum(
        probabilities[list(drawn)].prod() * (alpha @ rewards[list(drawn)].sort().values)
        for drawn in product(range(len(rewards)), repeat=objective.k)
    )


@pytest.mark.parametrize("name", FORMS)
def test_value_and_slope_are_those_of_all_tuples(name):
    objective = Objective.parse(name)
    slopes = []
    for value_of in (distribution_value, brute):
        logits = PROBABILITIES.log().requires_grad_()
        value = value_of(logits.softmax(0), REWARDS, objective)
        slopes.append((value.detach(), torch.autograd.grad(value, logits)[0]))
    torch.testing.assert_close(slopes[0][0], slopes[1][0], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(slopes[0][1], slopes[1][1], rtol=1e-11, atol=1e-13)


def test_the_general_way_gives_the_maximum_too():
    mass = torch.linspace(0, 1, 11, dtype=torch.float64)
    for k in (1, 2, 7, 1000):
        alpha = [0.0] * (k - 1) + [1.0]
        written = Objective(f"l_statistic[{' '.join(map(str, alpha))}]", k)
        torch.testing.assert_close(order_weight(mass, written), mass**k, rtol=1e-10, atol=1e-300)


def test_slopes_at_the_ends_are_finite_and_right():
    """H'(0) = K α_1 and H'(1) = K α_K, also where rounding leaves [0, 1]."""
    mass = torch.tensor([0.0, 1.0, 1.0 + 4e-16], dtype=torch.float64, requires_grad=True)
    order_weight(mass, Objective("l_statistic[0.5 0.2 0.3]", 3)).sum().backward()
    torch.testing.assert_close(mass.grad, torch.tensor([1.5, 0.9, 0.9], dtype=torch.float64))


def test_a_large_k_overflows_nothing():
    uniform = torch.full((200,), 1 / 200, dtype=torch.float64)
    rewards = torch.arange(200, dtype=torch.float64)
    median = distribution_value(uniform, rewards, Objective("median", 2001))
    assert median.item() == pytest.approx(99.5, abs=1e-6)


def test_an_offset_costs_no_precision():
    objective = Objective.parse("top_m[2]@4")
    value = distribution_value(PROBABILITIES, REWARDS, objective)
    shifted = distribution_value(PROBABILITIES, REWARDS - 1e6, objective) + 1e6
    assert shifted.item() == pytest.approx(value.item(), abs=1e-9)
