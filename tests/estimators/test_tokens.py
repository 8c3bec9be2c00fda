"""The token-level baseline: its definition, one token, masks, and what it refuses."""

from __future__ import annotations

import re

import pytest
import torch

from maxk_lab.estimators import advantages, token_advantages


def draw(n: int, length: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(n, generator=generator, dtype=torch.float64)
    proxies = torch.rand(n, length, generator=generator, dtype=torch.float64)
    ends = torch.randint(1, length + 1, (n, 1), generator=generator)
    return rewards, proxies, torch.arange(length) < ends


@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_token_by_token(n: int, seed: int) -> None:
    rewards, proxies, mask = draw(n, 5, seed)
    found = token_advantages(rewards, proxies, mask)
    expected = torch.zeros_like(found)
    for t in range(5):
        alive = mask[:, t]
        share = proxies[alive, : t + 1].sum(-1)
        level = (share * rewards[alive]).sum() / share.sum()
        expected[alive, t] = (rewards[alive] - level) / n
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)


def test_by_hand() -> None:
    rewards = torch.tensor([1.0, 3.0])
    proxies = torch.tensor([[1.0, 1.0], [3.0, 9.0]])
    mask = torch.tensor([[True, True], [True, False]])
    expected = torch.tensor([[-0.75, 0.0], [0.25, 0.0]])  # B = 2.5, then alone
    torch.testing.assert_close(token_advantages(rewards, proxies, mask), expected)


def test_one_token_is_otb() -> None:
    rewards, proxies, _ = draw(5, 1)
    found = token_advantages(rewards, proxies, torch.ones(5, 1, dtype=torch.bool)).squeeze(-1)
    g = {"logit_proxy": proxies.squeeze(-1)}
    torch.testing.assert_close(
        found, advantages(rewards, baseline="otb", k=1, trajectory_weights=g)
    )


def test_padding_changes_nothing_whatever_stands_in_it() -> None:
    rewards, proxies, mask = draw(4, 5)
    found = token_advantages(rewards, proxies, mask)
    junk = torch.where(mask, proxies, torch.nan)
    padded = token_advantages(
        rewards, torch.cat([junk, junk], -1), torch.cat([mask, torch.zeros_like(mask)], -1)
    )
    assert torch.equal(padded[:, :5], found)
    assert (padded[~torch.cat([mask, torch.zeros_like(mask)], -1)] == 0).all()


def test_the_level_of_rewards_and_the_scale_of_proxies_do_not_matter() -> None:
    rewards, proxies, mask = draw(4, 5)
    rewards = rewards.float()
    exact = token_advantages(rewards.double(), proxies, mask)
    shifted = token_advantages((rewards.double() + 1000.0).float(), proxies, mask)
    torch.testing.assert_close(shifted, exact.float(), rtol=0.0, atol=1e-4)
    torch.testing.assert_close(token_advantages(rewards.double(), 1e-250 * proxies, mask), exact)


def test_a_policy_without_choice_gets_the_plain_mean() -> None:
    rewards, _, mask = draw(3, 2)
    mask[:] = True
    found = token_advantages(rewards, torch.zeros(3, 2), mask)
    torch.testing.assert_close(found, ((rewards - rewards.mean()) / 3).unsqueeze(-1).expand(3, 2))


def test_leading_shapes_and_dtypes() -> None:
    drawn = [draw(4, 3, seed) for seed in range(6)]
    rewards, proxies, mask = (torch.stack(list(parts)) for parts in zip(*drawn))
    found = token_advantages(
        rewards.reshape(2, 3, 4).half(), proxies.reshape(2, 3, 4, 3), mask.reshape(2, 3, 4, 3)
    )
    assert found.dtype == torch.float16
    for row, (r, w, m) in zip(found.reshape(6, 4, 3), drawn):
        torch.testing.assert_close(row, token_advantages(r.half(), w, m))
    assert token_advantages(
        torch.tensor([1, 0]), torch.ones(2, 1), torch.ones(2, 1).bool()
    ).dtype == (torch.float64)


def test_weights_are_constants_of_the_loss() -> None:
    rewards, proxies, mask = draw(3, 2)
    assert not token_advantages(
        rewards.requires_grad_(), proxies.requires_grad_(), mask
    ).requires_grad


@pytest.mark.parametrize(
    ("rewards", "proxies", "mask", "message"),
    [
        (
            torch.ones(1),
            torch.ones(1, 2),
            torch.ones(1, 2).bool(),
            "rewards must have shape [..., n] with n >= 2",
        ),
        (
            torch.ones(2),
            torch.ones(2),
            torch.ones(2).bool(),
            "logit_proxies must have the shape of rewards [2] and one",
        ),
        (
            torch.ones(2),
            torch.ones(3, 2),
            torch.ones(3, 2).bool(),
            "logit_proxies must have the shape of rewards [2]",
        ),
        (torch.ones(2), torch.ones(2, 2), torch.ones(2, 2), "mask must be boolean of shape [2, 2]"),
        (
            torch.ones(2),
            torch.ones(2, 2),
            torch.ones(2, 3).bool(),
            "mask must be boolean of shape [2, 2]",
        ),
        (
            torch.ones(2),
            -torch.ones(2, 2),
            torch.ones(2, 2).bool(),
            "logit_proxies must be finite and not negative",
        ),
        (
            torch.tensor([1.0, torch.nan]),
            torch.ones(2, 2),
            torch.ones(2, 2).bool(),
            "rewards must be finite, got nan",
        ),
    ],
)
def test_mistakes(
    rewards: torch.Tensor, proxies: torch.Tensor, mask: torch.Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        token_advantages(rewards, proxies, mask)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_agrees_and_never_waits() -> None:
    rewards, proxies, mask = draw(6, 5)
    on_device = [table.cuda() for table in (rewards, proxies, mask)]
    token_advantages(*on_device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = token_advantages(*on_device)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(found.cpu(), token_advantages(rewards, proxies, mask))
