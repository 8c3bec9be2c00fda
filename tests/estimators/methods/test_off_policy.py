"""Laws of the off-policy weights: definition, exact unbiasedness, and ratios of one."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from maxk_lab import estimators
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.methods.first_order import first_order_weights
from maxk_lab.estimators.methods.off_policy import (
    OFF_POLICY_BASELINES,
    effective_sample_size,
    off_policy_value,
    off_policy_weights,
)
from maxk_lab.estimators.reference import off_policy as reference

ON_POLICY = {
    "none": estimators.maxk_gradient_weights,
    "centred": estimators.centred_weights,
    "subloo": estimators.subloo_weights,
}
BOTH = (off_policy_weights, first_order_weights)


def with_baselines(*pairs: tuple[int, int]) -> list[tuple[int, int, str]]:
    """(n, K, baseline) for every baseline that exists there."""
    least, below_n = {"none": 1, "centred": 1, "subloo": 2}, {"none": 0, "centred": 1, "subloo": 0}
    return [
        (n, k, b) for n, k in pairs for b in OFF_POLICY_BASELINES if least[b] <= k <= n - below_n[b]
    ]


SMALL = [(n, k) for n in (1, 2, 3, 5, 7) for k in range(1, n + 1)]


def draw(n: int, *shape: int, spread: float = 0.7, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rewards to one decimal place, so that some are equal, and ratios."""
    generator = torch.Generator().manual_seed(seed + n)
    rewards = torch.randn(*shape, n, generator=generator, dtype=torch.float64).round(decimals=1)
    return rewards, (
        spread * torch.randn(*shape, n, generator=generator, dtype=torch.float64)
    ).exp()


def assert_near(found: Tensor, expected: Tensor, tolerance: float = 1e-13) -> None:
    """Within `tolerance` of the largest expected weight."""
    largest = float(expected.abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(found, expected, rtol=0.0, atol=tolerance * max(largest, 1e-300))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k", "baseline"), with_baselines(*SMALL))
@pytest.mark.parametrize("spread", [0.1, 2.0])
def test_weights_are_their_definition(n: int, k: int, baseline: str, spread: float) -> None:
    rewards, ratios = draw(n, 2, 3, spread=spread)
    found = off_policy_weights(rewards, ratios, k, baseline)
    assert_near(found, reference.off_policy_weights(rewards, ratios, k, baseline), 1e-12)
    found = first_order_weights(rewards, ratios, k, baseline)
    assert_near(found, reference.first_order_weights(rewards, ratios, k, baseline), 1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_value_and_effective_sample_size_are_their_definition(n: int) -> None:
    rewards, ratios = draw(n, 2, 3)
    for k in range(1, n + 1):
        assert_near(
            off_policy_value(rewards, ratios, k), reference.off_policy_value(rewards, ratios, k)
        )
    assert_near(effective_sample_size(ratios), reference.effective_sample_size(ratios))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(6, 3), (64, 8), (64, 63), (200, 100), (1_100, 550)])
