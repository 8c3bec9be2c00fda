"""Every entry of the log by hand: raw and shaped rewards, unscorable samples, small groups."""

import math
from types import SimpleNamespace

import pytest
import torch

from maxk_lab.training.batch import METRICS, batch_metrics

NAN = math.nan
RAW = torch.tensor([[1.0, 3.0, NAN], [2.0, 2.0, 2.0], [5.0, NAN, NAN], [NAN, NAN, NAN]])
MASK = torch.tensor([[[1, 0, 0], [1, 1, 1]], [[1, 1, 0], [1, 1, 0]]], dtype=torch.bool)
VALUES = torch.arange(12.0).view(2, 2, 3)
WEIGHTS = torch.tensor([[0.5, -0.25], [1.0, 0.0]])
CLOSE = torch.tensor([[1000.0, 1000.001]])


def logged(raw, kl=None, shift=0.0):
    batch = SimpleNamespace(
        rollouts=SimpleNamespace(rewards=raw),
        numbers=SimpleNamespace(mask=MASK, entropy=VALUES),
        truncated=torch.tensor([[False, True], [False, False]]),
    )
    return batch_metrics(batch, raw + shift, WEIGHTS, torch.tensor([False, True]), kl)


@pytest.mark.parametrize(
    ("raw", "mean", "std", "constant"),
    [
        (RAW, 15 / 6, math.sqrt(2) / 2, 1 / 2),
        (RAW[2:3], 5.0, NAN, NAN),
        (RAW[3:], NAN, NAN, NAN),
        # Rewards far from zero keep their spread.
        (CLOSE, 1000.0005, CLOSE.double().diff().item() / math.sqrt(2), 0),
    ],
    ids=["all", "one scored", "none scored", "far from zero"],
)
def test_rewards_by_hand(raw, mean, std, constant):
    log = logged(raw, shift=-1)
    names = ("reward/mean", "reward_with_kl/mean", "frac_reward_zero_std")
    expected = [mean, mean - 1, constant]
    assert [log[name] for name in names] == pytest.approx(expected, nan_ok=True)
    assert log["reward/std"] == pytest.approx(std, rel=1e-9, nan_ok=True)
    assert log["frac_unscorable"] == raw.isnan().double().mean().item()


def test_tokens_by_hand():
    log = logged(torch.zeros(2, 2), kl=VALUES * 2)
    assert log["advantage/mean"] == pytest.approx(2 * 1.25 / 4)
    assert log["entropy"] == pytest.approx(44 / 4)
    assert (log["kl/sequence"], log["kl/token"]) == (pytest.approx(88 / 4), pytest.approx(88 / 8))
    assert (log["frac_truncated"], log["frac_unusable_groups"]) == (1 / 4, 1 / 2)
    assert (log["length/mean"], log["length/min"], log["length/max"]) == (2.0, 1.0, 3.0)
    plain = logged(torch.zeros(2, 2))
    assert math.isnan(plain["kl/sequence"])
    assert math.isnan(plain["kl/token"])
    assert set(METRICS) - set(log) == {"loss", "grad_norm", "clip_ratio/low", "clip_ratio/high"}
