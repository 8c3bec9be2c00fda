"""TorchRL: advantages of groups that a replay buffer completes, in any order."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.objectives.llm import MCAdvantage

from maxk_lab import advantages
from maxk_lab.adapters.torchrl import MaxKAdvantage
from maxk_lab.errors import LabError, LabWarning


def trajectory(group, rewards):
    """An episode with a reward at every step."""
    size = len(rewards)
    done = torch.arange(size) == size - 1
    return TensorDict(
        {
            "group": torch.full((size,), group),
            "next": TensorDict(
                {"reward": torch.tensor(rewards)[:, None], "done": done[:, None]}, [size]
            ),
        },
        [size],
    )


def fill(transform, trajectories):
    """What a replay buffer holds after these."""
    buffer = ReplayBuffer(storage=LazyTensorStorage(100), transform=transform, batch_size=1)
    for one in trajectories:
        buffer.extend(one)
    return buffer[:]


def episodes():
    """Two groups of four, of which one is not complete, drawn in turns; of 1 to 3 steps each."""
    rewards = [[1.0, 2.0], [0.0], [5.0, 0.0, 2.0], [1.5], [0.5, 0.5], [9.0], [4.0, 0.0]]
    return [trajectory(*one) for one in zip([0, 1, 0, 0, 1, 1, 0], rewards, strict=True)]


RETURNS, LENGTHS = torch.tensor([3.0, 7.0, 1.5, 4.0]), torch.tensor([2, 3, 1, 2])


@pytest.mark.parametrize("baseline", ["subloo", "none", "centred"])
def test_a_complete_group_has_n_times_its_weights_at_every_step(baseline):
    held = fill(MaxKAdvantage(4, "group", k=3, baseline=baseline), episodes())
    weights = 4 * advantages(RETURNS, k=3, baseline=baseline)
    torch.testing.assert_close(held["advantage"][:, 0], weights.repeat_interleave(LENGTHS))


def test_grpo_is_torchrls_own():
    ours = fill(MaxKAdvantage(4, "group", estimator="grpo[1e-12]"), episodes())
    theirs = fill(MCAdvantage(4, "group", trajectory_return="sum"), episodes())
    torch.testing.assert_close(ours["advantage"], theirs["advantage"])


def test_lengths_and_missing_returns_are_seen():
    pair = {"estimator": "reinforce", "baseline": "opo"}
    held = fill(MaxKAdvantage(4, "group", **pair), episodes())
    weights = 4 * advantages(RETURNS, **pair, trajectory_weights={"length": LENGTHS.float()})
    torch.testing.assert_close(held["advantage"][[0, 2, 5, 6], 0], weights)
    missing = [trajectory(0, [reward]) for reward in (1.0, torch.nan, 3.0, 0.0)]
    held = fill(MaxKAdvantage(4, "group", k=2), missing)
    weights = torch.zeros(4)
    weights[[0, 2, 3]] = 3 * advantages(torch.tensor([1.0, 3.0, 0.0]), k=2)
    torch.testing.assert_close(held["advantage"][:, 0], weights)


def test_what_cannot_be_right_is_refused_by_name():
    for options, message in (
        ({"k": 2, "trajectory_return": None}, "trajectory_return must be sum, max or mean"),
        ({"k": 2, "candidate_group_size": 8}, "candidate_group_size must be grpo_size, 4"),
        ({"k": 4}, "K = 4 and n = 4"),
        ({}, "needs k"),
    ):
        with pytest.raises(LabError, match=message):
            MaxKAdvantage(4, **options)
    with pytest.warns(LabWarning, match="drops groups by their returns"):
        transform = MaxKAdvantage(2, "group", k=1, keep_return_bounds=(0.0, 1.0))
    constant = [trajectory(0, [1.0]), trajectory(0, [1.0])]
    held = fill(transform, [*constant, trajectory(1, [1.0]), trajectory(1, [0.0])])
    torch.testing.assert_close(held["advantage"][:, 0], torch.tensor([1.0, -1.0]))
