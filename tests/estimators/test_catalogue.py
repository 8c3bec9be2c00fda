"""The catalogue: spellings, what every row says, other packages' rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.metadata import EntryPoint
from itertools import combinations
from typing import Any

import pytest
import torch

import maxk_lab.catalogue
from maxk_lab.catalogue import Catalogue, load
from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages, catalogue
from maxk_lab.estimators.baselines.kinds import FittedRow
from maxk_lab.estimators.catalogue import (
    BASELINES,
    ESTIMATORS,
    BaselineRow,
    EstimatorRow,
    choose_baseline,
    choose_estimator,
)
from maxk_lab.estimators.check.twins import has_twin
from maxk_lab.estimators.method import Method


def test_every_row_says_what_it_is() -> None:
    for row in (*ESTIMATORS, *BASELINES):
        assert row.meaning
        assert row.formula
        assert row.condition
        assert row.constraint
        assert row.citation
        assert row.objective in ("J_K", "J_1", "L_K")
        assert callable(load(row.implementation))
        if isinstance(row, FittedRow):
            assert callable(load(row.fitted))


def test_spellings() -> None:
    assert choose_baseline("affine").name == "affine[0.5]"
    assert choose_baseline(" affine[ 0.50 ]").params == {"alpha": 0.5}
    assert choose_baseline("affine[-0]").name == "affine[0.0]"
    assert choose_baseline("subloo").params == {}
    assert choose_baseline("optimal").name == "optimal[grad_norm]"
    assert choose_estimator("grpo[1e-6]").name == "grpo[1e-06]"
    assert choose_estimator("grpo[-0]").name == "grpo[0.0]"
    assert choose_estimator("hybrid[1]").name == "hybrid[1.0]"


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("centered", "did you mean centred"),
        ("centred[1]", "centred takes no parameter"),
        ("affine[x]", "alpha must be a number"),
        ("affine[nan]", "alpha must be a finite number"),
        ("affine[]", "alpha must be a number"),
        ("affine[1", "must be a name or name"),
        ("", "must be a name or name"),
        ("optimal[lenght]", "did you mean length"),
    ],
)
def test_bad_spellings(spelling: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        choose_baseline(spelling)


@pytest.mark.parametrize(
    ("spelling", "name", "params"),
    [
        ("affine[cross_fit]", "affine[cross_fit]", {"alpha": "cross_fit"}),
        ("affine[ 1 ]", "affine[1.0]", {"alpha": 1.0}),
        ("ladder", "ladder[cross_fit]", {"alpha": "cross_fit"}),
        ("ladder[0.25, .75]", "ladder[0.25 0.75]", {"alpha": (0.25, 0.75)}),
        ("ladder[-0 1]", "ladder[0.0 1.0]", {"alpha": (0.0, 1.0)}),
        ("constant", "constant[oracle]", {"c": "oracle"}),
        ("constant[-5]", "constant[-5.0]", {"c": -5.0}),
    ],
)
def test_a_parameter_may_be_a_number_a_word_or_a_list(
    spelling: str, name: str, params: dict[str, Any]
) -> None:
    found = choose_baseline(spelling)
    assert (found.name, dict(found.params)) == (name, params)
    assert choose_baseline(found.name) == found


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("affine[crossfit]", "or one of cross_fit, same_batch, oracle.*did you mean cross_fit"),
        ("ladder[0.5 x]", "alpha must be a number, got 'x'; or one of cross_fit"),
        ("ladder[]", "alpha must be numbers, got ''"),
        ("ladder[0.5 inf]", "alpha must be a finite number"),
        ("constant[cross_fit]", "c must be a number, got 'cross_fit'; or one of oracle"),
    ],
)
def test_bad_coefficients(spelling: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        choose_baseline(spelling)


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("top_m[0]", "m must be at least 1"),
        ("top_m[1.5]", "m must be a whole number"),
        ("cvar_upper[0]", "q must be greater than 0, got"),
        ("cvar_lower[1.01]", "q must be at most 1, got"),
        ("cvar_lower[nan]", "q must be a finite number"),
        ("trimmed_mean[0.5]", r"p must be less than 0\.5"),
        ("trimmed_mean[-0.1]", "p must be at least 0, got"),
        ("median[1]", "median takes no parameter"),
        ("l_statistic[0.5 nan]", "alpha must be a finite number"),
        ("l_statistic[a]", "alpha must be a number"),
        ("partitioned[lo]", "did you mean loo"),
    ],
)
def test_bad_estimators(spelling: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        choose_estimator(spelling)


def test_catalogue_imports_no_torch() -> None:
    program = (
        "import sys; from maxk_lab.estimators import ESTIMATORS, Method, WEIGHT_NORMALIZATIONS;"
        "Method.parse('maxk', 'affine', 2).refusal(4); list(ESTIMATORS); sys.exit('torch' in "
        "sys.modules)"
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
    return (
        load("maxk_lab.estimators:maxk_gradient_weights")(rewards, k, stable_sort=stable_sort) / 2
    )


def half_of_subsets(group: Sequence[Fraction], k: int) -> list[Fraction]:
    """Its twin: half of the maxima of the subsets that hold the sample, over the number of all."""
    subsets = list(combinations(range(len(group)), k))
    return [
        sum((max(group[j] for j in s) for s in subsets if i in s), Fraction(0)) / 2 / len(subsets)
        for i in range(len(group))
    ]


def a_third_of_subsets(group: Sequence[Fraction], k: int) -> list[Fraction]:
    return [w * 2 / 3 for w in half_of_subsets(group, k)]


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
TWINS = {
    "halved": None,
    "halved_with_twin": "third_party:half_of_subsets",
    "halved_with_wrong_twin": "third_party:a_third_of_subsets",
    "halved_with_lost_twin": "third_party:nothing",
}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(group: str) -> list[EntryPoint]:
        names = TWINS if group == "maxk_lab.baselines" else ()
        return [EntryPoint(name, f"third_party:{name.upper()}", group) for name in names]

    for name, twin in TWINS.items():
        row = replace(HALVED, name=name, twin=twin)
        monkeypatch.setattr(sys.modules[__name__], name.upper(), row, raising=False)
    monkeypatch.setitem(sys.modules, "third_party", sys.modules[__name__])
    monkeypatch.setattr(maxk_lab.catalogue, "entry_points", points)
    fresh = Catalogue("baseline", [*BASELINES], BASELINES.entry_point_group)
    monkeypatch.setattr(catalogue, "BASELINES", fresh)


@pytest.mark.usefixtures("installed")
def test_rows_of_other_packages_run_and_are_checked() -> None:
    from maxk_lab.estimators.check.run import check_pair

    rewards = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(advantages(rewards, baseline="halved", k=1), rewards / 4)
    results = {result.name: result for result in check_pair("maxk", "halved")}
    assert set(results) == {"bias seen", "unbiased but for scale"}
    assert all(result.ok for result in results.values())


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("baseline", "ok", "detail"),
    [
        ("halved_with_twin", True, "settings, largest at"),
        ("halved_with_wrong_twin", False, "settings, largest at"),
        ("halved_with_lost_twin", False, "MistakeError: cannot load 'third_party:nothing'"),
    ],
)
def test_a_twin_of_another_package_is_compared_with_its_function(
    baseline: str, ok: bool, detail: str
) -> None:
    from maxk_lab.estimators.check.run import check_pair

    for estimator in ("maxk", "reinforce"):
        results = {result.name: result for result in check_pair(estimator, baseline)}
        assert results["fast = slow"].ok is ok
        assert detail in results["fast = slow"].detail
        assert all(result.ok for name, result in results.items() if name != "fast = slow")


def test_every_row_of_the_project_brings_its_twin() -> None:
    for row in (*ESTIMATORS, *BASELINES):
        for spelling in (row.name, *row.examples):
            pair = (spelling, "none") if isinstance(row, EstimatorRow) else ("maxk", spelling)
            # That of token weights is checked by itself.
            assert has_twin(Method.parse(*pair)) is not Method.parse(*pair).is_token_level


def test_rows_with_importance_ratios_are_those_with_a_function_for_them() -> None:
    from maxk_lab.estimators.methods.off_policy import OFF_POLICY_BASELINES

    assert [row.name for row in BASELINES if row.off_policy] == list(OFF_POLICY_BASELINES)
