"""The objective study: curves and optima against integrals, closed forms and enumeration."""

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
from maxk_lab.studies.objective.work import measure as measure_objective

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


def measured(given: dict[str, Any], *cells: dict[str, Any]) -> list[Any]:
    found = dict(measure_objective(given, cells, cache=None, event=lambda name, payload: None))
    assert list(found) == [c["id"] for c in cells]
    return list(found.values())


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
    given = unit(slope, NORMAL, "policy.scale", (0.5, 1.0), 3)
    best, worst, mean = measured(
        given, cell("maxk", 2), cell("order[1.0 0.0]", 2), cell("cvar_upper[1.0]", 2)
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
    given = unit(BANDIT, TABLE, "policy.success_probability", (0.1, 0.9), 9)
    for k, metrics in zip((1, 4), measured(given, cell("maxk", 1), cell("maxk", 4)), strict=True):
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
    ("given", "message"),
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
    given: dict[str, Any], message: str
) -> None:
    (result,) = measured(given, cell("maxk", 2))
    assert isinstance(result, LabError)
    assert message in str(result)
