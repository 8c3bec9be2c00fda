"""Exact studies: weights of shared groups, and curves and optima by integrals and enumeration."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.estimators.method import Method
from maxk_lab.studies.exact import work
from maxk_lab.studies.exact.spec import rewards_only_refusal
from maxk_lab.studies.exact.work import measure

GAUSSIAN = {"name": "gaussian", "dim": 1, "reward": "square_on_unit"}
NORMAL = {"mean": 0.0, "scale": 0.1, "learn_scale": False}
BANDIT = {"name": "bandit", "arms": 4, "reward_shift": 0.0}
BINARY = BANDIT | {"rewards": "binary"}
TABLE = {"init_std": 1.0, "dtype": "float64"}


def cell(estimator: str, k: int, n: int | None = None, baseline: str = "none") -> dict[str, Any]:
    axes = {"estimator": estimator, "baseline": baseline, "n": n or k, "k": k}
    return {"id": str(axes)} | axes


def measured(unit: dict[str, Any], *cells: dict[str, Any]) -> list[Any]:
    metrics = dict(measure(unit, cells, cache=None, event=lambda name, payload: None))
    assert list(metrics) == [one["id"] for one in cells]
    return list(metrics.values())


def weights_of(*cells: dict[str, Any], **changes: Any) -> list[Any]:
    groups = {"environment": GAUSSIAN, "policy": NORMAL | {"mean": 0.9}, "seed": 3, "groups": 5}
    return measured(groups | changes, *cells)


def test_weights_are_those_of_the_estimators() -> None:
    baselines = ("none", "centred", "subloo")
    cells = [cell("maxk", 4, 8, baseline) for baseline in baselines]
    for metrics, baseline in zip(weights_of(*cells), baselines, strict=True):
        rewards = torch.tensor(metrics["rewards"], dtype=torch.float64)
        weights = torch.tensor(metrics["weights"], dtype=torch.float64)
        assert rewards.shape == weights.shape == (5, 8)
        expected = advantages(rewards, estimator="maxk", baseline=baseline, k=4)
        assert torch.equal(weights, expected)
        assert metrics["weight_sum"] == pytest.approx(expected.sum(1).mean().item())
        assert metrics["weight_min"] == expected.min().item()
        assert metrics["zero_share"] == (expected == 0).double().mean().item()


def test_groups_are_shared_by_cells_of_one_size_and_every_seed_has_its_own() -> None:
    cells = cell("maxk", 4, 8), cell("maxk", 4, 8, "centred"), cell("maxk", 4, 16, "centred")
    first, second, larger = weights_of(*cells)
    assert first["rewards"] == second["rewards"]
    assert weights_of(cells[2]) == [larger]
    assert weights_of(cells[0], seed=4)[0]["rewards"] != first["rewards"]
    assert len({tuple(group) for group in first["rewards"]}) == 5
    # The rewards of a bandit's arms are its instance.
    arms = [
        {*weights_of(cell("maxk", 4, 64), environment=BANDIT | {"arms": 3}, groups=1,
                     policy=TABLE, seed=seed)[0]["rewards"][0]}
        for seed in (3, 4)
    ]  # fmt: skip
    assert len(arms[0] | arms[1]) == 6


@pytest.mark.parametrize(
    ("estimator", "baseline", "reason"),
    [
        ("maxk", "optimal[length]", "needs the trajectory weight length"),
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
    refusal = rewards_only_refusal(Method.parse(estimator, baseline))
    (result,) = weights_of(cell(estimator, 4, 8, baseline))
    assert isinstance(result, LabError) == (reason is not None)
    if reason is not None:
        assert refusal is not None
        assert reason in refusal
        assert str(result) == refusal


def along(
    environment: dict[str, Any],
    policy: dict[str, Any],
    parameter: str,
    ends: tuple[float, float],
    points: int = 5,
) -> dict[str, Any]:
    """The unit of an objective study along a parameter."""
    objective = {"parameter": parameter, "from": ends[0], "to": ends[1], "points": points}
    return {"environment": environment, "policy": policy, "seed": 0, "objective": objective}


def integral(k: int, mean: float, scale: float = 0.1) -> float:
    outside = norm.cdf(0, mean, scale) + norm.sf(1, mean, scale) - norm.cdf(0, mean, scale)

    def above(u: float) -> float:
        return float(2 * u * (1 - (outside + norm.cdf(u, mean, scale)) ** k))

    return float(quad(above, 0, 1, epsabs=1e-13, epsrel=1e-13, limit=1000)[0])


@pytest.mark.parametrize("k", [1, 4, 16])
def test_curve_and_optimum_are_those_of_the_integral(k: int) -> None:
    (metrics,) = measured(along(GAUSSIAN, NORMAL, "policy.mean", (0.5, 1.2), 8), cell("maxk", k))
    assert metrics["parameter"] == "policy.mean"
    assert metrics["points"][:2] == [0.5, 0.6]
    assert metrics["values"] == pytest.approx([integral(k, x) for x in metrics["points"]], abs=1e-8)
    best = minimize_scalar(
        lambda x: -integral(k, x), bounds=(0.8, 1.05), method="bounded", options={"xatol": 1e-7}
    )
    assert metrics["optimum"] == pytest.approx(best.x, abs=1e-5)
    assert metrics["optimum_value"] == pytest.approx(-best.fun, abs=1e-8)
    assert metrics["undefined"] == {}


def test_the_expected_maximum_of_normal_rewards_grows_with_their_scale() -> None:
    """The maximum of 2 grows by scale / √π, the minimum falls by as much, the mean stays."""
    unit = along(GAUSSIAN | {"reward": "slope"}, NORMAL, "policy.scale", (0.5, 1.0), 3)
    scales = [scale / math.sqrt(math.pi) for scale in (0.5, 0.75, 1.0)]
    for estimator, sign, edge in (
        ("maxk", 1, "1"),
        ("order[1.0 0.0]", -1, "0.5"),
        ("cvar_upper[1.0]", 0, None),
    ):
        (metrics,) = measured(unit, cell(estimator, 2))
        assert metrics["values"] == pytest.approx([sign * x for x in scales], abs=1e-10)
        assert metrics["optimum"] is None
        reason = f"the largest value is at the edge, policy.scale = {edge}"
        assert edge is None or metrics["undefined"]["optimum"].startswith(reason)


def test_an_objective_that_is_not_finite_names_its_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def undefined(unit: object, x: float) -> Callable[[object], float]:
        return lambda objective: math.nan if x > 1 else x

    monkeypatch.setattr(work, "_exact_objectives", undefined)
    (error,) = measured(along(GAUSSIAN, NORMAL, "policy.mean", (0.0, 2.0), 5), cell("maxk", 2))
    assert str(error) == "the objective is not finite at policy.mean = 1.5"


def test_where_nothing_changes_there_is_no_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    def inside(x: torch.Tensor) -> torch.Tensor:
        return ((x >= 0) & (x <= 1)).all(-1).double()

    inside.breakpoints = (0.0, 1.0)  # type: ignore[attr-defined]
    module = types.ModuleType("rewards_of_0_and_1")
    module.inside = inside  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    step = GAUSSIAN | {"reward": "rewards_of_0_and_1:inside"}
    for environment, ends, k, reason in (
        (GAUSSIAN, (50.0, 60.0), 2, "the objective does not depend on policy.mean"),
        (step, (-1.0, 2.0), 64, "the largest value is not at one place: policy.mean = "),
    ):
        (metrics,) = measured(along(environment, NORMAL, "policy.mean", ends, 16), cell("maxk", k))
        assert metrics["optimum"] is metrics["optimum_value"] is None
        assert metrics["undefined"]["optimum"].startswith(reason)


def test_enumerated_trajectories_give_the_closed_form() -> None:
    """pass@K of success probability p is 1 − (1 − p)^K; shifted rewards shift the objective."""
    unit = along(BINARY, TABLE, "policy.success_probability", (0.1, 0.9), 9)
    for k, metrics in zip((1, 4), measured(unit, cell("maxk", 1), cell("maxk", 4)), strict=True):
        expected = [1 - (1 - p) ** k for p in metrics["points"]]
        assert metrics["values"] == pytest.approx(expected, abs=1e-14)
    unit = along(BANDIT, TABLE, "environment.reward_shift", (-1.0, 1.0))
    (metrics,) = measured(unit, cell("top_m", 3))
    shifts = [value - metrics["values"][2] for value in metrics["values"]]
    assert shifts == pytest.approx(metrics["points"], abs=1e-14)


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (along(BINARY, TABLE, "policy.success_probability", (0.0, 0.5)),
         "success_probability = 0.0 stands for none being given"),
        (along(BINARY, TABLE, "policy.success_probability", (0.5, 1.0)),
         "success_probability must be less than 1, got 1.0"),
        (along(GAUSSIAN, NORMAL, "policy.scale", (-1.0, 1.0)),
         "scale must be at least 1e-06, got -1.0"),
        (along(GAUSSIAN | {"dim": 2}, NORMAL, "policy.mean", (0.0, 1.0)), "needs dim = 1, got 2"),
        (along(GAUSSIAN, NORMAL, "policy.meen", (0.0, 1.0)), "gaussian has no policy.meen"),
    ],
)  # fmt: skip
def test_an_objective_that_cannot_be_measured_is_an_error(unit: Any, message: str) -> None:
    (result,) = measured(unit, cell("maxk", 2))
    assert isinstance(result, LabError)
    assert message in str(result)
