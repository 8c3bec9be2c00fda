"""Methods: where each pair runs and refuses, what it needs and is for, and its options."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch

from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.estimators.catalogue import BASELINES
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.check.run import inputs
from maxk_lab.estimators.method import WEIGHT_NORMALIZATIONS, Method

SPELLINGS = [spelling for row in BASELINES for spelling in (row.name, *row.examples)]


def test_what_a_pair_needs_beside_rewards() -> None:
    methods = {spelling: Method.parse("maxk", spelling) for spelling in SPELLINGS}
    needed = {name: method.needed_weight for name, method in methods.items()}
    assert {name: kind for name, kind in needed.items() if kind} == {
        "opo": "length",
        "opo_loo": "length",
        "otb": "logit_proxy",
        "otb_loo": "logit_proxy",
        "eob": "grad_norm",
        "eob_loo": "grad_norm",
        "optimal": "grad_norm",
        "optimal[length]": "length",
        "optimal[logit_proxy]": "logit_proxy",
    }
    fits = {name: method.fit for name, method in methods.items() if method.fit}
    assert fits == {
        "affine[cross_fit]": "cross_fit",
        "affine[oracle]": "oracle",
        "ladder": "cross_fit",
        "ladder[oracle]": "oracle",
        "constant": "oracle",
        "joint_optimum": "oracle",
    }
    for name in fits:
        assert methods[name].is_unbiased
        assert Method.parse("maxk", name, 2).expected_scale(8) == 1.0
    plain = [name for name, method in methods.items() if method.needs_rewards_alone]
    across = ["shrinkage"]
    assert [name for name, method in methods.items() if method.uses_other_prompts] == across
    beside = [*(name for name in SPELLINGS if needed[name]), *fits, *across]
    assert plain == [name for name in SPELLINGS if name not in beside]


@pytest.mark.parametrize(
    ("estimator", "baseline", "k", "scale", "objective"),
    [
        ("grpo_passk[none]", "none", 8, 1.0, "max@8"),
        ("grpo_passk", "none", 8, None, "max@8"),
        ("hybrid[1]", "none", 4, 1.0, "max@4"),
        ("hybrid[0]", "none", 4, None, "max@4"),
        ("grpo", "none", 4, None, "max@1"),
        ("maxk", "group_mean", 2, 0.75, "max@2"),
        ("reinforce", "group_mean", 2, 0.875, "max@1"),
        ("reinforce", "centred", 8, 1.0, "max@1"),
        ("off_policy_maxk", "subloo", 4, 1.0, "max@4"),
        ("top_m", "none", 4, 1.0, "top_m[2]@4"),
        ("cvar_upper[.5]", "none", 4, 1.0, "cvar_upper[0.5]@4"),
        ("tail_rl", "centred", 7, 1.0, "tail_rl@7"),
        ("maxrl", "none", 1, 1.0, "tail_rl@7"),
        ("mix", "none", 2, 1.0, "order[0.25 0.75]@2"),
        ("mix[0.25 maxk/group_mean maxk/none]", "none", 4, 0.875, "max@4"),
        ("mix[0.5 maxk/group_mean reinforce/mean]", "none", 2, None, "order[0.25 0.75]@2"),
        ("mix[1 maxk/centred grpo]", "none", 2, 1.0, "max@2"),
    ],
)
def test_bias_and_scale_at_eight_samples(
    estimator: str, baseline: str, k: int, scale: float | None, objective: str
) -> None:
    method = Method.parse(estimator, baseline, k)
    assert method.is_unbiased is (scale == 1.0)
    expected = math.nan if scale is None else scale
    assert method.expected_scale(8) == pytest.approx(expected, nan_ok=True)
    assert method.objective_at(8).name == objective


@pytest.mark.parametrize(
    ("estimator", "baseline", "k", "n", "reason"),
    [
        ("maxk", "rloo", 2, 4, "rloo needs K = 1 and n >= 2, got K = 2 and n = 4"),
        ("reinforce", "rloo", 2, 4, None),
        ("grpo_passk", "none", 2, 4, "grpo_passk needs K = n >= 2, got K = 2 and n = 4"),
        ("grpo", "none", 1, 1, "grpo needs n >= 2, K counts as 1, got K = 1 and n = 1"),
        ("grpo", "rloo", 1, 4, "grpo takes no baseline, got rloo"),
        ("top_m[9]", "none", 8, 8, "the m of top_m must be at most K = 8, got 9"),
        ("order[.5 .5]", "none", 3, 8, "order must have as many weights as K = 3, got"),
        ("top_m", "rloo", 1, 4, "top_m takes no baseline of the maximum alone, got rloo"),
        (
            "top_m",
            "affine[oracle]",
            2,
            4,
            "top_m takes no baseline of the maximum alone, got affine with fitted coefficients",
        ),
        ("top_m", "affine[0.3]", 2, 4, None),
        (
            "off_policy_maxk",
            "group_mean",
            2,
            4,
            "off_policy_maxk takes only baselines for importance ratios (none, centred, subloo), "
            "got group_mean",
        ),
        ("maxk", "ladder[.5 .5]", 3, 4, "ladder needs one coefficient per rung 1..K, got 2 and K"),
        ("maxk", "ladder[.5 .4]", 2, 4, "ladder needs coefficients whose sum is 1, got 0.9"),
    ],
)
def test_refusals_name_the_constraint(
    estimator: str, baseline: str, k: int, n: int, reason: str | None
) -> None:
    refusal = Method.parse(estimator, baseline, k).refusal(n)
    assert refusal is None if reason is None else str(refusal).startswith(reason)


REWARDS = torch.tensor([0.0, 1.0, 5.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 4}, "k must be an integer with 1 <= k <= n = 3, got 4"),
        ({"estimator": "reinforce", "baseline": "subloo"}, "subloo needs 2 <= K <= n, got K = 1"),
        ({"baseline": "ladder"}, "ladder[cross_fit] needs its fitted coefficients, [..., D], got"),
        (
            {"baseline": "affine[0.5]", "coefficients": torch.ones(1)},
            "affine[0.5] takes no coefficients",
        ),
        (
            {"baseline": "ladder", "coefficients": torch.ones(2)},
            "coefficients must be [..., 1] over the leading dimensions of rewards [3], got sh",
        ),
        ({"baseline": "joint_optimum", "coefficients": torch.ones(1)}, "must be [..., 3] over"),
        ({"estimator": "off_policy_maxk"}, "needs ratios, one positive number pi / pi_old per sam"),
        ({"ratios": torch.ones(3)}, "maxk takes no ratios"),
        (
            {"baseline": "opo", "k": 1},
            "needs trajectory_weights['length'], one positive number per",
        ),
        (
            {"baseline": "opo", "k": 1, "trajectory_weights": {"other": torch.ones(3)}},
            "sample, got other",
        ),
        *(
            (
                {"baseline": "opo", "k": 1, "trajectory_weights": {"length": torch.tensor(g)}},
                message,
            )
            for g, message in (
                ([1.0, 2.0], "g must have the shape of rewards [3], got [2]"),
                ([1.0, float("nan"), 1.0], "g must be finite and not negative, got nan"),
                ([1.0, -2.0, 1.0], "g must be finite and not negative, got -2.0"),
                ([1j, 1j, 1j], "g must be floating-point with 16 bits or more, integer or boolean"),
            )
        ),
        (
            {"weight_normalization": "z_score"},
            "one of none, zscore, sum_to_zero, got 'z_score' (did you mean zscore",
        ),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        advantages(REWARDS, **{"k": 2, **options})


def test_what_is_no_tensor_is_a_type_error() -> None:
    wrong: Any = [1, 2, 3]
    with pytest.raises(TypeError, match=r"must be a torch\.Tensor"):
        Method.parse("maxk", "opo").weights(REWARDS, trajectory_weights={"length": wrong})
    with pytest.raises(TypeError, match=r"must be a torch\.Tensor"):
        Method.parse("maxk", "constant").weights(REWARDS, coefficients=wrong)


def test_normalizations_rescale_the_weights() -> None:
    rewards = torch.tensor([[0.0, 2.0, 5.0, 1.0], [3.0, 3.0, 3.0, 3.0]], dtype=torch.float64)

    def weights(baseline: str = "subloo", **options: Any) -> torch.Tensor:
        return advantages(rewards, baseline=baseline, k=2, **options)

    w = weights()
    centred = w - w.mean(-1, keepdim=True)
    assert torch.equal(weights(weight_normalization="none"), w)
    torch.testing.assert_close(weights(weight_normalization="sum_to_zero"), centred)
    zscore = weights(weight_normalization="zscore")
    torch.testing.assert_close(zscore, centred / (w.std(-1, keepdim=True) + 1e-8))
    assert (zscore[1] == 0).all()
    with pytest.raises(ValueError, match="zscore needs n >= 2 samples"):
        advantages(torch.ones(1), baseline="none", k=1, weight_normalization="zscore")
    # In float32 they agree with float64.
    noise = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    for near in (noise + 1000.0, 1e-4 * noise):
        exact, found = (
            advantages(r, k=2, weight_normalization="zscore") for r in (near.double(), near)
        )
        torch.testing.assert_close(found, exact.float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("how", [how for how in WEIGHT_NORMALIZATIONS if how != "none"])
def test_every_normalization_biases_an_unbiased_pair(how: str) -> None:
    bandit = TinyBandit((0.3, -0.8, 0.5, 0.1), (-6.25, -5.0, -4.1, -5.5))
    truth, method = bandit.gradient(2), Method.parse("maxk", "subloo", 2)
    biased = bandit.mean_estimate(4, method, weight_normalization=how)
    assert float((bandit.mean_estimate(4, method) - truth).norm() / truth.norm()) < 1e-12
    assert float((biased - truth).norm() / truth.norm()) > 1e-2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", BASELINES.names())
def test_cuda_agrees_and_never_waits(name: str) -> None:
    generator = torch.Generator().manual_seed(8)
    method = Method.parse("maxk", name, 1 if BASELINES.get(name).objective == "J_1" else 3)
    rewards, weigh = torch.randn(8, 16, generator=generator), method.weights
    numbers = inputs(method, rewards)

    def on_device(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: on_device(one) for key, one in value.items()}
        return value.cuda()

    moved, others = rewards.cuda(), on_device(numbers)
    weigh(moved, **others)
    torch.cuda.set_sync_debug_mode("error")
    try:
        weights = weigh(moved, **others)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(weights.cpu(), weigh(rewards, **numbers))
    moved[0, 0] = float("nan")
    assert weigh(moved, **others)[0].isnan().any()
