"""`advantages` as a training script of somebody's own calls it."""

from __future__ import annotations

import re
from typing import Any

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
HOLES = [[0.0, None, 0.25, 1.0], [3.0, -1.0, 0.5, 2.0], [None, None, None, 1.0]]
EXPECTED = advantages(torch.tensor(ROWS, dtype=torch.float64), baseline="subloo", k=2)


@pytest.mark.parametrize(
    "rewards",
    [
        ROWS,
        [tuple(row) for row in ROWS],
        np.array(ROWS)[:, ::-1][:, ::-1],  # strides that torch does not take
        np.broadcast_to(np.array(ROWS), (2, 4)),  # read-only
        np.array(ROWS, dtype=object),
    ],
)
def test_lists_and_arrays_give_what_the_tensor_gives(rewards: Any) -> None:
    weights = maxk_lab.advantages(rewards, baseline="subloo", k=2)
    assert weights.dtype == torch.float64
    assert torch.equal(weights, EXPECTED)


def test_types_are_kept_and_a_column_of_pandas_is_an_array() -> None:
    assert advantages(np.float32(ROWS), k=2).dtype == torch.float32
    assert advantages([True, False, True], k=2).dtype == torch.float64
    column = pd.Series(ROWS[0], index=[5, 6, 7, 8])
    assert torch.equal(advantages(column, baseline="subloo", k=2), EXPECTED[0])


@pytest.mark.parametrize("estimator", [row.name for row in ESTIMATORS if not row.takes_baseline])
def test_an_estimator_with_a_baseline_built_in_takes_no_other(estimator: str) -> None:
    rewards, k = [[0.0, 1.0, 1.0, 0.0]], 4 if estimator == "grpo_passk" else 2
    weights = advantages(rewards, estimator=estimator, k=k)
    assert torch.equal(weights, advantages(rewards, estimator=estimator, baseline="none", k=k))
    with pytest.raises(maxk_lab.LabError, match=f"{estimator} takes no baseline, got centred"):
        advantages(rewards, estimator=estimator, baseline="centred", k=k)


def test_defaults() -> None:
    assert torch.equal(advantages(ROWS, k=2), advantages(ROWS, baseline="centred", k=2))
    assert not torch.equal(advantages(ROWS, k=2), advantages(ROWS, baseline="none", k=2))
    assert torch.equal(advantages(ROWS, estimator="reinforce"), advantages(ROWS, k=1))


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


