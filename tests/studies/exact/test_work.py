"""Exact studies: weights of shared groups, and curves and optima by integrals and enumeration."""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.estimators.method import Method
from maxk_lab.studies.exact.spec import rewards_only_refusal
from maxk_lab.studies.exact.work import measure


def measured(unit: dict[str, Any], *cells: dict[str, Any]) -> list[Any]:
    metrics = dict(measure(unit, cells, cache=None, event=lambda name, payload: None))
    assert list(metrics) == [c["id"] for c in cells]
    return list(metrics.values())


GROUPS = {
    "environment": {"name": "gaussian", "dim": 1, "reward": "square_on_unit"},
    "policy": {"mean": 0.9, "scale": 0.1, "learn_scale": False},
    "seed": 3,
    "groups": 5,
}


def weights_cell(
    baseline: str = "subloo", n: int = 8, k: int = 4, estimator: str = "maxk"
) -> dict[str, Any]:
    name = f"{estimator}/{baseline}/{n}/{k}"
    return {"id": name, "estimator": estimator, "baseline": baseline, "n": n, "k": k}


def weights_of(*cells: dict[str, Any], **changes: Any) -> list[Any]:
    return measured(GROUPS | changes, *cells)


def test_weights_are_those_of_the_estimators() -> None:
    baselines = ("none", "centred", "subloo")
    for metrics, baseline in zip(weights_of(*map(weights_cell, baselines)), baselines, strict=True):
        rewards = torch.tensor(metrics["rewards"], dtype=torch.float64)
        weights = torch.tensor(metrics["weights"], dtype=torch.float64)
        assert rewards.shape == weights.shape == (5, 8)
        expected = advantages(rewards, estimator="maxk", baseline=baseline, k=4)
        assert torch.equal(weights, expected)
        assert metrics["weight_sum"] == pytest.approx(expected.sum(1).mean().item())
        assert metrics["weight_min"] == expected.min().item()
        assert metrics["zero_share"] == (expected == 0).double().mean().item()


def test_groups_are_shared_by_cells_of_one_size_and_depend_on_no_other_cell() -> None:
    first, second, larger = weights_of(
        weights_cell("none"), weights_cell("centred"), weights_cell("centred", n=16)
    )
    assert first["rewards"] == second["rewards"]
    assert weights_of(weights_cell("centred", n=16))[0] == larger
    assert weights_of(weights_cell("none"), seed=4)[0]["rewards"] != first["rewards"]
    distinct = {tuple(group) for group in first["rewards"]}
    assert len(distinct) == 5


def test_every_seed_has_instances_of_its_own() -> None:
    """The rewards of a bandit's arms are its instance."""
    bandit = {"environment": {"name": "bandit", "arms": 3, "reward_shift": 0.0}, "groups": 1}
    policy = {"init_std": 0.5, "dtype": "float64"}
    three, four = (
        set(
            weights_of(weights_cell("none", n=64), **bandit, policy=policy, seed=seed)[0][
                "rewards"
            ][0]
        )
        for seed in (3, 4)
    )
    assert len(three) == len(four) == 3
    assert three.isdisjoint(four)


@pytest.mark.parametrize(
    ("estimator", "baseline", "reason"),
    [
        ("maxk", "optimal[length]", "needs the trajectory weight length"),
        ("maxk", "optimal[grad_norm]", "needs the trajectory weight grad_norm"),
        ("maxk", "affine[cross_fit]", "is fitted to gradients"),
        ("maxk", "ladder[cross_fit]", "is fitted to gradients"),
        ("off_policy_maxk", "none", "needs the probability ratios of two policies"),
        ("maxk", "affine[0.5]", None),
        ("top_m[2]", "subloo", None),
    ],
)
def test_pairs_that_need_more_than_rewards_are_refused(
    estimator: str, baseline: str, reason: str | None
) -> None:
    refused = rewards_only_refusal(Method.parse(estimator, baseline))
    (result,) = weights_of(weights_cell(baseline, estimator=estimator))
    assert isinstance(result, LabError) == (reason is not None)
    if reason is not None:
        assert refused is not None
        assert reason in refused
        assert str(result) == refused


GAUSSIAN = {"name": "gaussian", "dim": 1, "reward": "square_on_unit"}
NORMAL = {"mean": 0.0, "scale": 0.1, "learn_scale": False}
BANDIT = {"name": "bandit", "arms": 4, "reward_shift": 0.0, "rewards": "binary"}
TABLE = {"init_std": 1.0, "dtype": "float64"}


def cell(estimator: str, k: int) -> dict[str, Any]:
    return {"id": f"{estimator}@{k}", "estimator": estimator, "baseline": "none", "n": k, "k": k}


def unit(
    environment: dict[str, Any],
    policy: dict[str, Any],
    parameter: str,
    ends: tuple[float, float],
    points: int = 21,
) -> dict[str, Any]:
    along = {"parameter": parameter, "from": ends[0], "to": ends[1], "points": points}
    return {"environment": environment, "policy": policy, "seed": 0, "objective": along}


def integral(k: int, mean: float, scale: float = 0.1) -> float:
    outside = norm.cdf(0, mean, scale) + norm.sf(1, mean, scale) - norm.cdf(0, mean, scale)

    def above(u: float) -> float:
        return float(2 * u * (1 - (outside + norm.cdf(u, mean, scale)) ** k))

    return float(quad(above, 0, 1, epsabs=1e-13, epsrel=1e-13, limit=1000)[0])


