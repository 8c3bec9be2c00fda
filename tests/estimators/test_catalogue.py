"""The catalogue: spellings, limits that agree with the functions, rows of other packages, and no torch."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
import torch

import maxk_lab.catalogue
from maxk_lab.catalogue import Catalogue, load
from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages, catalogue
from maxk_lab.estimators.catalogue import (
    BASELINES,
    ESTIMATORS,
    BaselineRow,
    choose_baseline,
    choose_estimator,
    needed_weight,
    refusal,
)

SPELLINGS = [spelling for row in BASELINES for spelling in (row.name, *row.examples)]
PAIRS = [
    (estimator, baseline)
    for row in ESTIMATORS
    for estimator in (row.name, *row.examples)
    for baseline in (SPELLINGS if row.takes_baseline else ["none"])
]


@pytest.mark.parametrize(("estimator", "baseline"), PAIRS)
def test_every_pair_runs_exactly_where_the_catalogue_says(estimator: str, baseline: str) -> None:
    chosen, base = choose_estimator(estimator), choose_baseline(baseline)
    if base.row.token_level:
        with pytest.raises(ValueError, match=r"otb_token gives one weight per token.*token_advantages\("):
            advantages(torch.ones(3), estimator=estimator, baseline=baseline, k=1)
        return
    kind = needed_weight(estimator, baseline)
    for n in (1, 2, 3, 5):
        generator = torch.Generator().manual_seed(n)
        rewards = torch.randint(0, 2, (2, n), generator=generator).float()
        g = torch.rand(2, n, generator=generator) + 0.1
        own = {} if kind is None else {"g": g}
        baseline_function = partial(load(base.row.implementation), **base.params, **own)
        for k in range(1, n + 2):
            target = catalogue.effective_k(estimator, k)
            call = partial(
                load(chosen.row.implementation), rewards, target, baseline_function, **chosen.params
            )
            if refusal(estimator, baseline, n, k) is None:
                weights = call(stable_sort=True)
                assert weights.shape == rewards.shape
                assert weights.dtype == rewards.dtype
                assert torch.isfinite(weights).all()
                found = advantages(
                    rewards, estimator=estimator, baseline=baseline, k=k, trajectory_weights={str(kind): g}
                )
                assert torch.equal(weights, found)
            else:
                with pytest.raises(ValueError, match=r"must (be|have)"):
                    call(stable_sort=True)


def test_which_trajectory_weight_a_pair_needs() -> None:
    needed = {spelling: needed_weight("maxk", spelling) for spelling in SPELLINGS}
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
    assert needed_weight("grpo", "none") is None
    assert [name for name in SPELLINGS if catalogue.is_token_level(name)] == ["otb_token"]


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
def test_bias_may_depend_on_the_parameter(spelling: str, unbiased: bool, scale: float | None) -> None:
    assert catalogue.is_unbiased(spelling, "none") is unbiased
    found = catalogue.expected_scale(spelling, "none", 4, 4)
    assert found == scale if scale else math.isnan(found)


def test_refusals_name_the_constraint() -> None:
    assert refusal("maxk", "rloo", 4, 2) == "rloo needs K = 1 and n >= 2, got K = 2 and n = 4"
    assert refusal("reinforce", "rloo", 4, 2) is None
    assert refusal("reinforce", "opo", 1, 1) == "opo needs K = 1 and n >= 2, got K = 1 and n = 1"
    assert refusal("grpo_passk", "none", 4, 2) == "grpo_passk needs K = n >= 2, got K = 2 and n = 4"
    assert refusal("grpo", "none", 1, 1) == "grpo needs n >= 2, K counts as 1, got K = 1 and n = 1"
    assert refusal("grpo", "rloo", 4, 1) == "grpo takes no baseline, got rloo"


def test_every_row_says_what_it_is() -> None:
    for row in (*ESTIMATORS, *BASELINES):
        assert row.meaning
        assert row.formula
        assert row.condition
        assert row.constraint
        assert row.citation
        assert row.objective in ("J_K", "J_1")
        assert callable(load(row.implementation))


def test_spellings() -> None:
    assert choose_baseline("affine").name == "affine[0.5]"
    assert choose_baseline(" affine[ 0.50 ]").params == {"alpha": 0.5}
    assert choose_baseline("affine[-0]").name == "affine[0.0]"
    assert choose_baseline("subloo").params == {}
    assert choose_baseline("optimal").name == "optimal[grad_norm]"
    assert choose_estimator("grpo[1e-6]").name == "grpo[1e-06]"
    assert choose_estimator("hybrid[1]").name == "hybrid[1.0]"


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("centered", "did you mean centred"),
        ("centred[1]", "centred takes no parameter"),
        ("affine[x]", "alpha must be of type float"),
        ("affine[nan]", "alpha must be finite"),
        ("affine[]", "alpha must be of type float"),
        ("affine[1", "must be a name or name"),
        ("", "must be a name or name"),
        ("optimal[lenght]", "did you mean length"),
    ],
)
def test_bad_spellings(spelling: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        choose_baseline(spelling)


def test_effective_k_and_scale() -> None:
    assert catalogue.effective_k("reinforce", 8) == 1
    assert catalogue.effective_k("maxk", 8) == 8
    assert catalogue.expected_scale("maxk", "group_mean", 8, 2) == pytest.approx(0.75)
    assert catalogue.expected_scale("reinforce", "group_mean", 8, 2) == pytest.approx(0.875)
    assert catalogue.expected_scale("maxk", "subloo", 8, 8) == 1.0
    assert not catalogue.is_unbiased("maxk", "group_mean")
    assert catalogue.is_unbiased("reinforce", "centred")


def test_catalogue_imports_no_torch() -> None:
    program = (
        "import sys, maxk_lab.estimators, maxk_lab.estimators.catalogue as c, maxk_lab.estimators.normalization;"
        "c.refusal('maxk', 'affine', 4, 2); list(c.ESTIMATORS); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_package_is_lazy_and_names_its_functions() -> None:
    import maxk_lab.estimators as package

    for name in package.__all__:
        assert getattr(package, name) is getattr(package, name)
        assert name in dir(package)
    assert callable(package.advantages)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense


def halved(rewards: torch.Tensor, k: int, *, stable_sort: bool = True) -> torch.Tensor:
    """A third party's baseline: half of s."""
    return load("maxk_lab.estimators:maxk_gradient_weights")(rewards, k, stable_sort=stable_sort) / 2


