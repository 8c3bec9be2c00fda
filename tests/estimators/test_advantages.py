"""`advantages` as a training script of somebody's own calls it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import maxk_lab
from maxk_lab.estimators import advantages
from maxk_lab.estimators.catalogue import ESTIMATORS

nan = float("nan")
WHOLE = 2**53
ROWS = [[0.0, 1.0, 0.25, 1.0], [3.0, -1.0, 0.5, 2.0]]
HOLES = [[0.0, None, 0.25, 1.0], [3.0, -1.0, 0.5, 2.0], [None, None, None, 1.0]]


@pytest.mark.parametrize(
    ("rewards", "same"),
    [
        ([tuple(row) for row in ROWS], ROWS),
        (np.array(ROWS)[:, ::-1][:, ::-1], ROWS),  # strides that torch does not take
        (np.broadcast_to(np.array(ROWS), (2, 4)), ROWS),  # read-only
        (np.array(ROWS, dtype=object), ROWS),
        (pd.Series(ROWS[0], index=[5, 6, 7, 8]), ROWS[0]),
        (np.ma.array(ROWS[0], mask=[0, 1, 0, 0]), HOLES[0]),
        (np.ma.array([[7, 1, 2]] * 2, mask=[[1, 0, 0], [0, 0, 0]]), [[None, 1, 2], [7, 1, 2]]),
        (
            [np.ma.array(row, mask=[0, 1, 0, 0]) for row in ROWS],
            [[0.0, None, 0.25, 1.0], [3.0, None, 0.5, 2.0]],
        ),
        (torch.tensor([WHOLE, WHOLE - 1, 0]), [float(WHOLE), WHOLE - 1.0, 0.0]),
    ],
)
def test_arrays_masks_and_columns_give_what_lists_and_tensors_give(rewards: Any, same: Any) -> None:
    weights = maxk_lab.advantages(rewards, baseline="subloo", k=np.int64(2))
    assert weights.dtype == torch.float64
    assert torch.equal(weights, advantages(same, baseline="subloo", k=2))
    if same is ROWS:
        assert torch.equal(weights, advantages(torch.tensor(ROWS).double(), baseline="subloo", k=2))


@pytest.mark.parametrize("estimator", [row.name for row in ESTIMATORS if not row.takes_baseline])
def test_an_estimator_with_a_baseline_built_in_takes_no_other(estimator: str) -> None:
    rewards, k = [[0.0, 1.0, 1.0, 0.0]], 4 if estimator == "grpo_passk" else 2
    weights = advantages(rewards, estimator=estimator, k=k)
    assert torch.equal(weights, advantages(rewards, estimator=estimator, baseline="none", k=k))
    with pytest.raises(maxk_lab.LabError, match=f"{estimator} takes no baseline, got centred"):
        advantages(rewards, estimator=estimator, baseline="centred", k=k)


def test_defaults_and_types() -> None:
    assert torch.equal(advantages(ROWS, k=2), advantages(ROWS, baseline="centred", k=2))
    assert torch.equal(advantages(ROWS, estimator="reinforce"), advantages(ROWS, k=1))
    assert advantages(np.float32(ROWS), k=2).dtype == torch.float32
    assert advantages([True, False, True], k=2).dtype == torch.float64


def test_samples_without_a_reward_are_left_out_of_the_group() -> None:
    weights = advantages(HOLES, k=2)
    assert torch.equal(weights[0, [0, 2, 3]], advantages([0.0, 0.25, 1.0], k=2))
    assert weights[0, 1] == 0
    assert torch.equal(weights[1], advantages(ROWS[1], k=2))
    assert torch.equal(weights[2], torch.zeros(4, dtype=torch.float64))
    rewards = torch.tensor([[nan if r is None else r for r in row] for row in HOLES])
    usable, expected = ~rewards.isnan(), weights.float()
    torch.testing.assert_close(advantages(rewards, k=2, usable=usable), expected)
    by_array = advantages(rewards.numpy(), k=2, usable=usable.numpy())
    torch.testing.assert_close(by_array, expected)


def test_trajectory_weights_and_leading_dimensions_go_along() -> None:
    lengths = torch.arange(1.0, 13.0, dtype=torch.float64).view(1, 3, 4)
    pair: dict[str, Any] = {"estimator": "reinforce", "baseline": "optimal[length]"}
    weights = advantages([HOLES], trajectory_weights={"length": lengths}, **pair)
    alone = advantages([0.0, 0.25, 1.0], trajectory_weights={"length": [1.0, 3.0, 4.0]}, **pair)
    assert weights.shape == (1, 3, 4)
    torch.testing.assert_close(weights[0, 0, [0, 2, 3]], alone)
