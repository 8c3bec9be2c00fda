"""Estimators without a definition by subsets, by hand; published numbers; normalizations."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from maxk_lab.estimators import advantages
from maxk_lab.estimators.catalogue import ESTIMATORS
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.check.brute_force import brute_force
from maxk_lab.estimators.method import Method

# Estimator, K, rewards, and the weights times the divisor after them.
TABLE = [
    ("grpo", 1, [0, 1, 1, 4], [-1.5, -0.5, -0.5, 2.5], 4 * (math.sqrt(3) + 1e-4)),
    ("grpo[1e-6]", 3, [0, 1, 1, 4], [-1.5, -0.5, -0.5, 2.5], 4 * (math.sqrt(3) + 1e-6)),
    ("grpo[0]", 1, [1e200, -1e200], [1, -1], 2 * math.sqrt(2)),
    ("grpo[0]", 1, [1e-200, -1e-200], [1, -1], 2 * math.sqrt(2)),
    ("leader_reward[0.5]", 1, [0, 1, 5], [-2, -1, 4.5], 3),
    ("leader_reward[2]", 2, [5, 0, 5, 2], [4, -3, 4, -1], 4),
    ("leader_reward", 2, [5, 0, 5, 2], [3, -3, 3, -1], 4),
    ("hybrid[1]", 2, [0, 1, 3], [0, 1, 5], 3),
    ("hybrid[0]", 2, [0, 1, 5], [-2, -1, 3], 1),
    ("hybrid", 2, [0, 1, 5], [-3, -1, 9], 3),
    ("hybrid[0.25]", 2, [0, 1, 5], [-4.5, -2, 9], 3),
    ("passk_analytic", 2, [1, 1, 1], [0, 0, 0], 1),
    ("passk_analytic", 2, [0, 0, 0], [0, 0, 0], 1),
    ("grpo_passk", 3, [0, 1, 3], [0, 0, 2], math.sqrt(7 / 3) + 1e-6),
    ("grpo_passk[none]", 4, [0, 1, 3, 7], [0, 0, 0, 4], 1),
    ("grpo_passk[none]", 3, [0, 3, 3], [0, 0, 0], 1),
    ("maxrl", 1, [1, 0, 0, 1], [1, -1, -1, 1], 4),
    ("maxrl", 3, [1, 0, 0], [2, -1, -1], 3),
    ("maxrl", 1, [0, 0, 0], [0, 0, 0], 1),
    ("rs_grpo[1]", 1, [0, math.log(3)], [-1, 1], 4),
    ("rs_grpo", 3, [0, 0, math.log(2)], [-1, -1, 2], 12),
    ("rs_grpo[1e-15]", 1, [0, 1, 5], [-2, -1, 3], 3),
    ("mix", 2, [0, 1, 3], [-4, 1, 15], 12),
    ("mix[0.25 reinforce/none maxk/none]", 3, [0, 0, 3], [9, 9, 10], 4),
    ("mix[1 maxk/subloo maxrl]", 3, [0, 1, 3], [0, 0, 2], 1),  # a part without a share does not run
    ("mix[0 maxk/centred maxk/subloo]", 3, [0, 1, 3], [0, 0, 2], 1),
    ("rs_grpo[500]", 1, [-3, 7], [-1, 1], 1000),
    # The estimators of PKPO's Figure 4, beside its sweep.
    ("partitioned:none", 2, [1, 4, 2, 3, 9, 0], [4, 4, 3, 3, 9, 9], 3),
    ("partitioned:loo", 2, [1, 4, 2, 3, 9, 0], [-2, -2, -3.5, -3.5, 5.5, 5.5], 3),
    ("partitioned:loo", 1, [1, 3], [-2, 2], 2),
]
PAPERS = Path(__file__).parents[2] / "experiments/papers"
ALONE = [row.name for row in ESTIMATORS if not row.takes_baseline]


def weights(rewards: Tensor, estimator: str, k: int = 1) -> Tensor:
    return advantages(rewards, estimator=estimator, baseline="none", k=k)


@pytest.mark.parametrize(("estimator", "k", "rewards", "expected", "divisor"), TABLE)
def test_by_hand(
    estimator: str,
    k: int,
    rewards: list[float],
    expected: list[float],
    divisor: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(PAPERS)
    assert {name.partition("[")[0] for name, *_ in TABLE if ":" not in name} == set(ALONE)
    wanted = torch.tensor(expected, dtype=torch.float64) / divisor
    made = weights(torch.tensor(rewards, dtype=torch.float64), estimator, k)
    torch.testing.assert_close(made, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["none", "loo"])
def test_the_mean_over_all_partitioned_groups_is_the_gradient(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(PAPERS)
    bandit = TinyBandit((0.3, -0.8, 0.5), (-6.25, -5.0, -4.1))
    for n, k in ((4, 2), (6, 3)):
        mean = bandit.mean_estimate(n, Method.parse(f"partitioned:{name}", "none", k))
        torch.testing.assert_close(mean, bandit.gradient(k), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("n", [4, 16])
def test_passk_analytic_against_the_published_formula(n: int) -> None:
    for wins in range(1, n):
        rewards = torch.cat([torch.ones(wins), torch.zeros(n - wins)]).double()
        losses = n - wins
        for k in range(1, losses + 1):
            mean = 1 - math.comb(losses, k) / math.comb(n, k)
            spread = math.sqrt(mean * (1 - mean))
            lost = 1 - mean - math.comb(losses - 1, k - 1) / math.comb(n - 1, k - 1)
            levels = [1 - mean] * wins + [lost] * losses
            expected = torch.tensor(levels, dtype=torch.float64) / spread / n
            made = weights(rewards, "passk_analytic", k)
            torch.testing.assert_close(made, expected, rtol=1e-10, atol=1e-14)


def test_mean_and_trace_variance_against_a_sum_over_outcomes() -> None:
    bandit = TinyBandit((0.2, -1.1, 0.7), (0.3, 1.0, -0.2), (4.0, 1.0, 2.0))
    method = Method.parse("maxk", "optimal[length]", 2)
    p = torch.tensor(bandit.logits, dtype=torch.float64).softmax(0)
    scores = torch.eye(3, dtype=torch.float64) - p
    mean, second = torch.zeros(3, dtype=torch.float64), 0.0
    for arms in product(range(3), repeat=3):
        rewards = torch.tensor([bandit.rewards[a] for a in arms], dtype=torch.float64)
        g = torch.tensor([bandit.lengths[a] for a in arms], dtype=torch.float64)
        weights = brute_force(method, rewards, trajectory_weights={"length": g})
        estimate = sum(w * scores[a] for w, a in zip(weights, arms))
        chance = math.prod(float(p[a]) for a in arms)
        mean += chance * estimate
        second += chance * float(estimate.square().sum())
    torch.testing.assert_close(bandit.mean_estimate(3, method), mean, rtol=1e-12, atol=1e-14)
    expected = second - float(mean.square().sum())
    assert bandit.trace_variance(3, method) == pytest.approx(expected, rel=1e-10)


def test_the_bias_of_rs_grpo_for_its_own_objective_falls_like_the_inverse_of_n() -> None:
    bandit, beta = TinyBandit((0.2, -1.1, 0.7), (0.5, 1.0, -0.3)), 1.5
    logits = torch.tensor(bandit.logits, dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor(bandit.rewards, dtype=torch.float64)
    objective = (torch.softmax(logits, 0) @ (beta * rewards).exp()).log() / beta
    (gradient,) = torch.autograd.grad(objective, logits)
    method = Method.parse(f"rs_grpo[{beta}]")
    errors = [float((bandit.mean_estimate(n, method) - gradient).norm()) for n in (2, 4, 8)]
    assert errors[0] < 0.7 * float(gradient.norm())
    assert 1.6 < errors[0] / errors[1] < 2.4
    assert 1.6 < errors[1] / errors[2] < 2.4


def test_normalizations_rescale_the_weights() -> None:
    rewards = torch.tensor([[0.0, 2.0, 5.0, 1.0], [3.0, 3.0, 3.0, 3.0]], dtype=torch.float64)

    def weights(**options: Any) -> Tensor:
        return advantages(rewards, baseline="subloo", k=2, **options)

    w = weights()
    centred = w - w.mean(-1, keepdim=True)
    assert torch.equal(weights(weight_normalization="none"), w)
    torch.testing.assert_close(weights(weight_normalization="sum_to_zero"), centred)
    zscore = weights(weight_normalization="zscore")
    torch.testing.assert_close(zscore, centred / (w.std(-1, keepdim=True) + 1e-8))
    assert (zscore[1] == 0).all()
    # In float32 they agree with float64.
    noise = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    for near in (noise + 1000.0, 1e-4 * noise):
        exact, found = (
            advantages(r, k=2, weight_normalization="zscore") for r in (near.double(), near)
        )
        torch.testing.assert_close(found, exact.float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_normalizations_bias_as_the_docs_say(k: int) -> None:
    """The mean taken off `subloo` costs (K/n) (∇J_K − ∇J_{K−1}), and `centred` nothing."""
    bandit, n = TinyBandit((0.3, -0.8, 0.5, 0.1), (0.0, 1.0, 0.25, 0.7)), 4
    truth = bandit.gradient(k)

    def bias(baseline: str, how: str) -> Tensor:
        method = Method.parse("maxk", baseline, k)
        return bandit.mean_estimate(n, method, weight_normalization=how) - truth

    expected = -(k / n) * (truth - bandit.gradient(k - 1))
    torch.testing.assert_close(bias("subloo", "sum_to_zero"), expected, rtol=1e-10, atol=1e-14)
    for baseline, how in (("centred", "sum_to_zero"), ("centred", "none"), ("subloo", "none")):
        torch.testing.assert_close(bias(baseline, how), 0 * expected, rtol=0.0, atol=1e-14)
    for biased in (expected, bias("subloo", "zscore")):
        assert float(biased.norm() / truth.norm()) > 1e-2
