"""`advantages` as a training script of somebody's own calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch

import maxk_lab
from maxk_lab.estimators import advantages

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
