"""Methods: where each pair runs and refuses, what it needs and is for."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch

from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.estimators.catalogue import (
    BASELINES,
    ESTIMATORS,
    choose_baseline,
)
from maxk_lab.estimators.check.run import inputs
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective

SPELLINGS = [spelling for row in BASELINES for spelling in (row.name, *row.examples)]


def test_which_trajectory_weight_a_pair_needs() -> None:
    needed = {spelling: Method.parse("maxk", spelling).needed_weight for spelling in SPELLINGS}
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
    assert Method.parse("grpo", "none").needed_weight is None
    assert [name for name in SPELLINGS if choose_baseline(name).row.token_level] == ["otb_token"]


@pytest.mark.parametrize(
    ("spelling", "unbiased", "scale"),
    [
        ("grpo_passk[none]", True, 1.0),
        ("grpo_passk", False, None),
        ("hybrid[1]", True, 1.0),
        ("hybrid[0]", False, None),
        ("grpo", False, None),
    ],
)
def test_bias_may_depend_on_the_parameter(
    spelling: str, unbiased: bool, scale: float | None
) -> None:
    assert Method.parse(spelling, "none").is_unbiased is unbiased
    found = Method.parse(spelling, "none", 4).expected_scale(4)
    assert found == scale if scale else math.isnan(found)


def test_refusals_name_the_constraint() -> None:
    assert (
        Method.parse("maxk", "rloo", 2).refusal(4)
        == "rloo needs K = 1 and n >= 2, got K = 2 and n = 4"
    )
    assert Method.parse("reinforce", "rloo", 2).refusal(4) is None
    assert (
        Method.parse("reinforce", "opo", 1).refusal(1)
        == "opo needs K = 1 and n >= 2, got K = 1 and n = 1"
    )
    assert (
        Method.parse("grpo_passk", "none", 2).refusal(4)
        == "grpo_passk needs K = n >= 2, got K = 2 and n = 4"
    )
    assert (
        Method.parse("grpo", "none", 1).refusal(1)
        == "grpo needs n >= 2, K counts as 1, got K = 1 and n = 1"
    )
    assert Method.parse("grpo", "rloo", 1).refusal(4) == "grpo takes no baseline, got rloo"


def test_refusals_of_objectives_and_fits() -> None:
    assert (
        Method.parse("top_m[9]", "none", 8).refusal(8)
        == "the m of top_m must be at most K = 8, got 9"
    )
    assert (
        Method.parse("l_statistic[0.5 0.5]", "none", 3).refusal(8)
        == "l_statistic must have as many weights as K = 3, got 2"
    )
    assert (
        Method.parse("median", "rloo", 1).refusal(4)
        == "median takes no baseline of the maximum alone, got rloo"
    )
    assert Method.parse("median", "affine[oracle]", 2).refusal(4) == (
        "median takes no baseline of the maximum alone, got affine with fitted coefficients"
    )
    assert Method.parse("median", "affine[0.3]", 2).refusal(4) is None
    assert (
        Method.parse("median", "subloo", 1).refusal(4)
        == "subloo needs 2 <= K <= n, got K = 1 and n = 4"
    )
    assert Method.parse("partitioned", "none", 4).refusal(6) == (
        "partitioned needs K divides n; for loo also n >= 2 K, got K = 4 and n = 6"
    )
    assert Method.parse("partitioned[none]", "none", 4).refusal(4) is None
    assert Method.parse("partitioned[loo]", "none", 4).refusal(4) is not None
    assert Method.parse("off_policy_maxk", "group_mean", 2).refusal(4) == (
        "off_policy_maxk takes only baselines for importance ratios (none, centred, subloo), "
        "got group_mean"
    )
    assert (
        Method.parse("maxk", "ladder", 4).refusal(4)
        == "ladder needs 2 <= K < n, got K = 4 and n = 4"
    )
    assert (
        Method.parse("maxk", "ladder[0.5 0.5]", 3).refusal(4)
        == "ladder needs one coefficient per rung 1..K, got 2 and K = 3"
    )
    assert (
        Method.parse("maxk", "ladder[0.5 0.4]", 2).refusal(4)
        == "ladder needs coefficients whose sum is 1, got 0.9"
    )
    assert Method.parse("maxk", "constant", 4).refusal(4) is None
    assert (
        Method.parse("maxk", "joint_optimum", 1).refusal(1)
        == "joint_optimum needs 1 <= K <= n and n >= 2, got K = 1 and n = 1"
    )


def test_which_pairs_have_fitted_coefficients_or_ratios() -> None:
    found = {spelling: Method.parse("maxk", spelling).fit for spelling in SPELLINGS}
    assert {name: fit for name, fit in found.items() if fit} == {
        "affine[cross_fit]": "cross_fit",
        "affine[same_batch]": "same_batch",
        "affine[oracle]": "oracle",
        "ladder": "cross_fit",
        "ladder[same_batch]": "same_batch",
        "ladder[oracle]": "oracle",
        "constant": "oracle",
        "joint_optimum": "oracle",
    }
    assert Method.parse("grpo", "none").fit is None
    biased = [name for name in found if "same_batch" in name]
    assert not any(Method.parse("maxk", name).is_unbiased for name in biased)
    assert all(math.isnan(Method.parse("maxk", name, 2).expected_scale(8)) for name in biased)
    assert all(
        Method.parse("maxk", name).is_unbiased
        for name, fit in found.items()
        if fit in ("cross_fit", "oracle")
    )
    assert [row.name for row in ESTIMATORS if Method.parse(row.name).needs_ratios] == [
        "off_policy_maxk",
        "off_policy_first_order",
    ]


def test_objectives_of_estimators() -> None:
    assert Method.parse("maxk", k=8).objective == Objective("max", 8)
    assert Method.parse("reinforce", k=8).objective == Objective("max", 1)
    assert Method.parse("grpo", k=8).objective == Objective("max", 1)
    assert Method.parse("off_policy_maxk", k=4).objective == Objective("max", 4)
    assert Method.parse("partitioned[loo]", k=4).objective == Objective("max", 4)
    assert Method.parse("top_m", k=4).objective.name == "top_m[2]@4"
    assert Method.parse("cvar_lower[.5]", k=4).objective.name == "cvar_lower[0.5]@4"
    with pytest.raises(LabError, match="must be at most K = 1"):
        _ = Method.parse("top_m", k=1).objective


def test_effective_k_and_scale() -> None:
    assert Method.parse("reinforce", k=8).k == 1
    assert Method.parse("maxk", k=8).k == 8
    assert Method.parse("maxk", "group_mean", 2).expected_scale(8) == pytest.approx(0.75)
    assert Method.parse("reinforce", "group_mean", 2).expected_scale(8) == pytest.approx(0.875)
    assert Method.parse("maxk", "subloo", 8).expected_scale(8) == 1.0
    assert not Method.parse("maxk", "group_mean").is_unbiased
    assert Method.parse("reinforce", "centred").is_unbiased


REWARDS = torch.tensor([0.0, 1.0, 5.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be an integer with 1 <= k <= n = 3, got 0"),
        ({"k": 4}, "k must be an integer with 1 <= k <= n = 3, got 4"),
        ({"k": True}, "k must be an integer with 1 <= k <= n = 3, got True"),
        ({"baseline": "subloo", "k": 1}, "subloo needs 2 <= K <= n, got K = 1 and n = 3"),
        (
            {"estimator": "reinforce", "baseline": "subloo"},
            "subloo needs 2 <= K <= n, got K = 1 and n = 3",
        ),
        ({"baseline": "otb_token", "k": 1}, "otb_token gives one weight per token"),
        ({"baseline": "ladder"}, "ladder[cross_fit] needs its fitted coefficients, [..., D], got"),
        (
            {"baseline": "affine[0.5]", "coefficients": torch.ones(1)},
            "affine[0.5] takes no coefficients",
        ),
        (
            {"baseline": "ladder", "coefficients": torch.ones(2)},
            "coefficients must be [..., 1] over the leading dimensions of rewards [3], got sh",
        ),
        ({"baseline": "ladder", "coefficients": torch.ones(4, 1)}, "got shape [4, 1]"),
        ({"baseline": "joint_optimum", "coefficients": torch.ones(1)}, "must be [..., 3] over"),
        ({"estimator": "off_policy_maxk"}, "off_policy_maxk needs ratios"),
        ({"ratios": torch.ones(3)}, "maxk takes no ratios"),
        (
            {"baseline": "opo", "k": 1},
            "needs trajectory_weights['length'], one positive number per ",
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
                ([1.0, float("inf"), 1.0], "g must be finite and not negative, got inf"),
                ([1.0, -2.0, 1.0], "g must be finite and not negative, got -2.0"),
                ([1j, 1j, 1j], "g must be floating-point, integer or boolean"),
            )
        ),
        ({"baseline": "centered"}, "unknown baseline 'centered' (did you mean centred?)"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        advantages(REWARDS, **{"k": 2, **options})


def test_what_is_no_tensor_is_a_type_error() -> None:
    wrong: Any = [1, 2, 3]
    for baseline, numbers in (
        ("opo", {"trajectory_weights": {"length": wrong}}),
        ("constant", {"coefficients": wrong}),
    ):
        with pytest.raises(TypeError, match=r"must be a torch\.Tensor"):
            Method.parse("maxk", baseline).weights(REWARDS, **numbers)
    with pytest.raises(TypeError, match=r"rewards must be a torch\.Tensor"):
        Method.parse("maxk").weights(wrong)


def test_inputs_are_not_written_to() -> None:
    rewards, g = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 4.0])
    for row in BASELINES:
        if Method.parse("maxk", row.name).fit is None and not row.token_level:
            k = 2 if row.refusal(3, 2) is None else 1
            kinds = dict.fromkeys(("length", "logit_proxy", "grad_norm"), g)
            advantages(rewards, baseline=row.name, k=k, trajectory_weights=kinds)
    assert g.tolist() == [1.0, 2.0, 4.0]
    assert rewards.tolist() == [3.0, 1.0, 2.0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", [row.name for row in BASELINES if not row.token_level])
def test_cuda_agrees_and_never_waits(name: str) -> None:
    method = Method.parse("maxk", name, 1 if BASELINES.get(name).objective == "J_1" else 3)
    rewards = torch.randn(8, 16, generator=torch.Generator().manual_seed(8))
    numbers = inputs(method, rewards)

    def on_device(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: on_device(one) for key, one in value.items()}
        return value.cuda()

    moved, given = rewards.cuda(), on_device(numbers)
    method.weights(moved, **given)
    torch.cuda.set_sync_debug_mode("error")
    try:
        weights = method.weights(moved, **given)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(weights.cpu(), method.weights(rewards, **numbers))
    moved[0, 0] = float("nan")
    assert method.weights(moved, **given)[0].isnan().all()
