"""Laws of the estimators without baseline: reductions, numbers by hand, refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from maxk_lab.estimators import advantages
from maxk_lab.estimators.catalogue import ESTIMATORS
from maxk_lab.estimators.check.bandit import TinyBandit

ALONE = [row.name for row in ESTIMATORS if not row.takes_baseline]
BINARY = [row.name for row in ESTIMATORS if row.binary_rewards]


def weights(rewards: torch.Tensor, estimator: str, k: int = 1) -> torch.Tensor:
    return advantages(rewards, estimator=estimator, baseline="none", k=k)


def own_k(name: str, n: int) -> int:
    return n if name == "grpo_passk" else 2


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def assert_same(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_grpo_by_hand() -> None:
    rewards = torch.tensor([0.0, 1.0, 1.0, 4.0], dtype=torch.float64)
    deviation = math.sqrt((2.25 + 0.25 + 0.25 + 6.25) / 3)
    for spelling, eps in (("grpo", 1e-4), ("grpo[1e-6]", 1e-6), ("grpo[0]", 0.0)):
        assert_same(weights(rewards, spelling), (rewards - 1.5) / (deviation + eps) / 4)
    assert torch.equal(weights(rewards, "grpo", k=4), weights(rewards, "grpo"))


@pytest.mark.parametrize("estimator", ["grpo", "grpo[0]", "leader_reward", "hybrid", "grpo_passk"])
def test_equal_rewards_give_exactly_zero(estimator: str) -> None:
    rewards = torch.full((3,), 0.1)
    assert weights(rewards, estimator, k=own_k(estimator, 3)).eq(0).all()


def test_leader_reward_by_hand_and_its_ties() -> None:
    rewards = torch.tensor([0.0, 1.0, 5.0], dtype=torch.float64)
    assert_same(
        weights(rewards, "leader_reward[0.5]"),
        torch.tensor([-2.0, -1.0, 4.5], dtype=torch.float64) / 3,
    )
    tied = torch.tensor([5.0, 0.0, 5.0, 2.0], dtype=torch.float64)
    assert_same(
        weights(tied, "leader_reward[2]"),
        torch.tensor([4.0, -3.0, 4.0, -1.0], dtype=torch.float64) / 4,
    )


def test_leader_without_alpha_is_the_mean_baseline() -> None:
    rewards = draw(4, 6)
    assert_same(weights(rewards, "leader_reward[0]"), advantages(rewards, baseline="mean", k=1))


def test_hybrid_joins_subloo_and_the_centred_reward() -> None:
    rewards = draw(4, 6)
    subloo = advantages(rewards, baseline="subloo", k=3)
    centred = rewards - rewards.mean(-1, keepdim=True)
    assert_same(weights(rewards, "hybrid[1]", k=3), subloo)
    assert_same(weights(rewards, "hybrid[0]", k=3), centred)
    assert_same(weights(rewards, "hybrid[0.25]", k=3), 0.25 * subloo + 0.75 * centred)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_grpo_passk_without_norm_is_subloo_at_k_n(n: int) -> None:
    rewards = draw(4, n)
    rewards[0, 0] = rewards[0].max()  # a tie at the top of one group
    subloo = advantages(rewards, baseline="subloo", k=n)
    assert_same(weights(rewards, "grpo_passk[none]", k=n), subloo)
    best, second = rewards.topk(2, dim=-1).values.unbind(-1)
    expected = (best - second).unsqueeze(-1) * (rewards == best.unsqueeze(-1))
    assert_same(subloo, expected)
    assert_same(
        weights(rewards, "grpo_passk", k=n), expected / (rewards.std(-1, keepdim=True) + 1e-6)
    )


@pytest.mark.parametrize("n", [4, 7, 16])
def test_passk_analytic_against_the_published_formula(n: int) -> None:
    for wins in range(n + 1):
        rewards = torch.cat([torch.ones(wins), torch.zeros(n - wins)]).double()
        losses = n - wins
        for k in range(1, n):
            mean = 1 - math.comb(losses, k) / math.comb(n, k)
            expected = torch.zeros(n, dtype=torch.float64)
            if 0 < mean < 1:
                spread = math.sqrt(mean * (1 - mean))
                lost = 1 - mean - math.comb(losses - 1, k - 1) / math.comb(n - 1, k - 1)
                expected[:wins], expected[wins:] = (1 - mean) / spread / n, lost / spread / n
            torch.testing.assert_close(
                weights(rewards, "passk_analytic", k=k), expected, rtol=1e-10, atol=1e-14
            )


def test_passk_analytic_at_one_is_grpo_with_ddof_zero_and_no_eps() -> None:
    rewards = torch.tensor(
        [[0.0, 1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]], dtype=torch.float64
    )
    centred = rewards - rewards.mean(-1, keepdim=True)
    spread = rewards.std(-1, correction=0, keepdim=True).clamp(min=1e-300)
    assert_same(weights(rewards, "passk_analytic", k=1), centred / spread / 5)


def test_maxrl_by_hand_and_without_a_success() -> None:
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    expected = torch.tensor([[0.25, -0.25, -0.25, 0.25], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    assert_same(weights(rewards, "maxrl"), expected)


@pytest.mark.parametrize("n", [2, 4, 7])
def test_maxrl_has_the_direction_of_the_gradient_and_weighs_by_difficulty(n: int) -> None:
    bandit = TinyBandit((0.2, -1.1, 0.7), (0.0, 1.0, 0.0))
    p = float(torch.softmax(torch.tensor(bandit.logits, dtype=torch.float64), 0)[1])
    estimate = bandit.mean_estimate(n, 1, estimator="maxrl", baseline="none")
    assert_same(estimate, sum((1 - p) ** j for j in range(n - 1)) * bandit.gradient(1))


@pytest.mark.parametrize("name", BINARY)
def test_rewards_other_than_zero_and_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"rewards must be 0 or 1 here, got 0\.5"):
        weights(torch.tensor([0.0, 1.0, 0.5]), name)
    with pytest.raises(ValueError, match="rewards must be 0 or 1 here, got nan"):
        weights(torch.tensor([0.0, 1.0, float("nan")]), name)


@pytest.mark.parametrize("name", [name for name in ALONE if name not in BINARY])
@pytest.mark.parametrize(
    "change", [lambda r: r + 1000.0, lambda r: r * 1e-4, lambda r: 1e-3 * r - 1e4]
)
def test_float32_agrees_with_float64_for_shifts_scales_and_near_ties(
    name: str, change: Any
) -> None:
    rewards = change(draw(6, 8)).float()
    single = weights(rewards, name, k=own_k(name, 8))
    exact = weights(rewards.double(), name, k=own_k(name, 8))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single, exact.float(), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("name", [name for name in ALONE if ESTIMATORS.get(name).shift_invariant])
def test_a_constant_added_to_whole_rewards_changes_nothing(name: str) -> None:
    rewards = torch.randint(-9, 9, (5, 6), generator=torch.Generator().manual_seed(1))
    k = own_k(name, 6)
    assert torch.equal(weights(rewards + 1000, name, k=k), weights(rewards, name, k=k))


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("shape", [(4,), (0, 4), (2, 1, 3, 4)])
def test_shapes_dtypes_and_constants_of_the_loss(name: str, shape: tuple[int, ...]) -> None:
    rewards = (draw(*shape) > 0).half().requires_grad_()
    found = weights(rewards, name, k=own_k(name, 4))
    assert found.shape == shape
    assert found.dtype == torch.float16
    assert not found.requires_grad


@pytest.mark.parametrize(
    ("function", "params", "message"),
    [
        ("methods.standardised:grpo", {"eps": -1.0}, "eps must be a finite number >= 0, got -1.0"),
        (
            "methods.heuristics:leader_reward",
            {"alpha": float("nan")},
            "alpha must be a finite number >= 0, got nan",
        ),
        (
            "methods.heuristics:hybrid",
            {"lambda_": 1.5},
            "lambda_ must be a number from 0 to 1, got 1.5",
        ),
        ("methods.standardised:grpo_passk", {"norm": "var"}, "norm must be std or none, got 'var'"),
    ],
)
def test_parameters_out_of_range(function: str, params: dict[str, object], message: str) -> None:
    from maxk_lab.catalogue import load

    with pytest.raises(ValueError, match=message):
        load(f"maxk_lab.estimators.{function}")(torch.ones(2), 2, None, **params)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ALONE)
def test_cuda_agrees_and_never_waits(name: str) -> None:
    rewards = (draw(8, 6) > 0).float()
    device_rewards, k = rewards.cuda(), own_k(name, 6)
    weights(device_rewards, name, k=k)
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = weights(device_rewards, name, k=k)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(found.cpu(), weights(rewards, name, k=k))
