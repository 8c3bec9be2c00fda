"""Every entry of the log by hand: raw and shaped rewards, unscorable samples, small groups."""

import math
from types import SimpleNamespace

import pytest
import torch

from maxk_lab.training.batch import METRICS, batch_metrics

NAN = float("nan")
RAW = torch.tensor([[1.0, 3.0, NAN], [2.0, 2.0, 2.0], [5.0, NAN, NAN], [NAN, NAN, NAN]])
MASK = torch.tensor([[[1, 0, 0], [1, 1, 1]], [[1, 1, 0], [1, 1, 0]]], dtype=torch.bool)
VALUES = torch.arange(12.0).view(2, 2, 3)
UNUSABLE = torch.tensor([False, True])


ZERO = torch.zeros(2, 2)


def logged(raw=ZERO, weights=VALUES, kl=None, shift=0.0):
    batch = SimpleNamespace(
        rollouts=SimpleNamespace(rewards=raw),
        numbers=SimpleNamespace(mask=MASK, entropy=VALUES),
        truncated=torch.tensor([[False, True], [False, False]]),
    )
    return batch_metrics(batch, raw + shift, weights, UNUSABLE, kl)


def test_rewards_by_hand():
    found = logged(RAW, shift=-1)
    assert found["reward/mean"] == pytest.approx(15 / 6)
    assert found["reward_with_kl/mean"] == pytest.approx(9 / 6)
    assert found["reward/std"] == pytest.approx((math.sqrt(2) + 0) / 2)
    assert found["frac_reward_zero_std"] == 1 / 2
    assert found["frac_unscorable"] == 6 / 12
    alone = logged(RAW[2:3])
    assert math.isnan(alone["reward/std"])
    assert math.isnan(alone["frac_reward_zero_std"])
    assert alone["reward/mean"] == 5.0
    assert math.isnan(logged(RAW[3:])["reward/mean"])


def test_rewards_far_from_zero_keep_their_spread():
    raw = torch.tensor([[1000.0, 1000.001]], dtype=torch.float32)
    expected = (raw[0, 1].double() - raw[0, 0].double()).item() / math.sqrt(2)
    assert logged(raw)["reward/std"] == pytest.approx(expected, rel=1e-9)


def test_tokens_by_hand():
    found = logged(weights=torch.tensor([[0.5, -0.25], [1.0, 0.0]]), kl=VALUES * 2)
    assert found["advantage/mean"] == pytest.approx(2 * 1.25 / 4)
    assert found["entropy"] == pytest.approx(44 / 4)
    assert found["kl/sequence"] == pytest.approx(88 / 4)
    assert found["kl/token"] == pytest.approx(88 / 8)
    assert (found["frac_truncated"], found["frac_unusable_groups"]) == (1 / 4, 1 / 2)
    assert (found["length/mean"], found["length/min"], found["length/max"]) == (2.0, 1.0, 3.0)
    by_token = logged()
    assert by_token["advantage/mean"] == pytest.approx(2 * 44 / 8)
    assert math.isnan(by_token["kl/sequence"])
    assert math.isnan(by_token["kl/token"])
    assert set(METRICS) - set(found) == {"loss", "grad_norm", "clip_ratio/low", "clip_ratio/high"}
    assert set(found) <= set(METRICS)
