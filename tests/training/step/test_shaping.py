"""The reward stages: order matters, unscorable rewards pass, the penalty has no gradient."""

import pytest
import torch

from maxk_lab.training.step.shaping import shape_rewards

REWARDS = torch.tensor([[2.0, -3.0], [float("nan"), 0.5]])
PENALTY = torch.tensor([[0.5, -0.25], [1.0, 0.0]])


def shaped(order, *, clip=(-1.0, 1.0), penalty=PENALTY):
    return shape_rewards(REWARDS, penalty=penalty, clip=clip, order=order)


def test_the_stages_run_in_the_order_given():
    nan = float("nan")
    expected = {
        ("clip", "kl"): [[0.5, -0.75], [nan, 0.5]],
        ("kl", "clip"): [[1.0, -1.0], [nan, 0.5]],
    }
    for order, values in expected.items():
        torch.testing.assert_close(shaped(order), torch.tensor(values), equal_nan=True)


def test_stages_that_are_off_change_nothing():
    torch.testing.assert_close(
        shaped(("clip", "kl"), clip=None, penalty=None), REWARDS, equal_nan=True
    )


def test_the_scale_comes_before_every_stage():
    for order in (("clip", "kl"), ("kl", "clip")):
        found = shape_rewards(REWARDS, scale=0.5, penalty=PENALTY, clip=(-1.0, 1.0), order=order)
        wanted = shape_rewards(0.5 * REWARDS, penalty=PENALTY, clip=(-1.0, 1.0), order=order)
        assert torch.equal(found.nan_to_num(9), wanted.nan_to_num(9))


def test_the_penalty_is_a_constant():
    assert not shaped(("clip", "kl"), penalty=PENALTY.clone().requires_grad_()).requires_grad


def test_unknown_stages_are_refused():
    with pytest.raises(ValueError, match="order must hold clip and kl, got 'whiten'"):
        shaped(("whiten",))
