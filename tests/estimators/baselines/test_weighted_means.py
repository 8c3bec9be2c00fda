"""Laws of the norm-weighted baselines: names they join, whose g they need, what g may be."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from maxk_lab.estimators import Method, advantages, reference
from maxk_lab.estimators.catalogue import BASELINES, TRAJECTORY_WEIGHTS, choose_baseline
from maxk_lab.estimators.check.bandit import TinyBandit

KINDS = ("length", "logit_proxy", "grad_norm")
LOO = {"length": "opo_loo", "logit_proxy": "otb_loo", "grad_norm": "eob_loo"}
NEED_G = [row.name for row in BASELINES if row.needs() is not None]


def draw(n: int, *shape: int, seed: int = 0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Rewards with ties, and a g of every kind over nine magnitudes."""
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(*shape, n, generator=generator, dtype=torch.float64)
    rewards[..., 0] = rewards[..., -1]
    g = 10.0 ** (9 * torch.rand(*shape, n, generator=generator, dtype=torch.float64))
    return rewards, dict.fromkeys(KINDS, g)


def assert_same(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_optimal_at_one_is_the_loo_baseline(n: int) -> None:
    rewards, g = draw(n, 5)
    for kind, name in LOO.items():
        optimal = advantages(rewards, baseline=f"optimal[{kind}]", k=1, trajectory_weights=g)
        assert_same(optimal, advantages(rewards, baseline=name, k=1, trajectory_weights=g))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_at_n_one_above_k_every_g_gives_centred(kind: str, k: int) -> None:
    rewards, g = draw(k + 1, 5)
    optimal = advantages(rewards, baseline=f"optimal[{kind}]", k=k, trajectory_weights=g)
    assert_same(optimal, advantages(rewards, baseline="centred", k=k))


@pytest.mark.parametrize("n", [2, 5, 64])
def test_equal_g_of_any_size_give_centred(n: int) -> None:
    rewards, _ = draw(n, 5)
    for k in {1, 2, n // 2, n - 1} - {0}:
        if k >= n:
            continue
        centred = advantages(rewards, baseline="centred", k=k)
        assert torch.equal(advantages(rewards, baseline="optimal[uniform]", k=k), centred)
        for size in (1e-300, 1.0, 7.0, 1e300):
            g = {"length": torch.full_like(rewards, size)}
            found = advantages(rewards, baseline="optimal[length]", k=k, trajectory_weights=g)
            torch.testing.assert_close(found, centred, rtol=1e-11, atol=1e-13)


def test_with_two_samples_every_loo_baseline_is_rloo() -> None:
    rewards, g = draw(2, 5)
    rloo = advantages(rewards, baseline="rloo", k=1)
    assert_same(rloo, (rewards - rewards.flip(-1)) / 2)
    for name in LOO.values():
        assert_same(advantages(rewards, baseline=name, k=1, trajectory_weights=g), rloo)


def test_mean_and_rloo_are_group_mean_and_centred_at_one() -> None:
    rewards, _ = draw(6, 5)
    assert_same(
        advantages(rewards, baseline="mean", k=1), (rewards - rewards.mean(-1, keepdim=True)) / 6
    )
    assert torch.equal(
        advantages(rewards, baseline="mean", k=1), advantages(rewards, baseline="group_mean", k=1)
    )
    assert torch.equal(
        advantages(rewards, baseline="rloo", k=1), advantages(rewards, baseline="centred", k=1)
    )


def test_in_group_and_leave_one_out_by_hand() -> None:
    rewards, lengths = torch.tensor([1.0, 4.0, 2.0]), {"length": torch.tensor([2, 1, 5])}
    opo = advantages(rewards, baseline="opo", k=1, trajectory_weights=lengths)
    torch.testing.assert_close(opo, (rewards - 16 / 8) / 3)
    opo_loo = advantages(rewards, baseline="opo_loo", k=1, trajectory_weights=lengths)
    torch.testing.assert_close(opo_loo, (rewards - torch.tensor([14 / 6, 12 / 7, 6 / 3])) / 3)


def test_on_a_tabular_softmax_otb_is_eob() -> None:
    bandit = TinyBandit((0.3, -0.8, 0.5, 0.1), (1.0, 0.2, 0.0, 0.7))
    p = torch.softmax(torch.tensor(bandit.logits, dtype=torch.float64), 0)
    assert_same(1 - 2 * p + p.square().sum(), bandit.trajectory_weight("grad_norm"))
    for otb, eob in (
        ("otb", "eob"),
        ("otb_loo", "eob_loo"),
        ("optimal[logit_proxy]", "optimal[grad_norm]"),
    ):
        means = [bandit.mean_estimate(4, 1, estimator="maxk", baseline=name) for name in (otb, eob)]
        assert torch.equal(*means)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_one_g_above_all_others_loses_nothing(k: int) -> None:
    """The baseline of the sample with the great g rests on the others alone.

    Summed with it, they would be lost.
    """
    rewards, _ = draw(10)
    g = torch.ones_like(rewards)
    g[4] = 1e30
    exact = reference.optimal_weights(rewards, k, g=g)
    found = advantages(rewards, baseline="optimal", k=k, trajectory_weights={"grad_norm": g})
    torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("k", [1, 2, 17, 58, 59])
def test_optimal_at_60_is_the_direct_sum_over_the_others(k: int) -> None:
    n = 60
    rewards, g = draw(n)
    w = g["grad_norm"]
    baseline = torch.zeros(n, dtype=torch.float64)
    for i in range(n):
        keep = torch.arange(n) != i
        s = advantages(rewards[keep], baseline="none", k=k)
        baseline[i] = (n - 1) / n * (w[keep] * s).sum() / w[keep].sum()
    expected = advantages(rewards, baseline="none", k=k) - baseline
    found = advantages(rewards, baseline="optimal", k=k, trajectory_weights=g)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-12 * float(expected.abs().max()))


@pytest.mark.parametrize("n", [65, 4_096])
def test_blocks_of_groups_agree_with_single_groups(n: int) -> None:
    rewards, g = draw(n, 600 if n < 100 else 5)
    found = advantages(rewards, baseline="optimal", k=8, trajectory_weights=g)
    for row in (0, 4, len(rewards) - 1):
        one = {"grad_norm": g["grad_norm"][row]}
        assert_same(
            found[row], advantages(rewards[row], baseline="optimal", k=8, trajectory_weights=one)
        )


def test_optimal_at_65536_is_finite_and_shift_invariant() -> None:
    rewards, g = draw(65_536)
    for k in (1, 2, 300, 32_768, 65_535):
        found = advantages(rewards, baseline="optimal", k=k, trajectory_weights=g)
        assert torch.isfinite(found).all()
        moved = advantages(rewards - 5.0, baseline="optimal", k=k, trajectory_weights=g)
        torch.testing.assert_close(found, moved, rtol=1e-9, atol=1e-12 * float(found.abs().max()))


@pytest.mark.parametrize("name", NEED_G)
@pytest.mark.parametrize(
    "change", [lambda r: r + 1000.0, lambda r: r * 1e-4, lambda r: 1e-3 * r - 1e4]
)
def test_float32_agrees_with_float64_for_shifts_scales_and_near_ties(
    name: str, change: Any
) -> None:
    drawn, g = draw(16, 4)
    rewards = change(drawn).float()
    single = advantages(rewards, baseline=name, k=1, trajectory_weights=g)
    exact = advantages(rewards.double(), baseline=name, k=1, trajectory_weights=g)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single, exact.float(), rtol=1e-6, atol=0.0)
    assert float(single.abs().max()) <= float((rewards.max() - rewards.min()) / 16) * (1 + 1e-6)


