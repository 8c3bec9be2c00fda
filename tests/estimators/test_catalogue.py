"""The catalogue: spellings, what every row says, other packages' rows."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch

import maxk_lab.catalogue
from maxk_lab.catalogue import Catalogue, load
from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages, baseline, catalogue, estimator
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline, choose_estimator
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.check.brute_force import has_definition
from maxk_lab.estimators.check.run import check_pair
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.rows import BaselineRow, below_n


def test_every_row_says_what_it_is() -> None:
    for row in (*ESTIMATORS, *BASELINES):
        assert row.meaning
        assert row.formula
        assert row.condition
        assert row.constraint
        assert row.citation
        assert load(row.implementation) is row
    for row in BASELINES:
        for spelling in (row.name, *row.examples):
            method = Method.parse("maxk", spelling)
            assert has_definition(method) is not row.across_prompts


OBJECTIVES = r"J_K|J_1|L_K|Σ_{k<n} pass@k / k|\(λ J_A \+ \(1 − λ\) J_B\)"
EASY = TinyBandit((0.3, -0.8, 0.5), (0.0, 1.0, 0.4), (2.0, 5.0, 1.0))
HARD = TinyBandit((1.2, -1.5, 0.1), (0.2, 1.0, 0.0), (4.0, 1.0, 2.0))


def least_multiple(bandit: TinyBandit, method: Method, n: int) -> tuple[float, float]:
    """The factor c of the multiple c ∇J next to the enumerated mean, and the relative distance."""
    of = method.objective_at(n)
    mean, gradient = bandit.mean_estimate(n, method), bandit.gradient(of)
    factor = float(mean @ gradient / gradient.square().sum())
    return factor, float((mean - factor * gradient).norm() / gradient.norm())


@pytest.mark.parametrize("row", [*ESTIMATORS, *BASELINES], ids=lambda row: row.name)
@pytest.mark.parametrize("n", [4, 5])
def test_the_estimand_is_the_enumerated_mean(row: Any, n: int) -> None:
    spelling = row.examples[0] if row.name == "order" else row.name
    pair = ("maxk", row.name) if isinstance(row, BaselineRow) else (spelling, "none")
    methods = (Method.parse(*pair, k) for k in (2, 1, n))
    method = next(method for method in methods if method.refusal(n) is None)
    k = method.k
    bandits = [EASY, HARD]
    if row.binary_rewards:
        bandits = [replace(b, rewards=tuple(map(round, b.rewards))) for b in bandits]
    (c, off), (d, _) = (least_multiple(bandit, method, n) for bandit in bandits)
    text = re.fullmatch(rf"E\[Σ w ∇log π\] = (\((.*)\) )?∇({OBJECTIVES})", row.estimand)
    if text is None:
        assert row.estimand.startswith("E[Σ w ∇log π] is no fixed multiple of ∇")
        assert max(off, abs(c - d)) > 1e-3
    else:
        factor = eval((text[2] or "1").replace("−", "-"), {"K": k, "n": n})
        assert c == pytest.approx(factor, rel=1e-12)
        assert off < 1e-12


@pytest.mark.parametrize(
    ("choose", "spelling", "name", "params"),
    [
        (choose_baseline, "affine", "affine[0.5]", {"alpha": 0.5}),
        (choose_baseline, " affine[ 0.50 ]", "affine[0.5]", {"alpha": 0.5}),
        (choose_baseline, "affine[-0]", "affine[0.0]", {"alpha": 0.0}),
        (choose_baseline, "affine[cross_fit]", "affine[cross_fit]", {"alpha": "cross_fit"}),
        (choose_baseline, "subloo", "subloo", {}),
        (choose_baseline, "optimal", "optimal[grad_norm]", {"kind": "grad_norm"}),
        (choose_baseline, "ladder[0.25, .75]", "ladder[0.25 0.75]", {"alpha": (0.25, 0.75)}),
        (choose_baseline, "ladder[-0 1]", "ladder[0.0 1.0]", {"alpha": (0.0, 1.0)}),
        (choose_baseline, "constant", "constant[oracle]", {"c": "oracle"}),
        (choose_estimator, "grpo[1e-6]", "grpo[1e-06]", {"eps": 1e-6}),
        (choose_estimator, "hybrid[1]", "hybrid[1.0]", {"lambda_": 1.0}),
    ],
)
def test_spellings(choose: Any, spelling: str, name: str, params: dict[str, Any]) -> None:
    choice = choose(spelling)
    assert (choice.name, dict(choice.params)) == (name, params)
    assert choose(choice.name) == choice


@pytest.mark.parametrize(
    ("choose", "spelling", "message"),
    [
        (choose_baseline, "centered", "baseline 'centered' is called centred here"),
        (choose_baseline, "sloo", "is called pkpo_sloo here"),
        (choose_baseline, "sloo_minus_one", "is called subloo here"),
        (choose_baseline, "LOO", "is called rloo here"),
        (choose_baseline, "GRPO", "unknown baseline 'GRPO': grpo is an estimator"),
        (choose_baseline, "pass@8", "unknown baseline 'pass@8': maxk is an estimator"),
        (choose_estimator, "pass@K", "estimator 'pass@K' is called maxk here"),
        (choose_estimator, "sloo", "take estimator maxk with baseline pkpo_sloo"),
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
    ],
)
def test_bad_spellings(choose: Any, spelling: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        choose(spelling)


@baseline("s_i / 2", where=below_n, biased="biased in scale only", scale=lambda n, k: 0.5)
def halved(rewards: torch.Tensor, k: int) -> torch.Tensor:
    """Half of s."""
    weights: torch.Tensor = load("maxk_lab.estimators:maxk_gradient_weights")(rewards, k)
    return weights / 2


@estimator("twice the baseline's weights", biased="twice as long", scale=lambda n, k: 2.0)
def doubled(rewards: torch.Tensor, k: int, baseline_weights: Any) -> torch.Tensor:
    """Twice what the baseline gives."""
    weights: torch.Tensor = 2.0 * baseline_weights(rewards, k)
    return weights


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "maxk_lab.baselines": ("halved",),
        "maxk_lab.estimators": ("doubled",),
    }

    def points(group: str) -> list[EntryPoint]:
        return [EntryPoint(name, f"third_party:{name}", group) for name in names.get(group, ())]

    monkeypatch.setitem(sys.modules, "third_party", sys.modules[__name__])
    monkeypatch.setattr(maxk_lab.catalogue, "entry_points", points)
    for name, rows in (("BASELINES", BASELINES), ("ESTIMATORS", ESTIMATORS)):
        fresh = Catalogue(rows.kind, [*rows], rows.entry_point_group)
        monkeypatch.setattr(catalogue, name, fresh)


@pytest.mark.usefixtures("installed")
def test_rows_of_other_packages_run() -> None:
    rewards = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(advantages(rewards, baseline="halved", k=1), rewards / 4)
    found = advantages(rewards, estimator="doubled", baseline="halved", k=1)
    torch.testing.assert_close(found, rewards / 2)
    assert choose_baseline("halved").row.meaning == "half of s"
    assert Method.parse("maxk", "halved", 2).refusal(2) == (
        "halved needs 1 <= K < n, got K = 2 and n = 2"
    )
    for pair in (("maxk", "halved"), ("doubled", "centred")):
        results = check_pair(*pair)
        scaled = "unbiased up to scale"
        wanted = {"bias seen", scaled, f"{scaled} with forced starts"}
        assert {result.name for result in results} == wanted
        assert all(result.ok for result in results)


def test_a_function_becomes_a_row_with_nothing_said() -> None:
    def my_own(rewards: torch.Tensor, k: int) -> torch.Tensor:
        return rewards - rewards.mean()

    row = baseline()(my_own)
    assert (row.name, row.constraint, row.unbiased) == ("my_own", "1 <= K <= n", True)
    assert row.implementation.endswith(":my_own")
