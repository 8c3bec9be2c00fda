"""`advantages` as a training script of somebody's own calls it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch

import maxk_lab
from maxk_lab.estimators import advantages
from maxk_lab.estimators.catalogue import ESTIMATORS
from maxk_lab.estimators.check.bandit import TinyBandit

nan = float("nan")
ROWS = [[0.0, 1.0, 0.25, 1.0], [3.0, -1.0, 0.5, 2.0]]
EXPECTED = advantages(torch.tensor(ROWS, dtype=torch.float64), baseline="subloo", k=2)


def test_it_is_the_package_s_own() -> None:
    assert maxk_lab.advantages is advantages


@pytest.mark.parametrize(
    "given",
    [
        lambda: ROWS,
        lambda: [tuple(row) for row in ROWS],
        lambda: np.array(ROWS),
        lambda: np.array(ROWS)[:, ::-1][:, ::-1],  # strides that torch does not take
        lambda: np.broadcast_to(np.array(ROWS), (2, 4)),  # read-only
        lambda: np.array(ROWS, dtype=object),
    ],
)
def test_lists_and_arrays_give_what_the_tensor_gives(given: Callable[[], Any]) -> None:
    found = advantages(given(), baseline="subloo", k=2)
    assert found.dtype == torch.float64
    assert torch.equal(found, EXPECTED)


def test_types_are_kept_and_a_column_of_pandas_is_an_array() -> None:
    assert advantages(np.float32(ROWS), k=2).dtype == torch.float32
    assert advantages([True, False, True], k=2).dtype == torch.float64
    column = pd.Series(ROWS[0], index=[5, 6, 7, 8])
    assert torch.equal(advantages(column, baseline="subloo", k=2), EXPECTED[0])


@pytest.mark.parametrize("given", ["0.5", 3.0, [["a", 1.0]], [[1.0], [1.0, 2.0]], [{}], object()])
def test_what_are_no_rewards_is_said(given: Any) -> None:
    with pytest.raises(maxk_lab.LabError, match=r"^rewards must "):
        advantages(given, k=1)


def test_k_is_asked_for_where_the_estimator_has_none_of_its_own() -> None:
    with pytest.raises(maxk_lab.LabError, match="estimator maxk needs k, the number of samples"):
        advantages(ROWS)
    plain = advantages(ROWS, estimator="reinforce")
    assert torch.equal(plain, advantages(ROWS, k=1))


@pytest.mark.parametrize("estimator", [row.name for row in ESTIMATORS if not row.takes_baseline])
def test_an_estimator_with_a_baseline_built_in_needs_none_given(estimator: str) -> None:
    rewards = [[0.0, 1.0, 1.0, 0.0]]
    k = 4 if estimator == "grpo_passk" else 2
    found = advantages(rewards, estimator=estimator, k=k)
    assert torch.equal(found, advantages(rewards, estimator=estimator, baseline="none", k=k))
    with pytest.raises(maxk_lab.LabError, match=f"{estimator} takes no baseline, got centred"):
        advantages(rewards, estimator=estimator, baseline="centred", k=k)


def test_all_others_are_centred_by_default() -> None:
    assert torch.equal(advantages(ROWS, k=2), advantages(ROWS, baseline="centred", k=2))
    assert not torch.equal(advantages(ROWS, k=2), advantages(ROWS, baseline="none", k=2))


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("rloo", "estimator reinforce with baseline rloo"),
        ("subloo", "estimator maxk with baseline subloo"),
        ("affine[0.5]", "estimator maxk with baseline affine[0.5]"),
    ],
)
def test_a_baseline_in_the_place_of_an_estimator_is_told_its_pair(name: str, pair: str) -> None:
    message = f"unknown estimator '{name}': {name} is a baseline; take {pair}"
    with pytest.raises(maxk_lab.LabError, match=f"^{re.escape(message)}$"):
        advantages(ROWS, estimator=name, k=1)


class TestTrajectoriesWithoutReward:
    HOLES: ClassVar = [[0.0, None, 0.25, 1.0], [3.0, -1.0, 0.5, 2.0], [None, None, None, 1.0]]

    def test_the_others_are_a_group_of_their_own(self) -> None:
        found = advantages(self.HOLES, k=2)
        assert torch.equal(found[0, [0, 2, 3]], advantages([0.0, 0.25, 1.0], k=2))
        assert found[0, 1] == 0
        assert torch.equal(found[1], advantages(ROWS[1], k=2))
        assert torch.equal(found[2], torch.zeros(4, dtype=torch.float64))

    def test_a_mask_says_the_same_of_a_tensor_and_of_an_array(self) -> None:
        rewards = torch.tensor([[nan if r is None else r for r in row] for row in self.HOLES])
        there = ~rewards.isnan()
        expected = advantages(self.HOLES, k=2).float()
        torch.testing.assert_close(advantages(rewards, k=2, usable=there), expected)
        torch.testing.assert_close(advantages(rewards.numpy(), k=2, usable=there.numpy()), expected)

    def test_nan_is_refused_and_the_way_out_is_said(self) -> None:
        with pytest.raises(maxk_lab.LabError, match=r"got nan: .* usable=~rewards\.isnan\(\)$"):
            advantages([0.0, nan, 1.0], k=2)

    def test_what_the_pair_refuses_for_whole_groups_is_refused(self) -> None:
        with pytest.raises(maxk_lab.LabError, match="k must be an integer with 1 <= k <= n = 4"):
            advantages(self.HOLES, k=5)

    def test_trajectory_weights_and_leading_dimensions_go_along(self) -> None:
        lengths = torch.arange(1.0, 13.0, dtype=torch.float64).view(3, 4)
        given: dict[str, Any] = {"estimator": "reinforce", "baseline": "optimal[length]"}
        found = advantages(
            [self.HOLES], trajectory_weights={"length": lengths.unsqueeze(0)}, **given
        )
        expected = advantages(
            [0.0, 0.25, 1.0], trajectory_weights={"length": [1.0, 3.0, 4.0]}, **given
        )
        assert found.shape == (1, 3, 4)
        torch.testing.assert_close(found[0, 0, [0, 2, 3]], expected)


def test_a_mask_of_another_shape_is_said() -> None:
    with pytest.raises(maxk_lab.LabError, match=r"usable must have the shape of rewards \[2, 4\]"):
        advantages(ROWS, k=2, usable=[True, False])


@pytest.mark.parametrize("k", [2, 3])
def test_the_mean_of_the_group_taken_off_afterwards_biases_subloo_as_the_docs_say(k: int) -> None:
    bandit, n = TinyBandit((0.3, -0.8, 0.5, 0.1), (0.0, 1.0, 0.25, 0.7)), 4

    def bias(baseline: str) -> torch.Tensor:
        def weigh(_arms: torch.Tensor, rewards: torch.Tensor) -> torch.Tensor:
            weights = advantages(rewards, baseline=baseline, k=k)
            return weights - weights.mean(-1, keepdim=True)

        return bandit.mean_of(weigh, n) - bandit.gradient(k)

    expected = -(k / n) * (bandit.gradient(k) - bandit.gradient(k - 1))
    torch.testing.assert_close(bias("subloo"), expected, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(bias("centred"), 0 * expected, rtol=0.0, atol=1e-14)
    assert expected.abs().max() > 0.01