def test_value_is_own_weight_plus_the_value_of_the_others(n: int, k: int) -> None:
    """I2 off-policy: value = s_i + (n-K)/n * (value of the others)."""
    rewards, ratios = draw(n, 2, spread=0.1)
    value = off_policy_value(rewards, ratios, k)
    s = off_policy_weights(rewards, ratios, k)
    for i in (0, n // 2, n - 1):
        keep = torch.arange(n) != i
        left_out = off_policy_value(rewards[..., keep], ratios[..., keep], k)
        assert_near(s[..., i] + (n - k) / n * left_out, value, 1e-12)
        with_baseline = s[..., i] - ratios[..., i] * (k / n) * left_out
        assert_near(off_policy_weights(rewards, ratios, k, "centred")[..., i], with_baseline, 1e-11)
        left_out = off_policy_value(rewards[..., keep], ratios[..., keep], k - 1)
        with_baseline = s[..., i] - ratios[..., i] * (k / n) * left_out
        found = off_policy_weights(rewards, ratios, k, "subloo")[..., i]
        torch.testing.assert_close(
            found, with_baseline, rtol=0.0, atol=1e-11 * float(s.abs().max())
        )
    torch.testing.assert_close(s.sum(-1), k * value, rtol=1e-12, atol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("weigh", BOTH)
@pytest.mark.parametrize(
    ("n", "k", "baseline"),
    with_baselines((2, 1), (2, 2), (6, 1), (6, 5), (64, 8), (64, 63), (200, 100), (1_100, 550)),
)
@pytest.mark.parametrize("change", [lambda r: r, lambda r: r - 6.0, lambda r: 1e-3 * r - 1e4])
def test_ratios_of_one_give_the_on_policy_weights(
    weigh, n: int, k: int, baseline: str, change
) -> None:  # type: ignore[no-untyped-def]
    rewards = change(draw(n, 4)[0])
    found = weigh(rewards, torch.ones_like(rewards), k, baseline)
    assert_near(found, ON_POLICY[baseline](rewards, k), 1e-12)


def test_a_single_sample_per_subset_gets_its_own_ratio() -> None:
    rewards, ratios = draw(7, 3)
    expected = ratios * rewards / 7
    assert_near(off_policy_weights(rewards, ratios, 1), expected)
    assert_near(first_order_weights(rewards, ratios, 1), expected)


@pytest.mark.parametrize(("n", "k"), [(5, 2), (64, 8), (40, 40)])
def test_subloo_is_blind_to_a_shift_zero_below_rank_k_and_never_negative(n: int, k: int) -> None:
    rewards, ratios = draw(n, 3)
    found = off_policy_weights(rewards, ratios, k, "subloo")
    assert_near(off_policy_weights(rewards - 1_024.0, ratios, k, "subloo"), found, 1e-11)
    by_rank = found.gather(-1, rewards.argsort(dim=-1, stable=True))
    assert not by_rank[..., : k - 1].any()
    assert (found >= 0).all()
    assert not off_policy_weights(torch.full((n,), -1e4), ratios[0], k, "subloo").any()


def test_a_shift_moves_the_other_weights_as_documented() -> None:
    """The change is c r_i (K/n) m_{K-1}, with `centred` c r_i (K/n) (m_{K-1} - m_K).

    m are the others' mean products.
    """
    n, k, c = 6, 3, 100.0
    rewards, ratios = draw(n)
    zero = torch.zeros_like(rewards)
    for i in range(n):
        others = ratios[torch.arange(n) != i]
        products = [
            others[torch.combinations(torch.arange(n - 1), m)].prod(-1).mean() for m in (k - 1, k)
        ]
        expected = {"none": products[0], "centred": products[0] - products[1]}
        for baseline, level in expected.items():
            moved = off_policy_weights(rewards + c, ratios, k, baseline) - off_policy_weights(
                rewards, ratios, k, baseline
            )
            torch.testing.assert_close(
                moved[i], c * ratios[i] * k / n * level, rtol=0.0, atol=1e-12
            )
            alone = off_policy_weights(zero + c, ratios, k, baseline)[i]
            torch.testing.assert_close(alone, c * ratios[i] * k / n * level, rtol=1e-12, atol=0.0)


def mean_estimate(bandit: TinyBandit, behaviour: Tensor, n: int, weigh: Any) -> Tensor:
    """E[sum_i w_i score_i] over all outcomes of n draws from `behaviour`.

    `weigh` has rewards and ratios.
    """
    target = bandit.probabilities(torch.tensor(bandit.logits, dtype=torch.float64))
    arms = torch.cartesian_prod(*[torch.arange(len(behaviour))] * n).reshape(-1, n)
    weights = weigh(
        torch.tensor(bandit.rewards, dtype=torch.float64)[arms], (target / behaviour)[arms]
    )
    chance = behaviour[arms].prod(-1, keepdim=True)
    by_arm = torch.zeros(len(arms), len(behaviour), dtype=torch.float64).scatter_add_(
        1, arms, weights
    )
    return (chance * by_arm).sum(0) @ bandit.scores()


BANDIT = TinyBandit((0.3, -0.7, 1.1, 0.0), (-6.0, -5.0, -5.5, -5.0))
BEHAVIOUR = torch.tensor([0.4, 0.1, 0.2, 0.3], dtype=torch.float64)


@pytest.mark.parametrize(
    ("n", "k", "baseline"), with_baselines((4, 1), (4, 2), (5, 3), (3, 3), (5, 5))
)
def test_the_exact_form_is_unbiased_under_another_policy(n: int, k: int, baseline: str) -> None:
    found = mean_estimate(
        BANDIT, BEHAVIOUR, n, lambda r, ratios: off_policy_weights(r, ratios, k, baseline)
    )
    torch.testing.assert_close(found, BANDIT.gradient(k), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(("n", "k"), [(4, 2), (5, 3)])
def test_the_first_order_form_is_biased_and_its_baselines_add_no_bias(n: int, k: int) -> None:
    means = [
        mean_estimate(
            BANDIT, BEHAVIOUR, n, lambda r, ratios, b=b: first_order_weights(r, ratios, k, b)
        )
        for b in OFF_POLICY_BASELINES
    ]
    exact = BANDIT.gradient(k)
    assert (means[0] - exact).norm() > 0.05 * exact.norm()
    for mean in means[1:]:
        torch.testing.assert_close(mean, means[0], rtol=0.0, atol=1e-12)


def test_the_first_order_bias_falls_with_the_square_of_the_distance() -> None:
    target = BANDIT.probabilities(torch.tensor(BANDIT.logits, dtype=torch.float64))
    exact, biases = BANDIT.gradient(3), []
    for share in (0.02, 0.01):
        behaviour = (1 - share) * target + share * BEHAVIOUR
        found = mean_estimate(
            BANDIT, behaviour, 4, lambda r, ratios: first_order_weights(r, ratios, 3)
        )
        biases.append(float((found - exact).norm()))
    assert biases[0] / biases[1] == pytest.approx(4.0, rel=0.05)


def test_the_value_is_unbiased_under_another_policy() -> None:
    target = BANDIT.probabilities(torch.tensor(BANDIT.logits, dtype=torch.float64))
    arms = torch.cartesian_prod(*[torch.arange(4)] * 5)
    rewards = torch.tensor(BANDIT.rewards, dtype=torch.float64)[arms]
    chance = BEHAVIOUR[arms].prod(-1)
    for k in range(1, 6):
        found = (chance * off_policy_value(rewards, (target / BEHAVIOUR)[arms], k)).sum()
        exact = BANDIT.objective(torch.tensor(BANDIT.logits, dtype=torch.float64), k)
        torch.testing.assert_close(found, exact, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("weigh", BOTH)
@pytest.mark.parametrize("baseline", OFF_POLICY_BASELINES)
def test_dtype_order_and_batch_do_not_matter(
    weigh, baseline: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    rewards, ratios = draw(9, 5, 2)
    found = weigh(rewards, ratios, 4, baseline)
    turn = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    assert_near(weigh(rewards[..., turn], ratios[..., turn], 4, baseline), found[..., turn], 1e-14)
    one = weigh(rewards[3, 1], ratios[3, 1], 4, baseline)
    assert torch.equal(found[3, 1], one)
    single = weigh(rewards.float(), ratios, 4, baseline)
    assert single.dtype == torch.float32
    exact = weigh(rewards.float().double(), ratios, 4, baseline)
    assert torch.equal(single, exact.float())
    assert weigh(rewards.round().long(), ratios, 4, baseline).dtype == torch.float64
    assert weigh(rewards[:0], ratios[:0], 4, baseline).shape == (0, 2, 9)
    monkeypatch.setattr("maxk_lab.estimators.methods.off_policy.BLOCK_ENTRIES", 120)
    assert torch.equal(weigh(rewards, ratios, 4, baseline), found)


@pytest.mark.parametrize("weigh", BOTH)
def test_no_gradient_flows_through_the_weights(weigh: Any) -> None:
    rewards, ratios = draw(5)
    for baseline in OFF_POLICY_BASELINES:
        found = weigh(rewards.requires_grad_(), ratios.requires_grad_(), 2, baseline)
        assert not found.requires_grad


@pytest.mark.slow
def test_great_n_and_k_stay_finite() -> None:
    """At K = 2 000 of 4 096 a binomial coefficient has 1 230 digits."""
    rewards, ratios = draw(4_096, spread=0.01)
    for baseline in OFF_POLICY_BASELINES:
        found = off_policy_weights(rewards, ratios, 2_000, baseline)
        assert torch.isfinite(found).all()
    s = off_policy_weights(rewards, ratios, 2_000)
    torch.testing.assert_close(
        s.sum(), 2_000 * off_policy_value(rewards, ratios, 2_000), rtol=1e-10, atol=0.0
    )


def test_effective_sample_size_counts_equal_ratios_fully() -> None:
    assert (
        effective_sample_size(torch.full((3, 8), 1e-200, dtype=torch.float64)).tolist() == [8.0] * 3
    )
    assert float(effective_sample_size(torch.tensor([1e200, 1.0, 1.0], dtype=torch.float64))) == 1.0


@pytest.mark.parametrize(
    ("ratios", "message"),
    [
        (torch.ones(2), "ratios must have the shape of rewards [3], got [2]"),
        (torch.tensor([1.0, 0.0, 1.0]), "ratios must be positive and finite, got 0.0"),
        (torch.tensor([1.0, -2.0, 1.0]), "ratios must be positive and finite, got -2.0"),
        (torch.tensor([1.0, float("nan"), 1.0]), "ratios must be positive and finite, got nan"),
        (torch.tensor([1.0, float("inf"), 1.0]), "ratios must be positive and finite, got inf"),
    ],
)
def test_bad_ratios_are_refused(ratios: Tensor, message: str) -> None:
    for weigh in BOTH:
        with pytest.raises(ValueError, match=re.escape(message)):
            weigh(torch.ones(3), ratios, 2)
    with pytest.raises(ValueError, match=re.escape(message)):
        off_policy_value(torch.ones(3), ratios, 2)


@pytest.mark.parametrize("weigh", BOTH)
@pytest.mark.parametrize(
    ("k", "baseline", "message"),
    [
        (4, "none", "k must be an integer with 1 <= k <= n = 3, got 4"),
        (3, "centred", "k must be an integer with 1 <= k < n = 3, got 3"),
        (1, "subloo", "k must be an integer with 2 <= k <= n = 3, got 1"),
        (2, "mean", "baseline must be one of none, centred, subloo, got 'mean'"),
    ],
)
def test_what_cannot_run_is_refused(weigh: Any, k: int, baseline: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        weigh(torch.ones(3), torch.ones(3), k, baseline)


def test_a_reward_that_is_not_finite_is_refused() -> None:
    for weigh in BOTH:
        with pytest.raises(ValueError, match="rewards must be finite, got nan"):
            weigh(torch.tensor([1.0, float("nan")]), torch.ones(2), 1)


@pytest.mark.parametrize("baseline", ["none", "centred", "subloo"])
def test_products_beyond_float64_are_an_error_and_no_number(baseline: str) -> None:
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randn(256, generator=generator, dtype=torch.float64)
    ratios = torch.full((256,), 1e6, dtype=torch.float64)
    with pytest.raises(ValueError, match="products of K = 128 ratios leave the range of float64"):
        off_policy_weights(rewards, ratios, 128, baseline)
    with pytest.raises(ValueError, match="leave the range"):
        off_policy_value(rewards, ratios, 128)
    assert torch.isfinite(off_policy_weights(rewards, ratios, 8, baseline)).all()
