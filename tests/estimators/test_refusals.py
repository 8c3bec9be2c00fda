"""Mistakes in names, sizes and numbers are refused with what is wrong and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from maxk_lab import estimators
from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages, off_policy_value
from maxk_lab.estimators.catalogue import ESTIMATORS, choose_baseline, choose_estimator
from maxk_lab.estimators.least_squares import family_terms
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective

nan = float("nan")
SPELLINGS = [
    (choose_baseline, "centered", "baseline 'centered' is called centred here"),
    (choose_baseline, "sloo", "is called pkpo_sloo here"),
    (choose_baseline, "sloo_minus_one", "is called subloo here"),
    (choose_baseline, "LOO", "is called rloo here"),
    (choose_baseline, "GRPO", "unknown baseline 'GRPO': grpo is an estimator"),
    (choose_baseline, "pass@8", "unknown baseline 'pass@8': maxk is an estimator"),
    (choose_estimator, "pass@K", "estimator 'pass@K' is called maxk here"),
    (choose_estimator, "sloo", "take estimator maxk with baseline pkpo_sloo"),
    (choose_estimator, "rloo", "rloo is a baseline; take estimator reinforce with baseline rloo"),
    (choose_estimator, "affine[0.5]", r"take estimator maxk with baseline affine\[0.5\]"),
    (choose_baseline, "centerd", "did you mean centred"),
    (choose_baseline, "centred[1]", "centred takes no parameter"),
    (choose_baseline, "affine[x]", "alpha must be a number"),
    (choose_baseline, "affine[nan]", "alpha must be a finite number"),
    (choose_baseline, "affine[1", "must be a name or name"),
    (choose_baseline, 3, "must be a name or name"),
    (choose_baseline, "optimal[lenght]", "did you mean length"),
    (choose_baseline, "affine[crossfit]", "or one of cross_fit, oracle.*mean cross_fit"),
    (choose_baseline, "ladder[0.5 x]", "alpha must be a number, got 'x'; or one of cross_fit"),
    (choose_baseline, "ladder[]", "alpha must be numbers, got ''"),
    (choose_estimator, "top_m[1.5]", "m must be a whole number"),
    (choose_estimator, "cvar_upper[0]", "q must be greater than 0, got"),
    *(
        (Objective.parse, name, "")
        for name in ("max", "max@-1", f"max@{'9' * 5000}", "@4", "max@0", "nonsense@4")
    ),
]
OBJECTIVES = [
    ("top_m[9]", 8, "the m of top_m must be at most K = 8, got 9"),
    ("order[0.5 0.5]", 3, "order must have as many weights as K = 3, got 2"),
    ("cvar_upper[1.5]", 4, "q must be at most 1"),
    ("max[1]", 4, "max takes no parameter"),
    ("odrer", 4, "did you mean order"),
    ("median", 3, "estimator 'median' was removed: use order"),
    ("max", 1.5, "must be a whole number >= 1, got 1.5"),
    ("max", True, "must be a whole number >= 1, got True"),
    ("max]", 2, "must be a name or name"),
]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((lambda c=c, s=s: c(s), message) for c, s, message in SPELLINGS),
        *((lambda f=f, k=k: Objective(f, k), message) for f, k, message in OBJECTIVES),
    ],
)
def test_spellings_and_objectives(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        call()


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
        ("top_m", "affine[oracle]", 2, 4, "got affine with fitted coefficients"),
        ("top_m", "affine[0.3]", 2, 4, None),
        ("off_policy_maxk", "mean", 2, 4, "only baselines for importance ratios (none, centred, s"),
        ("maxk", "ladder[.5 .5]", 3, 4, "ladder needs one coefficient per rung 1..K, got 2 and K"),
        ("maxk", "ladder[.5 .4]", 2, 4, "ladder needs coefficients whose sum is 1, got 0.9"),
    ],
)
def test_a_pair_names_its_constraint(
    estimator: str, baseline: str, k: int, n: int, reason: str | None
) -> None:
    refusal = Method.parse(estimator, baseline, k).refusal(n)
    assert refusal is None if reason is None else reason in str(refusal)


WHOLE = 2**53
ROWS = [[0.0, 1.0, 0.25, 1.0], [3.0, -1.0, 0.5, 2.0]]
HALF = torch.tensor([-6e4, 6e4, 6e4], dtype=torch.float16)
TENSOR = torch.tensor([0.0, 1.0, 5.0])
OPO = {"baseline": "opo", "k": 1}
ONE = {"baseline": "none", "k": 1}
TWO = {"coefficients": torch.ones(2)}
LOO = {"baseline": "sample_loo", "k": 1}
OFF = {"estimator": "off_policy_maxk"}
MASKED = np.ma.array([1, 1, 1], mask=[0, 0, 1])


@pytest.mark.parametrize(
    ("rewards", "options", "message"),
    [
        *(
            (rewards, {}, "^rewards must ")
            for rewards in ("0.5", 3.0, [["a", 1.0]], [[1.0], [1.0, 2.0]], [{}], object())
        ),
        (ROWS, {"k": None}, "estimator maxk needs k, the number of samples"),
        ([*ROWS, [None] * 4], {"k": 5}, "k must be an integer with 1 <= k <= n = 4"),
        (ROWS, {"usable": [True, False]}, r"usable must have the shape of rewards \[2, 4\]"),
        (ROWS, {"usable": [[1, 0, 2, 1]] * 2}, "usable must be True and False, or 1 and 0"),
        (ROWS, {"trajectory_weights": 3}, "trajectory_weights must be a mapping from name"),
        ([0.0, nan, 1.0], {}, "rewards must be finite, got nan: where a trajectory has no"),
        (TENSOR, {"k": 4}, "k must be an integer with 1 <= k <= n = 3, got 4"),
        (TENSOR, {"estimator": "reinforce", "baseline": "subloo"}, "needs 2 <= K <= n, got K = 1"),
        (TENSOR, {"baseline": "ladder"}, r"needs its fitted coefficients, \[..., D\], got"),
        (TENSOR, TWO | {"baseline": "affine[0.5]"}, r"affine\[0.5\] takes no coefficients"),
        (TENSOR, TWO | {"baseline": "ladder"}, r"coefficients must be \[..., 1\] over the leading"),
        (TENSOR, TWO | {"baseline": "joint_optimum"}, r"coefficients must be \[..., 3\] over"),
        (TENSOR, {"baseline": "ladder", "coefficients": [nan]}, "coefficients must be finite, got"),
        (TENSOR, OFF, "needs ratios, one positive number pi / pi_old per sam"),
        (TENSOR, {"ratios": torch.ones(3)}, "maxk takes no ratios"),
        (TENSOR, OPO, r"needs trajectory_weights\['length'\], one positive number per"),
        (TENSOR, OPO | {"trajectory_weights": {"other": TENSOR}}, "sample, got other"),
        *(
            (TENSOR, OPO | {"trajectory_weights": {"length": torch.tensor(g)}}, message)
            for g, message in (
                ([1.0, 2.0], r"g must have the shape of rewards \[3\], got \[2\]"),
                ([1.0, nan, 1.0], "g must be finite and not negative, got nan"),
                ([1.0, -2.0, 1.0], "g must be finite and not negative, got -2.0"),
                ([1j, 1j, 1j], "g must be floating-point with 16 bits or more, integer or boolean"),
            )
        ),
        (TENSOR, {"weight_normalization": "z_score"}, r"sum_to_zero, got 'z_score' \(did you mean"),
        (torch.ones(1), ONE | {"weight_normalization": "zscore"}, "zscore needs n >= 2 samples"),
        *(
            (rewards, {}, f"rewards must be whole .* got {sign}{WHOLE + 1}: ")
            for rewards, sign in (
                (torch.tensor([WHOLE + 1, 0, 1]), ""),
                (torch.tensor([-WHOLE - 1, 0, 1]), "-"),
                ([WHOLE + 1, 0, None], ""),
                ([[np.int64(WHOLE + 1), 0, 1]], ""),
                ([torch.tensor(WHOLE + 1), 0, 1], ""),
            )
        ),
        (np.array([2**64 - 1, 0, 1], dtype=np.uint64), {}, f"got {2**64 - 1}: float64 would"),
        (HALF, LOO, "leave the range of float16: give rewards as float64"),
        (5e33 * HALF.float(), LOO, "leave the range of float32"),
        (HALF.to(torch.float8_e5m2), {}, "16 bits or more, .* got dtype torch.float8_e5m2"),
        (TENSOR.to_sparse(), {}, "rewards must be a dense tensor, .*: call .to_dense()"),
        (TENSOR.to("meta"), {}, "rewards must be a dense tensor, got a tensor without data"),
        (TENSOR, {"usable": MASKED}, "usable must have no masked entries"),
        (TENSOR, {"usable": (TENSOR > 0).to_sparse()}, "usable must be a dense tensor"),
        (TENSOR, OFF | {"ratios": MASKED}, "ratios must have no masked entries"),
        (TENSOR, OFF | {"ratios": TENSOR.to_sparse()}, "ratios must be"),
        *(
            ([0.0, 1.0, 0.5], {"estimator": row.name}, "rewards must be 0 or 1 here, got 0.5")
            for row in ESTIMATORS
            if row.binary_rewards
        ),
    ],
)
def test_advantages(rewards: Any, options: dict[str, Any], message: str) -> None:
    defaults: dict[str, Any] = {"k": 1 if "estimator" in options else 2}
    with pytest.raises(LabError, match=message):
        advantages(rewards, **defaults | options)


R = torch.tensor([1.0, 2.0, 3.0])
OF_LENGTH, CONSTANT = Method.parse("maxk", "opo"), Method.parse("maxk", "constant")
EXACT = Method.parse("off_policy_maxk", "none", 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimators.maxk_reward_estimate(R, 4), "1 <= k <= n = 3, got 4"),
        (lambda: estimators.maxk_reward_weights(3, 4), "1 <= k <= n = 3, got 4"),
        (lambda: estimators.maxk_reward_weights(0, 1), "1 <= k <= n = 0, got 1"),
        (lambda: estimators.maxk_reward_estimate(R, True), "1 <= k <= n = 3, got True"),
        (lambda: estimators.maxk_reward_estimate(R, 1.5), "1 <= k <= n = 3, got 1.5"),
        (lambda: estimators.sample_loo_baseline(R, 3), "1 <= k < n = 3, got 3"),
        (lambda: estimators.apply_sample_loo(R, R, 0), "1 <= k < n = 3, got 0"),
        (lambda: estimators.apply_sample_loo(R[:2], R, 1), r"s must have the shape of rewards \[3"),
        (lambda: estimators.apply_sample_loo(R, (R * WHOLE).long(), 1), "rewards must be whole"),
        (lambda: estimators.sample_loo_baseline(R.to(torch.float8_e5m2), 1), "got dtype torch.fl"),
        (lambda: estimators.objective_estimate(R, Objective("top_m", 9)), "k <= n = 3, got 9"),
        (lambda: Objective("order[2]", 1).exact_reduced, "K must be at least 2"),
        (lambda: family_terms(R, 0, "affine"), "affine needs .*, got K = 0 and n = 3"),
        (lambda: family_terms(R, 4, "constant"), "constant needs .*, got K = 4 and n = 3"),
        (lambda: estimators.maxk_curve(R[:0]), r"rewards must have shape \[..., n\] with n >= 1"),
        (lambda: estimators.maxk_curve(R * nan), "rewards must be finite, got nan"),
        (lambda: estimators.maxk_curve(-R / 0), "rewards must be finite, got -inf"),
        (lambda: estimators.maxk_curve((R.double() - 2) * 1.2e308), "must span less than"),
        (lambda: estimators.maxk_curve(R.cfloat()), "16 bits or more, integer or boolean"),
        (lambda: estimators.maxk_curve([1, 2]), r"rewards must be a torch\.Tensor"),
        (lambda: OF_LENGTH.weights(R, trajectory_weights={"length": [1]}), r"a torch\.Tensor"),
        (lambda: CONSTANT.weights(R, coefficients=[1]), r"must be a torch\.Tensor"),
        *(
            (lambda use=use, x=x: use(R, x, 2), message)
            for x, message in (
                (torch.ones(2), r"ratios must have the shape of rewards \[3\], got \[2\]"),
                (torch.tensor([1.0, 0.0, 1.0]), "ratios must be positive and finite, got 0.0"),
                (torch.tensor([1.0, nan, 1.0]), "ratios must be positive and finite, got nan"),
                (1 / torch.tensor([1.0, 0.0, 1.0]), "ratios must be positive and finite, got inf"),
            )
            for use in (off_policy_value, lambda r, x, k: EXACT.weights(r, ratios=x))
        ),
    ],
)
def test_values_and_weights(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()
