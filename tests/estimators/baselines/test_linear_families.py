"""Laws of the linear families of baselines and of the least squares that fit their coefficients."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from maxk_lab import estimators
from maxk_lab.estimators.baselines.least_squares import normal_equations, solve
from maxk_lab.estimators.baselines.linear_families import FAMILIES, family_terms
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.reference import linear_families as reference

CASES = [
    (family, n, k)
    for family in FAMILIES
    for n in (1, 2, 3, 5, 7)
    for k in range(1, n + 1)
    if family == "constant" or 2 <= k < n
]


def draw(n: int, *shape: int, seed: int = 0) -> Tensor:
    """Rewards to one decimal place, so that some are equal."""
    generator = torch.Generator().manual_seed(seed + n)
    return torch.randn(*shape, n, generator=generator, dtype=torch.float64).round(decimals=1)


def weights(rewards: Tensor, k: int, family: str, coefficients: list[float]) -> Tensor:
    """The family's weights at these coefficients."""
    start, directions = family_terms(rewards, k, family)
    return start + directions @ torch.tensor(coefficients, dtype=torch.float64)


@pytest.mark.parametrize(("family", "n", "k"), CASES)
def test_terms_are_their_definition(family: str, n: int, k: int) -> None:
    rewards = draw(n, 2, 3)
    for found, expected in zip(
        family_terms(rewards, k, family), reference.family_terms(rewards, k, family), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-13)


@pytest.mark.parametrize(("n", "k"), [(4, 2), (7, 4), (64, 8), (64, 63)])
@pytest.mark.parametrize("change", [lambda r: r, lambda r: 1e-3 * r - 1e4])
def test_corners_are_the_baselines_of_that_name(n: int, k: int, change: Any) -> None:
    rewards = change(draw(n, 3))
    zeros = [0.0] * (k - 1)
    corners = [
        (weights(rewards, k, "affine", [0.0]), estimators.centred_weights(rewards, k)),
        (weights(rewards, k, "affine", [1.0]), estimators.subloo_weights(rewards, k)),
        (
            weights(rewards, k, "affine", [-0.75]),
            estimators.affine_weights(rewards, k, alpha=-0.75),
        ),
        (weights(rewards, k, "ladder", zeros), estimators.centred_weights(rewards, k)),
        (weights(rewards, k, "ladder", [*zeros[1:], 1.0]), estimators.subloo_weights(rewards, k)),
        (
            weights(rewards, k, "ladder", [*zeros[1:], 0.3]),
            estimators.affine_weights(rewards, k, alpha=0.3),
        ),
    ]
    for found, expected in corners:
        torch.testing.assert_close(
            found, expected, rtol=0.0, atol=1e-12 * float(expected.abs().max())
        )


def test_a_constant_is_the_level_that_the_score_weights_start_from() -> None:
    rewards = draw(6, 3)
    found = weights(rewards, 4, "constant", [-5.0])
    torch.testing.assert_close(
        found, estimators.maxk_gradient_weights(rewards + 5.0, 4), rtol=0.0, atol=1e-14
    )


@pytest.mark.parametrize(
    ("family", "n", "k", "coefficients"),
    [
        ("affine", 4, 2, [0.7]),
        ("affine", 5, 4, [-2.0]),
        ("ladder", 4, 3, [0.4, -1.5]),
        ("ladder", 5, 4, [0.1, 2.0, -0.5]),
        ("constant", 4, 4, [-5.5]),
        ("constant", 4, 1, [2.0]),
    ],
)
def test_fixed_coefficients_are_unbiased(
    family: str, n: int, k: int, coefficients: list[float]
) -> None:
    bandit = TinyBandit((0.3, -0.7, 1.1, 0.0), (-6.0, -5.0, -5.5, -5.0))
    found = bandit.mean_of(lambda arms, rewards: weights(rewards, k, family, coefficients), n)
    torch.testing.assert_close(found, bandit.gradient(k), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_terms_are_float64_in_the_samples_order_and_without_gradient(family: str) -> None:
    rewards = draw(7, 2, 3)
    turn = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    for found, turned in zip(
        family_terms(rewards.requires_grad_(), 3, family),
        family_terms(rewards[..., turn].float(), 3, family),
        strict=True,
    ):
        assert found.dtype == turned.dtype == torch.float64
        assert not found.requires_grad
        torch.testing.assert_close(found[:, :, turn], turned, rtol=0.0, atol=1e-6)


def test_what_cannot_run_is_refused() -> None:
    for family, k, message in (
        ("ladders", 2, "family must be one of affine, ladder, constant, got 'ladders'"),
        ("ladder", 1, "k must be an integer with 2 <= k < n = 4, got 1"),
        ("affine", 4, "k must be an integer with 2 <= k < n = 4, got 4"),
        ("constant", 5, "k must be an integer with 1 <= k <= n = 4, got 5"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            family_terms(torch.ones(4), k, family)


def test_least_squares_finds_the_shortest_estimate() -> None:
    """Against torch's solver on the scores themselves, which the Gram products stand for."""
    generator = torch.Generator().manual_seed(0)
    rewards, scores = draw(6, 5), torch.randn(5, 6, 20, generator=generator, dtype=torch.float64)
    start, directions = family_terms(rewards, 3, "ladder")
    a, c = normal_equations(start, directions, scores @ scores.mT)
    assert (a.shape, c.shape) == ((5, 2, 2), (5, 2))
    moves, estimate = scores.mT @ directions, (scores.mT @ start.unsqueeze(-1)).squeeze(-1)
    expected = torch.linalg.lstsq(moves, -estimate.unsqueeze(-1)).solution.squeeze(-1)
    torch.testing.assert_close(solve(a, c), expected, rtol=1e-9, atol=1e-12)
    pooled = torch.linalg.lstsq(
        moves.flatten(0, 1), -estimate.flatten().unsqueeze(-1)
    ).solution.squeeze(-1)
    torch.testing.assert_close(solve(a.mean(0), c.mean(0)), pooled, rtol=1e-9, atol=1e-12)


def test_least_squares_leaves_alone_what_it_cannot_see() -> None:
    zero = torch.zeros(2, 3, 3, dtype=torch.float64)
    assert not solve(zero, zero[..., 0]).any()
    twice = torch.ones(2, 2, dtype=torch.float64)
    torch.testing.assert_close(
        solve(twice, 3.0 * twice[0]), torch.full((2,), 1.5, dtype=torch.float64)
    )