@pytest.mark.parametrize("k", [1, 2, 4, 8, 16])
def test_curve_and_optimum_are_those_of_the_integral(k: int) -> None:
    (metrics,) = measured(unit(GAUSSIAN, NORMAL, "policy.mean", (0.5, 1.2), 15), cell("maxk", k))
    assert metrics["parameter"] == "policy.mean"
    assert metrics["points"][:2] == [0.5, 0.55]
    assert metrics["values"] == pytest.approx([integral(k, x) for x in metrics["points"]], abs=1e-8)
    best = minimize_scalar(
        lambda x: -integral(k, x), bounds=(0.8, 1.05), method="bounded", options={"xatol": 1e-9}
    )
    assert metrics["optimum"] == pytest.approx(best.x, abs=1e-5)
    assert metrics["optimum_value"] == pytest.approx(-best.fun, abs=1e-8)
    assert metrics["undefined"] == {}


def test_other_objectives_and_the_scale_of_the_policy() -> None:
    """A normal reward: the maximum of 2 grows by scale / √π, the minimum falls by as much."""
    slope = GAUSSIAN | {"reward": "slope"}
    along = unit(slope, NORMAL, "policy.scale", (0.5, 1.0), 3)
    best, worst, mean = measured(
        along, cell("maxk", 2), cell("order[1.0 0.0]", 2), cell("cvar_upper[1.0]", 2)
    )
    up = [scale / math.sqrt(math.pi) for scale in (0.5, 0.75, 1.0)]
    assert best["values"] == pytest.approx(up, abs=1e-10)
    assert worst["values"] == pytest.approx([-x for x in up], abs=1e-10)
    assert mean["values"] == pytest.approx([0.0] * 3, abs=1e-10)
    assert best["optimum"] is None
    assert best["undefined"]["optimum"].startswith(
        "the largest value is at the edge, policy.scale = 1"
    )
    assert worst["undefined"]["optimum"].startswith(
        "the largest value is at the edge, policy.scale = 0.5"
    )


@pytest.mark.parametrize(
    ("change", "ends", "k", "reason"),
    [
        ({}, (50.0, 60.0), 2, "the objective does not depend on policy.mean"),
        ({"reward": "rewards_of_0_and_1:inside"}, (-1.0, 2.0), 64,
         "the largest value is not at one place: policy.mean = "),
    ],
)  # fmt: skip
def test_where_nothing_changes_there_is_no_optimum(
    change: dict[str, Any],
    ends: tuple[float, float],
    k: int,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def inside(x: torch.Tensor) -> torch.Tensor:
        return ((x >= 0) & (x <= 1)).all(-1).double()

    inside.breakpoints = (0.0, 1.0)  # type: ignore[attr-defined]
    module = types.ModuleType("rewards_of_0_and_1")
    module.inside = inside  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    (metrics,) = measured(unit(GAUSSIAN | change, NORMAL, "policy.mean", ends, 31), cell("maxk", k))
    assert metrics["optimum"] is metrics["optimum_value"] is None
    assert metrics["undefined"]["optimum"].startswith(reason)


def test_listed_trajectories_give_the_closed_form() -> None:
    """pass@K of success probability p is 1 − (1 − p)^K, whatever the seed."""
    along = unit(BANDIT, TABLE, "policy.success_probability", (0.1, 0.9), 9)
    for k, metrics in zip((1, 4), measured(along, cell("maxk", 1), cell("maxk", 4)), strict=True):
        assert metrics["values"] == pytest.approx(
            [1 - (1 - p) ** k for p in metrics["points"]], abs=1e-14
        )


def test_a_random_policy_is_the_same_at_every_point() -> None:
    """Only the parameter moves: rewards shifted by x have objectives shifted by x."""
    graded = {"name": "bandit", "arms": 4, "reward_shift": 0.0}
    (metrics,) = measured(
        unit(graded, TABLE, "environment.reward_shift", (-1.0, 1.0), 5), cell("top_m", 3)
    )
    assert [v - metrics["values"][2] for v in metrics["values"]] == pytest.approx(
        metrics["points"], abs=1e-14
    )


@pytest.mark.parametrize(
    ("along", "message"),
    [
        (unit(BANDIT, TABLE, "policy.success_probability", (0.0, 0.5)),
         "success_probability = 0.0 stands for none being given"),
        (unit(BANDIT, TABLE, "policy.success_probability", (0.5, 1.0)),
         "success_probability must be less than 1, got 1.0"),
        (unit(GAUSSIAN, NORMAL, "policy.scale", (-1.0, 1.0)),
         "scale must be at least 1e-06, got -1.0"),
        (unit(GAUSSIAN | {"dim": 2}, NORMAL, "policy.mean", (0.0, 1.0)), "needs dim = 1, got 2"),
        (unit(GAUSSIAN, NORMAL, "policy.meen", (0.0, 1.0)), "gaussian has no policy.meen"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_an_error_of_the_cell(
    along: dict[str, Any], message: str
) -> None:
    (result,) = measured(along, cell("maxk", 2))
    assert isinstance(result, LabError)
    assert message in str(result)
