"""The estimators of PKPO's Figure 4 beside its sweep: by hand, and unbiased by enumeration."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.method import Method

PAPERS = Path(__file__).parents[2] / "experiments/papers"


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PAPERS)


@pytest.mark.parametrize(
    ("name", "k", "rewards", "expected", "divisor"),
    [
        ("none", 2, [1, 4, 2, 3, 9, 0], [4, 4, 3, 3, 9, 9], 3),
        ("loo", 2, [1, 4, 2, 3, 9, 0], [-2, -2, -3.5, -3.5, 5.5, 5.5], 3),
        ("loo", 1, [1, 3], [-2, 2], 2),
    ],
)
def test_by_hand(
    name: str, k: int, rewards: list[float], expected: list[float], divisor: float
) -> None:
    method = Method.parse(f"partitioned:{name}", "none", k)
    found = method.weights(torch.tensor(rewards, dtype=torch.float64))
    wanted = torch.tensor(expected, dtype=torch.float64) / divisor
    torch.testing.assert_close(found, wanted, rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("name", ["none", "loo"])
def test_the_mean_over_all_ordered_groups_is_the_gradient(name: str) -> None:
    bandit = TinyBandit((0.3, -0.8, 0.5), (-6.25, -5.0, -4.1))
    for n, k in ((4, 2), (6, 2), (6, 3)):
        mean = bandit.mean_estimate(n, Method.parse(f"partitioned:{name}", "none", k))
        torch.testing.assert_close(mean, bandit.gradient(k), rtol=0.0, atol=1e-12)