HALVED = BaselineRow(
    name="halved",
    meaning="half of s",
    formula="s_i / 2",
    unbiased=False,
    condition="biased in scale only",
    constraint="1 <= K <= n",
    shift_invariant=False,
    scale=lambda n, k: 0.5,
    implementation="third_party:halved",
)


class Point:
    """An entry point as an installed package would bring it."""

    value = "third_party:HALVED"

    def load(self) -> BaselineRow:
        return HALVED


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(*, group: str) -> list[Any]:
        return [Point()] if group == "maxk_lab.baselines" else []

    monkeypatch.setitem(sys.modules, "third_party", sys.modules[__name__])
    monkeypatch.setattr(maxk_lab.catalogue, "entry_points", points)
    fresh = Catalogue("baseline", [*BASELINES], BASELINES.entry_point_group)
    monkeypatch.setattr(catalogue, "BASELINES", fresh)


@pytest.mark.usefixtures("installed")
def test_rows_of_other_packages_run_and_are_checked() -> None:
    from maxk_lab.estimators.check import check_pair

    rewards = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(advantages(rewards, baseline="halved", k=1), rewards / 4)
    results = {result.name: result for result in check_pair("maxk", "halved")}
    assert set(results) == {"bias seen", "unbiased but for scale"}
    assert all(result.ok for result in results.values())