@pytest.mark.parametrize(
    ("rewards", "options", "message"),
    [
        *(
            (rewards, {"k": 1}, "rewards must ")
            for rewards in ("0.5", 3.0, [["a", 1.0]], [[1.0], [1.0, 2.0]], [{}], object())
        ),
        (ROWS, {}, "estimator maxk needs k, the number of samples"),
        *(
            (
                ROWS,
                {"estimator": name, "k": 1},
                f"unknown estimator '{name}': {name} is a baseline; take estimator {estimator} "
                f"with baseline {name}",
            )
            for name, estimator in (
                ("rloo", "reinforce"),
                ("affine[0.5]", "maxk"),
            )
        ),
        (HOLES, {"k": 5}, "k must be an integer with 1 <= k <= n = 4"),
        (ROWS, {"k": 2, "usable": [True, False]}, "usable must have the shape of rewards [2, 4]"),
        (ROWS, {"k": 2, "usable": [[1, 0, 2, 1]] * 2}, "usable must be True and False, or 1 and 0"),
        (ROWS, {"k": 2, "trajectory_weights": 3}, "trajectory_weights must be a mapping from name"),
        ([0.0, nan, 1.0], {"k": 2}, "rewards must be finite, got nan: where a trajectory has no"),
    ],
)
def test_mistakes(rewards: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(maxk_lab.LabError, match=f"^{re.escape(message)}"):
        advantages(rewards, **options)


WHOLE = 2**53
HALF = torch.tensor([-6e4, 6e4, 6e4], dtype=torch.float16)
TENSOR = torch.tensor([0.0, 1.0, 0.25])


@pytest.mark.parametrize(
    ("rewards", "options", "message"),
    [
        (
            np.ma.masked_array(ROWS[0]),
            {"usable": np.ma.array([1, 1, 1, 0], mask=[0, 0, 0, 1])},
            "usable must have no masked entries",
        ),
        (torch.tensor([WHOLE + 1, 0, 1]), {}, f"rewards must be whole .* got {WHOLE + 1}: "),
        (torch.tensor([-WHOLE - 1, 0, 1]), {}, f"rewards must be whole .* got -{WHOLE + 1}: "),
        (np.array([2**64 - 1, 0, 1], dtype=np.uint64), {}, f"got {2**64 - 1}: float64 would"),
        ([WHOLE + 1, 0, None], {}, f"rewards must be whole .* got {WHOLE + 1}: "),
        ([[np.int64(WHOLE + 1), 0, 1]], {}, f"rewards must be whole .* got {WHOLE + 1}: "),
        ([torch.tensor(WHOLE + 1), 0, 1], {}, f"rewards must be whole .* got {WHOLE + 1}: "),
        (HALF, {"baseline": "sample_loo"}, "leave the range of float16: give rewards as float64"),
        (5e33 * HALF.float(), {"baseline": "sample_loo"}, "leave the range of float32"),
        (HALF.to(torch.float8_e5m2), {}, "16 bits or more, .* got dtype torch.float8_e5m2"),
        (TENSOR.to_sparse(), {}, "rewards must be a dense tensor, .*: call .to_dense()"),
        (TENSOR.to("meta"), {}, "rewards must be a dense tensor, got a tensor without data"),
        (TENSOR, {"usable": (TENSOR > 0).to_sparse()}, "usable must be a dense tensor"),
        (
            [ROWS[0]],
            {"estimator": "off_policy_maxk", "ratios": [np.ma.array([1.0] * 4, mask=[1, 0, 0, 0])]},
            "ratios must have no masked entries",
        ),
        (TENSOR, {"estimator": "off_policy_maxk", "ratios": TENSOR.to_sparse()}, "ratios must be"),
    ],
)
def test_inputs_that_would_change_silently_are_refused(
    rewards: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(maxk_lab.LabError, match=message):
        advantages(rewards, k=1, **options)


@pytest.mark.parametrize(
    ("rewards", "same", "k"),
    [
        (np.ma.array(ROWS[0], mask=[0, 1, 0, 0]), HOLES[0], 2),
        (
            np.ma.array([[7, 1, 2], [3, 1, 2]], mask=[[1, 0, 0], [0, 0, 0]]),
            [[None, 1, 2], [3, 1, 2]],
            1,
        ),
        (
            [np.ma.array(row, mask=[0, 1, 0, 0]) for row in ROWS],
            [[0.0, None, 0.25, 1.0], [3.0, None, 0.5, 2.0]],
            2,
        ),
        (ROWS, ROWS, np.int64(2)),
        (torch.tensor([WHOLE, WHOLE - 1, 0]), [float(WHOLE), WHOLE - 1.0, 0.0], 2),
    ],
)
def test_inputs_of_rare_kinds_count_in_full(rewards: Any, same: Any, k: int) -> None:
    assert torch.equal(advantages(rewards, k=k), advantages(same, k=int(k)))


@pytest.mark.parametrize("k", [2, 3])
def test_the_mean_of_the_group_taken_off_afterwards_biases_subloo_as_the_docs_say(k: int) -> None:
    bandit, n = TinyBandit((0.3, -0.8, 0.5, 0.1), (0.0, 1.0, 0.25, 0.7)), 4

    def bias(baseline: str) -> torch.Tensor:
        def weigh(_arms: torch.Tensor, rewards: torch.Tensor) -> torch.Tensor:
            weights = advantages(rewards, baseline=baseline, k=k)
            return weights - weights.mean(-1, keepdim=True)

        return bandit.mean_estimate(n, weigh) - bandit.gradient(k)

    expected = -(k / n) * (bandit.gradient(k) - bandit.gradient(k - 1))
    torch.testing.assert_close(bias("subloo"), expected, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(bias("centred"), 0 * expected, rtol=0.0, atol=1e-14)
    assert expected.abs().max() > 0.01
