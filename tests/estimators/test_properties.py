"""Laws of every baseline: symmetry, shift, scale, ties, dtypes, shapes and independence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab import estimators
from maxk_lab.estimators.catalogue import BASELINES, TRAJECTORY_WEIGHTS, choose_baseline
from maxk_lab.estimators.check.bandit import some_coefficients
from maxk_lab.estimators.method import Method

# A baseline that is given as numbers in units of reward is not homogeneous in the rewards: see
# test_with_coefficients.
NUMBERS = ("constant", "joint_optimum")
NAMES = tuple(row.name for row in BASELINES if not row.token_level and row.name not in NUMBERS)
UNBIASED = tuple(name for name in NAMES if BASELINES.get(name).unbiased)
GROUPS = st.lists(st.integers(-50, 50), min_size=3, max_size=9)


def advantages(
    rewards: torch.Tensor,
    *,
    baseline: str,
    k: int,
    g: torch.Tensor | None = None,
    **options: object,
) -> torch.Tensor:
    """The baseline's weights at K, or at 1 where it has no other.

    Its g goes by position and spans magnitudes.

    A fitted baseline gets some coefficients, the same for all rewards.
    """
    row = choose_baseline(baseline).row
    if g is None:
        g = (10.0 ** torch.arange(rewards.shape[-1])).expand(rewards.shape).to(rewards.device)
    if Method.parse("maxk", baseline).fit is not None:
        options["coefficients"] = some_coefficients(k - 1).to(rewards.device)
    return estimators.advantages(
        rewards,
        baseline=baseline,
        k=min(k, row.most_k or k),
        trajectory_weights=dict.fromkeys(TRAJECTORY_WEIGHTS, g),
        **options,
    )


def double(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@st.composite
def cases(draw: st.DrawFn, names: tuple[str, ...] = NAMES) -> tuple[str, torch.Tensor, int]:
    name, rewards = draw(st.sampled_from(names)), double(draw(GROUPS))
    return name, rewards, draw(st.integers(2, len(rewards) - 1))


@given(cases(), st.randoms(use_true_random=False))
def test_permuting_rewards_permutes_weights(case: tuple[str, torch.Tensor, int], rng: Any) -> None:
    name, rewards, k = case
    order = list(range(len(rewards)))
    rng.shuffle(order)
    g = torch.arange(1, len(rewards) + 1)
    torch.testing.assert_close(
        advantages(rewards[order], baseline=name, k=k, g=g[order]),
        advantages(rewards, baseline=name, k=k, g=g)[order],
    )


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


@pytest.mark.parametrize("name", NAMES)
def test_the_row_says_whether_a_shift_changes_the_weights(name: str) -> None:
    rewards = double([3, -1, 4, 1, -5])
    weights, shifted = (advantages(r, baseline=name, k=2) for r in (rewards, rewards + 7))
    assert torch.allclose(shifted, weights) == BASELINES.get(name).shift_invariant


@given(cases())
def test_equal_rewards_get_equal_weights(case: tuple[str, torch.Tensor, int]) -> None:
    name, rewards, k = case
    weights = advantages(rewards, baseline=name, k=k, g=torch.ones_like(rewards))
    for reward in rewards.unique():
        found = weights[rewards == reward]
        if Method.parse("maxk", name).needed_weight is None:
            assert found.unique().numel() == 1
        else:  # summed in the samples' order
            torch.testing.assert_close(found, found[:1].expand_as(found), rtol=0.0, atol=1e-13)


@given(cases(UNBIASED), st.integers(0, 8), st.integers(-50, 50), st.floats(0.01, 100.0))
def test_baseline_of_a_sample_sees_neither_its_reward_nor_its_g(
    case: tuple[str, torch.Tensor, int], i: int, other: int, other_g: float
) -> None:
    name, rewards, k = case
    i %= len(rewards)
    moved, g = rewards.clone(), torch.arange(1, len(rewards) + 1).double()
    moved[i], moved_g = other, g.clone()
    moved_g[i] = other_g
    own_k = min(k, BASELINES.get(name).most_k or k)

    def baseline(r: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        s = advantages(r, baseline="none", k=own_k)
        return s[i] - advantages(r, baseline=name, k=k, g=g)[i]

    torch.testing.assert_close(
        baseline(moved, moved_g), baseline(rewards, g), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name not in UNBIASED])
def test_biased_baselines_do_see_their_own_reward(name: str) -> None:
    a, b, g = double([0, 1, 2, 3]), double([0, 1, 2, 9]), double([1, 3, 2, 4])
    s = [advantages(r, baseline="none", k=1) for r in (a, b)]
    seen = [s - advantages(r, baseline=name, k=1, g=g) for s, r in zip(s, (a, b))]
    assert abs(float(seen[0][3] - seen[1][3])) > 0.1


def test_group_mean_does_see_its_own_reward() -> None:
    a, b = double([0, 1, 2, 3]), double([0, 1, 2, 9])
    seen = [
        estimators.maxk_gradient_weights(r, 2) - estimators.group_mean_weights(r, 2) for r in (a, b)
    ]
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
    [
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.int64,
        torch.uint8,
        torch.bool,
    ],
)
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    rewards = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    weights = advantages(rewards, baseline=name, k=2)
    assert weights.dtype == (dtype if dtype.is_floating_point else torch.float64)
    exact = advantages(rewards.double(), baseline=name, k=2)
    assert torch.equal(weights, exact.to(weights.dtype))


@pytest.mark.parametrize("name", [name for name in NAMES if BASELINES.get(name).shift_invariant])
@pytest.mark.parametrize("k", [2, 8, 15])
def test_float32_rewards_with_a_large_shift(name: str, k: int) -> None:
    noise = torch.randn(16, generator=torch.Generator().manual_seed(3))
    rewards = (-1e4 + 1e-3 * noise).float()
    exact = advantages(rewards.double() + 1e4, baseline=name, k=k)
    torch.testing.assert_close(
        advantages(rewards, baseline=name, k=k), exact.float(), rtol=1e-6, atol=0.0
    )


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
    weights = estimators.advantages(rewards, estimator="reinforce", baseline="centred", k=5)
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
    rewards, g = torch.tensor([3.0, 1.0, 2.0]), double([1, 2, 4])
    for name in NAMES:
        advantages(rewards, baseline=name, k=2, g=g)
    assert g.tolist() == [1.0, 2.0, 4.0]
    estimators.maxk_reward_weights(3, 2).zero_()
    assert rewards.tolist() == [3.0, 1.0, 2.0]
    assert estimators.maxk_reward_weights(3, 2).sum() == pytest.approx(1.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_cuda_agrees_and_never_waits(name: str) -> None:
    rewards = torch.randn(8, 16, generator=torch.Generator().manual_seed(8))
    device_rewards = rewards.cuda()
    g = torch.rand(8, 16, generator=torch.Generator().manual_seed(9)) + 0.1
    device_g = g.cuda()
    advantages(device_rewards, baseline=name, k=3, g=device_g)
    torch.cuda.set_sync_debug_mode("error")
    try:
        weights = advantages(device_rewards, baseline=name, k=3, g=device_g)
        estimators.maxk_curve(device_rewards)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(weights.cpu(), advantages(rewards, baseline=name, k=3, g=g))
    device_rewards[0, 0] = float("nan")
    assert advantages(device_rewards, baseline=name, k=3, g=device_g)[0].isnan().all()