@pytest.mark.parametrize("name", NEED_G)
def test_the_missing_kind_is_named(name: str) -> None:
    choice = choose_baseline(name)
    needed = choice.row.needs(**choice.params)
    for given, words in ((None, "none"), ({"other": torch.ones(3)}, "other")):
        message = (
            f"needs trajectory_weights['{needed}'], one positive number per sample, got {words}"
        )
        with pytest.raises(ValueError, match=re.escape(message)):
            advantages(torch.ones(3), baseline=name, k=1, trajectory_weights=given)


@pytest.mark.parametrize("name", NEED_G)
@pytest.mark.parametrize(
    ("g", "message"),
    [
        (torch.ones(2), "g must have the shape of rewards [3], got [2]"),
        (torch.tensor([1.0, float("nan"), 1.0]), "g must be finite and not negative, got nan"),
        (torch.tensor([1.0, float("inf"), 1.0]), "g must be finite and not negative, got inf"),
        (torch.tensor([1.0, -2.0, 1.0]), "g must be finite and not negative, got -2.0"),
        (torch.ones(3, dtype=torch.complex64), "g must be floating-point, integer or boolean"),
    ],
)
def test_bad_g_is_refused(name: str, g: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        advantages(torch.ones(3), baseline=name, k=1, trajectory_weights=dict.fromkeys(KINDS, g))


def test_g_must_be_a_tensor() -> None:
    wrong: Any = {"length": [1, 2]}
    message = r"g must be a torch\.Tensor of the shape of rewards, got list"
    with pytest.raises(TypeError, match=message):
        Method.parse("maxk", "opo").weights(torch.ones(2), trajectory_weights=wrong)


@pytest.mark.parametrize("name", NEED_G)
def test_where_every_g_is_zero_the_mean_is_the_plain_one(name: str) -> None:
    """A policy that is certain has scores that round to 0, which must not stop training."""
    rewards, _ = draw(6, 4)
    zero = dict.fromkeys(KINDS, torch.zeros_like(rewards))
    one = dict.fromkeys(KINDS, torch.ones_like(rewards))
    found = advantages(rewards, baseline=name, k=1, trajectory_weights=zero)
    assert_same(found, advantages(rewards, baseline=name, k=1, trajectory_weights=one))


def test_a_single_positive_g_is_the_baseline_of_the_others_and_has_their_plain_mean() -> None:
    rewards, g = torch.tensor([1.0, 2.0, 4.0]), {"length": torch.tensor([0, 3, 0])}
    found = advantages(rewards, baseline="opo", k=1, trajectory_weights=g)
    torch.testing.assert_close(found, (rewards - 2.0) / 3)
    found = advantages(rewards, baseline="opo_loo", k=1, trajectory_weights=g)
    torch.testing.assert_close(found, (rewards - torch.tensor([2.0, 2.5, 2.0])) / 3)


@pytest.mark.parametrize("k", [1, 2, 5, 7])
@pytest.mark.parametrize("positive", [0, 1, 3])
def test_zeros_among_g_agree_with_the_slow_twin(k: int, positive: int) -> None:
    rewards, g = draw(8, 6)
    w = g["grad_norm"].clone()
    w[..., positive:] = 0.0
    found = advantages(rewards, baseline="optimal", k=k, trajectory_weights={"grad_norm": w})
    assert_same(found, reference.optimal_weights(rewards, k, g=w))


def test_optimal_knows_its_kinds() -> None:
    from maxk_lab.estimators import optimal_weights

    parameter = BASELINES.get("optimal").parameter
    assert parameter is not None
    assert parameter.choices == tuple(TRAJECTORY_WEIGHTS)
    with pytest.raises(
        ValueError, match="kind must be one of uniform, length, logit_proxy, grad_norm"
    ):
        optimal_weights(torch.ones(3), 1, kind="norm")
    with pytest.raises(ValueError, match="g must be given for kind 'length'"):
        optimal_weights(torch.ones(3), 1, kind="length")
