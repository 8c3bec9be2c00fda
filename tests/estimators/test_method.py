"""Methods: where each pair runs and refuses, what it needs and is for."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch

from maxk_lab.catalogue import load
from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.estimators.baselines.kinds import FittedRow
from maxk_lab.estimators.catalogue import (
    BASELINES,
    ESTIMATORS,
    choose_baseline,
)
from maxk_lab.estimators.check.twins import inputs
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective

SPELLINGS = [spelling for row in BASELINES for spelling in (row.name, *row.examples)]


PAIRS = [
    (estimator, baseline)
    for row in ESTIMATORS
    for estimator in (row.name, *row.examples)
    for baseline in SPELLINGS
    if Method.parse(estimator, baseline).pair_refusal is None
]


@pytest.mark.parametrize(("estimator", "baseline"), PAIRS)
def test_every_pair_runs_exactly_where_the_catalogue_says(estimator: str, baseline: str) -> None:
    if Method.parse(estimator, baseline).is_token_level:
        with pytest.raises(
            ValueError, match=r"otb_token gives one weight per token.*token_advantages\("
        ):
            advantages(torch.ones(3), estimator=estimator, baseline=baseline, k=1)
        return
    for n in (1, 2, 3, 5):
        generator = torch.Generator().manual_seed(n)
        rewards = torch.randint(0, 2, (2, n), generator=generator).float()
        for k in range(1, n + 2):
            method = Method.parse(estimator, baseline, k)
            given = inputs(method, rewards)
            if method.refusal(n) is None:
                weights = call(method, rewards, given)
                assert weights.shape == rewards.shape
                assert weights.dtype == rewards.dtype
                assert torch.isfinite(weights).all()
                found = advantages(rewards, estimator=estimator, baseline=baseline, k=k, **given)
                assert torch.equal(weights, found)
            else:
                with pytest.raises((ValueError, LabError), match=r"must (be|have)|needs"):
                    call(method, rewards, given)


def call(method: Method, rewards: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    """The functions that the rows name, joined as their docstrings say."""
    row, params, base = method.estimator.row, method.estimator.params, method.baseline
    function = partial(load(row.implementation), **row.own_options(**params))
    if row.needs_ratios:
        return function(rewards, given["ratios"], method.k, base.name)
    if "coefficients" in given:
        assert isinstance(base.row, FittedRow)
        own = partial(load(base.row.fitted), coefficients=given["coefficients"])
    else:
        kind = base.row.needs(**base.params)
        g = {} if kind is None else {"g": given["trajectory_weights"][kind]}
        options = row.baseline_options(method.k, **params)
        own = partial(load(base.row.implementation), **base.params, **g, **options)
    return function(rewards, method.k, own)


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
