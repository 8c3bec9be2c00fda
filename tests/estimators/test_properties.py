"""Laws that hold for every baseline: symmetry, shift, scale, ties, dtypes, shapes and independence."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxk_lab import estimators
from maxk_lab.estimators import advantages
from maxk_lab.estimators.catalogue import BASELINES, choose_baseline, refusal

NAMES = BASELINES.names()
FEW = settings(max_examples=40, deadline=None)
GROUPS = st.lists(st.integers(-50, 50), min_size=3, max_size=9)


def double(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, torch.Tensor, int]:
    name, rewards = draw(st.sampled_from(NAMES)), double(draw(GROUPS))
    return name, rewards, draw(st.integers(2, len(rewards) - 1))


@FEW
@given(cases(), st.randoms(use_true_random=False))
def test_permuting_rewards_permutes_weights(case: tuple[str, torch.Tensor, int], rng) -> None:  # type: ignore[no-untyped-def]
    name, rewards, k = case
    order = list(range(len(rewards)))
    rng.shuffle(order)
    torch.testing.assert_close(
        advantages(rewards[order], baseline=name, k=k), advantages(rewards, baseline=name, k=k)[order]
    )


@FEW
@given(cases(), st.integers(-1000, 1000), st.integers(1, 100))
def test_shift_and_scale(case: tuple[str, torch.Tensor, int], shift: int, scale: int) -> None:
    name, rewards, k = case
    weights = advantages(rewards, baseline=name, k=k)
    torch.testing.assert_close(advantages(rewards * scale, baseline=name, k=k), weights * scale)
    shifted = advantages(rewards + shift, baseline=name, k=k)
    if BASELINES.get(name).shift_invariant:
        assert torch.equal(shifted, weights)
    else:
        level = advantages(torch.full_like(rewards, shift), baseline=name, k=k)
        torch.testing.assert_close(shifted, weights + level, rtol=1e-10, atol=1e-10)


@FEW
@given(cases())
def test_equal_rewards_get_equal_weights(case: tuple[str, torch.Tensor, int]) -> None:
    name, rewards, k = case
    weights = advantages(rewards, baseline=name, k=k)
    for reward in rewards.unique():
        assert weights[rewards == reward].unique().numel() == 1


@FEW
@given(cases(), st.integers(0, 8), st.integers(-50, 50))
def test_baseline_of_a_sample_does_not_see_its_reward(
    case: tuple[str, torch.Tensor, int], i: int, other: int
) -> None:
    name, rewards, k = case
    i %= len(rewards)
    moved = rewards.clone()
    moved[i] = other

    def baseline(r: torch.Tensor) -> torch.Tensor:
        return advantages(r, baseline="none", k=k)[i] - advantages(r, baseline=name, k=k)[i]

    if BASELINES.get(name).unbiased:
        torch.testing.assert_close(baseline(moved), baseline(rewards), rtol=1e-10, atol=1e-10)


def test_group_mean_does_see_its_own_reward() -> None:
    a, b = double([0, 1, 2, 3]), double([0, 1, 2, 9])
    seen = [estimators.maxk_gradient_weights(r, 2) - estimators.group_mean_weights(r, 2) for r in (a, b)]
    assert abs(float(seen[0][3] - seen[1][3])) > 0.1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(5,), (0, 5), (3, 5), (2, 1, 3, 5)])
def test_leading_shapes(name: str, shape: tuple[int, ...]) -> None:
    rewards = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = advantages(rewards, baseline=name, k=2)
    assert weights.shape == shape
    for group, row in zip(rewards.reshape(-1, 5), weights.reshape(-1, 5), strict=True):
        torch.testing.assert_close(row, advantages(group, baseline=name, k=2))
    assert estimators.maxk_reward_estimate(rewards, 2).shape == shape[:-1]
    assert estimators.maxk_curve(rewards).shape == shape


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool],
)
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    rewards = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    weights = advantages(rewards, baseline=name, k=2)
    assert weights.dtype == (dtype if dtype.is_floating_point else torch.float64)
    exact = advantages(rewards.double(), baseline=name, k=2)
    assert torch.equal(weights, exact.to(weights.dtype))


@pytest.mark.parametrize("name", [row.name for row in BASELINES if row.shift_invariant])
@pytest.mark.parametrize("k", [2, 8, 15])
def test_float32_rewards_with_a_large_shift(name: str, k: int) -> None:
    noise = torch.randn(16, generator=torch.Generator().manual_seed(3))
    rewards = (-1e4 + 1e-3 * noise).float()
    exact = advantages(rewards.double() + 1e4, baseline=name, k=k)
    torch.testing.assert_close(advantages(rewards, baseline=name, k=k), exact.float(), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("k", [2, 5, 8])
def test_subloo_is_zero_below_rank_k_and_monotone(k: int) -> None:
    rewards = torch.randn(50, 8, generator=torch.Generator().manual_seed(4))
    ranked = estimators.subloo_weights(rewards, k).gather(-1, rewards.argsort(-1))
    assert (ranked[:, : k - 1] == 0).all()
    assert (ranked.diff(dim=-1) >= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_unstable_sort_gives_the_same_weights(name: str) -> None:
    rewards = torch.randint(0, 4, (20, 12), generator=torch.Generator().manual_seed(5)).double()
    unstable = advantages(rewards, baseline=name, k=3, stable_sort=False)
    torch.testing.assert_close(unstable, advantages(rewards, baseline=name, k=3))


def test_reinforce_is_maxk_at_one() -> None:
    rewards = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    weights = advantages(rewards, estimator="reinforce", baseline="centred", k=5)
    others = (rewards.sum(-1, keepdim=True) - rewards) / 5
    torch.testing.assert_close(weights, (rewards - others) / 6)


def test_affine_joins_centred_and_subloo() -> None:
    rewards = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    for alpha, name in ((0.0, "centred"), (1.0, "subloo")):
        weights = advantages(rewards, baseline=f"affine[{alpha}]", k=3)
        torch.testing.assert_close(weights, advantages(rewards, baseline=name, k=3))


def test_weights_cached_in_inference_mode_serve_autograd() -> None:
    with torch.inference_mode():
        estimators.maxk_reward_estimate(torch.randn(11), 4)
    rewards = torch.randn(11, requires_grad=True)
    estimators.maxk_reward_estimate(rewards, 4).backward()
    assert rewards.grad is not None
    assert float(rewards.grad.sum()) == pytest.approx(1.0)
    # Weights are constants of the loss, whatever the rewards carry.
    assert not estimators.centred_weights(rewards, 4).requires_grad


def test_inputs_are_not_written_to() -> None:
    rewards = torch.tensor([3.0, 1.0, 2.0])
    for name in NAMES:
        if refusal("maxk", name, 3, 2) is None:
            advantages(rewards, baseline=choose_baseline(name).name, k=2)
    estimators.maxk_reward_weights(3, 2).zero_()
    assert rewards.tolist() == [3.0, 1.0, 2.0]
    assert estimators.maxk_reward_weights(3, 2).sum() == pytest.approx(1.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_cuda_agrees_and_never_waits(name: str) -> None:
    rewards = torch.randn(8, 16, generator=torch.Generator().manual_seed(8))
    device_rewards = rewards.cuda()
    advantages(device_rewards, baseline=name, k=3)
    torch.cuda.set_sync_debug_mode("error")
    try:
        weights = advantages(device_rewards, baseline=name, k=3)
        estimators.maxk_curve(device_rewards)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(weights.cpu(), advantages(rewards, baseline=name, k=3))
    device_rewards[0, 0] = float("nan")
    assert advantages(device_rewards, baseline=name, k=3)[0].isnan().all()
