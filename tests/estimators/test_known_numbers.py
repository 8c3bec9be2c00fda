"""Published methods on four-armed bandits with four draws, enumerated."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.check.brute_force import brute_force
from maxk_lab.estimators.method import Method

# Rewards of unit size whose best arms are not the likely ones; lengths that do not go with them.
BANDIT = TinyBandit((0.3, -0.5, 0.9, 0.2), (-1.1, 0.9, 0.4, 0.1), (1.0, 5.0, 3.0, 6.0))
NONE, ALONG = (0.0, 1e-12), (1 - 1e-12, 1)
# Estimator, baseline, and the ranges of |bias| / |gradient| and of the cosine.
KNOWN = [
    ("reinforce", "none", NONE, ALONG),
    ("reinforce", "mean", (0.25 - 1e-12, 0.25 + 1e-12), ALONG),
    ("reinforce", "rloo", NONE, ALONG),
    ("grpo", "none", (0.17, 0.21), (0.975, 0.985)),
    ("reinforce", "eob", (0.25, 0.29), (0.997, 0.999)),
    ("reinforce", "otb", (0.25, 0.29), (0.997, 0.999)),
    ("reinforce", "eob_loo", NONE, ALONG),
    ("reinforce", "otb_loo", NONE, ALONG),
    ("reinforce", "opo", (0.125, 0.145), (0.9975, 0.9985)),
    ("reinforce", "opo_loo", NONE, ALONG),
]
SKEWED = TinyBandit((0.3, -0.5, -0.2, -1.0), (1.3, -0.5, 1.1, 0.1))
MAX_AT_2 = [("none", 0.622), ("subloo", 0.132), ("centred", 0.135), ("sample_loo", 1.47)]


@pytest.mark.parametrize(
    ("estimator", "baseline", "bias", "cosine"), KNOWN, ids=[f"{row[0]}-{row[1]}" for row in KNOWN]
)
def test_bias_and_cosine(
    estimator: str, baseline: str, bias: tuple[float, float], cosine: tuple[float, float]
) -> None:
    truth = BANDIT.gradient(1)
    mean = BANDIT.mean_estimate(4, Method.parse(estimator, baseline))
    assert bias[0] <= float((mean - truth).norm() / truth.norm()) <= bias[1]
    assert cosine[0] <= float(mean @ truth / mean.norm() / truth.norm()) <= cosine[1] + 1e-12


@pytest.mark.parametrize(("baseline", "variance"), MAX_AT_2)
def test_trace_variance_at_two_of_four(baseline: str, variance: float) -> None:
    method = Method.parse("maxk", baseline, 2)
    assert SKEWED.trace_variance(4, method) == pytest.approx(variance, rel=0.15)


@pytest.mark.parametrize(("baseline", "kind"), [("subloo", None), ("optimal[length]", "length")])
def test_mean_and_trace_variance_against_a_sum_over_outcomes(
    baseline: str, kind: str | None
) -> None:
    bandit = TinyBandit((0.2, -1.1, 0.7), (0.3, 1.0, -0.2), (4.0, 1.0, 2.0))
    method = Method.parse("maxk", baseline, 2)
    p = [math.exp(x) / sum(map(math.exp, bandit.logits)) for x in bandit.logits]
    scores = torch.eye(3, dtype=torch.float64) - torch.tensor(p, dtype=torch.float64)
    mean, second = torch.zeros(3, dtype=torch.float64), 0.0
    for arms in product(range(3), repeat=4):
        rewards = torch.tensor([bandit.rewards[a] for a in arms], dtype=torch.float64)
        g = torch.tensor([bandit.lengths[a] for a in arms], dtype=torch.float64)
        weights = brute_force(method, rewards, trajectory_weights={str(kind): g})
        estimate = sum(w * scores[a] for w, a in zip(weights, arms))
        chance = math.prod(p[a] for a in arms)
        mean += chance * estimate
        second += chance * float(estimate.square().sum())
    torch.testing.assert_close(bandit.mean_estimate(4, method), mean, rtol=1e-12, atol=1e-14)
    expected = second - float(mean.square().sum())
    assert bandit.trace_variance(4, method) == pytest.approx(expected, rel=1e-10)
