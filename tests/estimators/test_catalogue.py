"""The catalogue: spellings, what every row says, and its checks, also of other packages' rows."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch

import maxk_lab.catalogue
from maxk_lab.catalogue import Catalogue, load
from maxk_lab.estimators import advantages, baseline, catalogue, estimator
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline, choose_estimator
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.check.brute_force import has_definition
from maxk_lab.estimators.check.run import check_pair, run_checks
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.rows import BaselineRow, below_n


def test_every_row_says_what_it_is() -> None:
    for row in (*ESTIMATORS, *BASELINES):
        assert all((row.meaning, row.formula, row.condition, row.constraint, row.citation))
        assert load(row.implementation) is row
    for row in BASELINES:
        for spelling in (row.name, *row.examples):
            method = Method.parse("maxk", spelling, 2)
            assert has_definition(method) is not row.across_prompts
            assert method.uses_other_prompts is row.across_prompts
            assert method.fit is None or (method.is_unbiased and method.expected_scale(8) == 1.0)


def test_what_a_pair_needs_beside_rewards() -> None:
    every = [spelling for row in BASELINES for spelling in (row.name, *row.examples)]
    methods = {spelling: Method.parse("maxk", spelling) for spelling in every}
    named: dict[str, list[str]] = {}
    for name, method in methods.items():
        if needed := method.fit or method.needed_weight:
            named.setdefault(needed, []).append(name)
        alone = needed is None and name != "shrinkage"
        assert method.needs_rewards_alone is alone
    assert named == {
        "length": ["opo", "opo_loo", "optimal[length]"],
        "logit_proxy": ["otb", "otb_loo", "optimal[logit_proxy]"],
        "grad_norm": ["eob", "eob_loo", "optimal"],
        "cross_fit": ["affine[cross_fit]", "ladder"],
        "oracle": ["affine[oracle]", "ladder[oracle]", "constant", "joint_optimum"],
    }


OBJECTIVES = r"J_K|J_1|L_K|Σ_{k<n} pass@k / k|\(λ J_A \+ \(1 − λ\) J_B\)"
EASY = TinyBandit((0.3, -0.8, 0.5), (0.0, 1.0, 0.4), (2.0, 5.0, 1.0))
HARD = TinyBandit((1.2, -1.5, 0.1), (0.2, 1.0, 0.0), (4.0, 1.0, 2.0))


def least_multiple(bandit: TinyBandit, method: Method, n: int) -> tuple[float, float]:
    """The factor c of the multiple c ∇J next to the enumerated mean, and the relative distance."""
    mean, gradient = bandit.mean_estimate(n, method), bandit.gradient(method.objective_at(n), n)
    factor = float(mean @ gradient / gradient.square().sum())
    return factor, float((mean - factor * gradient).norm() / gradient.norm())


@pytest.mark.parametrize("row", [*ESTIMATORS, *BASELINES], ids=lambda row: row.name)
@pytest.mark.parametrize("n", [4, 5])
def test_the_estimand_is_the_enumerated_mean(row: Any, n: int) -> None:
    """Of J_K, and of J_K^starts: with forced starts, whose samples have unequal policies."""
    spelling = row.examples[0] if row.name == "order" else row.name
    pair = ("maxk", row.name) if isinstance(row, BaselineRow) else (spelling, "none")
    methods = (Method.parse(*pair, k) for k in (2, 1, n))
    method = next(method for method in methods if method.refusal(n) is None)
    bandits = [EASY, HARD, replace(EASY, starts=((0.4, -1.0, 0.2), (-0.7, 0.5, 1.1)))]
    if row.binary_rewards:
        bandits = [replace(b, rewards=tuple(map(round, b.rewards))) for b in bandits]
    multiples = [least_multiple(bandit, method, n) for bandit in bandits]
    text = re.fullmatch(rf"E\[Σ w ∇log π\] = (\((.*)\) )?∇({OBJECTIVES})", row.estimand)
    if text is None:
        assert row.estimand.startswith("E[Σ w ∇log π] is no fixed multiple of ∇")
        (c, off), (d, _), _ = multiples
        assert max(off, abs(c - d)) > 1e-3
        assert math.isnan(method.expected_scale(n))
        assert not method.is_unbiased
        return
    factor = eval((text[2] or "1").replace("−", "-"), {"K": method.k, "n": n})
    assert method.expected_scale(n) == pytest.approx(factor, rel=1e-12)
    assert method.is_unbiased is (factor == 1)
    for c, off in multiples:
        assert c == pytest.approx(factor, rel=1e-12)
        assert off < 1e-12


@pytest.mark.parametrize(
    ("estimator", "baseline", "k", "scale", "objective"),
    [
        ("grpo_passk[none]", "none", 8, 1.0, "max@8"),
        ("hybrid[1]", "none", 4, 1.0, "max@4"),
        ("hybrid[0]", "none", 4, None, "max@4"),
        ("reinforce", "group_mean", 2, 0.875, "max@1"),
        ("top_m", "none", 4, 1.0, "top_m[2]@4"),
        ("cvar_upper[.5]", "none", 4, 1.0, "cvar_upper[0.5]@4"),
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


def test_rows_of_other_packages_run(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"maxk_lab.baselines": ("halved",), "maxk_lab.estimators": ("doubled",)}

    def points(group: str) -> list[EntryPoint]:
        return [EntryPoint(name, f"third_party:{name}", group) for name in names.get(group, ())]

    monkeypatch.setitem(sys.modules, "third_party", sys.modules[__name__])
    monkeypatch.setattr(maxk_lab.catalogue, "entry_points", points)
    for name, rows in (("BASELINES", BASELINES), ("ESTIMATORS", ESTIMATORS)):
        fresh = Catalogue(rows.kind, [*rows], rows.entry_point_group)
        monkeypatch.setattr(catalogue, name, fresh)
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


@pytest.mark.slow
@pytest.mark.deep
def test_everything_holds_and_every_row_is_covered() -> None:
    results = run_checks()
    assert [result for result in results if not result.ok] == []
    rows = " ".join(result.row for result in results)
    for row in (*BASELINES, *ESTIMATORS):
        assert row.name in rows


def test_what_is_checked_of_one_estimator_or_one_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "maxk_lab.estimators.check.run.check_pair", lambda *pair: pairs.append(pair) or []
    )

    def checked(**names: str) -> set[tuple[str, str]]:
        pairs.clear()
        assert run_checks(**names) == []
        return set(pairs)

    # The examples of a form of objective are checked with what the others are sums of.
    basic = {("top_m[3]", baseline) for baseline in ("none", "centred", "subloo")}
    assert checked(estimator="top_m[3]") == basic
    of_any = [choose_baseline(row.name).name for row in BASELINES if row.any_objective]
    assert checked(estimator="top_m") == {("top_m[2]", baseline) for baseline in of_any}
    assert checked(estimator="maxk", baseline="subloo") == {("maxk", "subloo")}
    # reinforce has K = 1, where subloo does not exist; the order statistics have it.
    assert {("maxk", "subloo"), ("top_m[2]", "subloo")} <= checked(baseline="subloo")
    assert ("reinforce", "subloo") not in pairs
    assert {baseline for _, baseline in pairs} == {"subloo"}


def test_a_mixture_that_needs_three_samples_is_checked() -> None:
    results = check_pair("mix[0.5 top_m[3]/group_mean maxk/group_mean]", "none")
    assert [result.name for result in results if result.ok][:2] == [
        "bias seen",
        "unbiased up to scale",
    ]


def raises(*_: object, **__: object) -> None:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("pair", "changes", "failing"),
    [
        (("maxk", "centred"), {"level": lambda at: at.others.value()}, "brute force"),
        (("maxk", "centred"), {"function": raises}, "unbiased"),
        (("maxk", "centred"), {"biased": "not at all"}, "bias seen"),
        (("maxk", "group_mean"), {"scale": lambda n, k: 1.0}, "unbiased up to scale"),
        (("maxk", "opo"), {"biased": ""}, "unbiased"),
        (("maxk", "eob_loo"), {"function": BASELINES.get("eob").function}, "unbiased"),
        (("grpo", "none"), {"scale": lambda n, k: 1.0}, "unbiased up to scale"),
        (("leader_reward", "none"), {"biased": ""}, "unbiased"),
    ],
)
def test_a_wrong_row_fails(
    pair: tuple[str, str],
    changes: dict[str, object],
    failing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = pair[0] if pair[1] == "none" else pair[1]
    for name, rows in (("BASELINES", BASELINES), ("ESTIMATORS", ESTIMATORS)):
        wrong = [replace(r, **changes) if r.name == changed else r for r in rows]
        monkeypatch.setattr(catalogue, name, Catalogue(rows.kind, wrong, "maxk_lab.nothing"))
    assert failing in {result.name for result in check_pair(*pair) if not result.ok}
