"""Objectives: weights from another definition, names, refusals, values of distributions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
import torch
from torch import Tensor

from maxk_lab.estimators.objectives import FORMS, Objective
from maxk_lab.estimators.value import distribution_value, order_weight
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights

PROBABILITIES = torch.tensor([0.1, 0.35, 0.05, 0.3, 0.2], dtype=torch.float64)
REWARDS = torch.tensor([2.0, -1.0, 0.5, -1.0, 4.0], dtype=torch.float64)


@pytest.mark.parametrize("k", [1, 3, 20])
def test_cvar_is_the_mean_of_the_best_share(k: int) -> None:
    """Of a sorted list that holds each of k values 100 times."""
    for share in ("0.07", "0.49", "0.25", "0.95", "1.0"):
        best = [j // 100 for j in range(100 * k)][-round(100 * k * float(share)) :]
        top = [best.count(j) / len(best) for j in range(k)]
        assert Objective(f"cvar_upper[{share}]", k).order_weights == pytest.approx(top, rel=1e-15)


def test_the_weights_of_forms_and_which_are_the_maximum() -> None:
    assert Objective("top_m", 3).order_weights == (0.0, 0.5, 0.5)
    assert Objective("order[-1 2.5]", 2).order_weights == (-1.0, 2.5)
    assert not Objective("order[2.0]", 1).is_max
    assert Objective("cvar_upper[0.01]", 7).is_max


@pytest.mark.parametrize("k", [1, 2, 7])
def test_tail_rl_is_the_sum_of_max_at_j_over_j(k: int) -> None:
    own, parts = Objective("tail_rl", k), [Objective("max", j) for j in range(1, k + 1)]
    value, *others = (distribution_value(PROBABILITIES, REWARDS, one) for one in (own, *parts))
    assert float(value) == pytest.approx(sum(float(v) / j for j, v in enumerate(others, 1)))
    assert own.exact_weights == tuple(Fraction(1, k + 1 - j) for j in range(1, k + 1))
    if k > 1:  # no constant added to all rewards moves the weights of subloo
        assert sum(own.exact_reduced) == sum(own.exact_weights)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_mixture_has_the_value_of_both_parts(share: float) -> None:
    parts = Objective("cvar_upper[0.7]", 4), Objective("max", 2)
    mixed = Objective.mixture(share, *parts)
    value, *both = (float(distribution_value(PROBABILITIES, REWARDS, o)) for o in (mixed, *parts))
    assert value == pytest.approx(share * both[0] + (1 - share) * both[1], rel=1e-14)
    assert mixed.k == (2 if share == 0 else 4)
    assert Objective.mixture(share, parts[0], parts[0]) == parts[0]


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("order", "tail_rl")])
def test_named_forms_have_mass_one_and_keep_their_form(form: str) -> None:
    for k in (2, 3, 9):
        own = Objective(form, k)
        assert own.mass == sum(own.exact_weights) == sum(own.exact_reduced) == 1
        if form != "top_m" or k > 2:
            assert own.exact_reduced == Objective(form, k - 1).exact_weights
    assert Objective("top_m[2]", 2).exact_reduced == (1,)


def test_explicit_weights_are_rebinned() -> None:
    """Against the overlap of the equal parts of [0, 1], worked out part by part."""
    own = Objective("order[0.1 -0.4 2 0.3]", 4)
    assert own.mass == 2.0
    expected = [
        sum(
            float(weight)
            * 4
            * max(
                Fraction(0),
                min(Fraction(i, 4), Fraction(j, 3)) - max(Fraction(i - 1, 4), Fraction(j - 1, 3)),
            )
            for i, weight in enumerate(own.exact_weights, 1)
        )
        for j in range(1, 4)
    ]
    assert [*map(float, own.exact_reduced)] == pytest.approx(expected, rel=1e-14)
    assert sum(own.exact_reduced) == 2
    assert Objective("order[0 0 0 1]", 4).exact_reduced == (0, 0, 1)


@pytest.mark.parametrize(
    ("form", "k", "name"),
    [
        ("max", 8, "max@8"),
        (" top_m[ 02 ]", 8, "top_m[2]@8"),
        ("cvar_upper", 4, "cvar_upper[0.25]@4"),
        ("cvar_upper[1]", 4, "cvar_upper[1.0]@4"),
        ("order[0, .5,-0 .5]", 4, "order[0.0 0.5 0.0 0.5]@4"),
    ],
)
def test_names(form: str, k: int, name: str) -> None:
    own = Objective(form, k)
    assert (own.name, Objective.parse(name)) == (name, own)
    assert Objective.parse("pass@8") == Objective("max", 8)


def over_all_tuples(probabilities: Tensor, rewards: Tensor, objective: Objective) -> Tensor:
    """Σ over all A^K tuples of their probability and Σ_j α_j R_(j)."""
    alpha = torch.tensor(objective.order_weights, dtype=torch.float64)
    drawn = torch.tensor(list(product(range(len(rewards)), repeat=objective.k)))
    return probabilities[drawn].prod(-1) @ (rewards[drawn].sort(-1).values @ alpha)


@pytest.mark.parametrize(
    "name",
    ["max@1", "max@3", "top_m[2]@4", "cvar_upper[0.3]@4", "tail_rl@4", "order[-0.5 0.3 2]@3"],
)
def test_value_and_slope_of_a_distribution_are_those_of_all_tuples(name: str) -> None:
    objective = Objective.parse(name)
    slopes = []
    for value_of in (distribution_value, over_all_tuples):
        logits = PROBABILITIES.log().requires_grad_()
        value = value_of(logits.softmax(0), REWARDS, objective)
        slopes.append((value.detach(), torch.autograd.grad(value, logits)[0]))
    torch.testing.assert_close(slopes[0][0], slopes[1][0], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(slopes[0][1], slopes[1][1], rtol=1e-11, atol=1e-13)
    shifted = distribution_value(PROBABILITIES, REWARDS - 1e6, objective) + 1e6 * objective.mass
    assert shifted.item() == pytest.approx(slopes[0][0].item(), abs=1e-9)
    scores = torch.eye(5, dtype=torch.float64) - PROBABILITIES
    for shift in (0.0, -1e4):
        weights = exact_gradient_weights(PROBABILITIES, REWARDS + shift, objective)
        torch.testing.assert_close(weights @ scores, slopes[1][1], rtol=1e-10, atol=1e-11)


def test_the_general_way_gives_the_maximum_too() -> None:
    mass = torch.linspace(0, 1, 11, dtype=torch.float64)
    for k in (1, 2, 7, 1000):
        alpha = [0.0] * (k - 1) + [1.0]
        written = Objective(f"order[{' '.join(map(str, alpha))}]", k)
        torch.testing.assert_close(order_weight(mass, written), mass**k, rtol=1e-10, atol=1e-300)


def test_slopes_at_the_ends_are_finite_and_right() -> None:
    """H'(0) = K α_1 and H'(1) = K α_K, also where rounding leaves [0, 1]."""
    mass = torch.tensor([0.0, 1.0, 1.0 + 4e-16], dtype=torch.float64, requires_grad=True)
    order_weight(mass, Objective("order[0.5 0.2 0.3]", 3)).sum().backward()
    torch.testing.assert_close(mass.grad, torch.tensor([1.5, 0.9, 0.9], dtype=torch.float64))


def test_a_large_k_overflows_nothing() -> None:
    uniform = torch.full((200,), 1 / 200, dtype=torch.float64)
    rewards = torch.arange(200, dtype=torch.float64)
    middle = " ".join("1" if j == 1000 else "0" for j in range(2001))
    median = distribution_value(uniform, rewards, Objective(f"order[{middle}]", 2001))
    assert median.item() == pytest.approx(99.5, abs=1e-6)
