"""The catalogue: spellings, limits that agree with the functions, other packages' rows."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations, starmap
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
from maxk_lab.estimators.check.twins import has_twin, inputs
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
        ("ladder[0.5 x]", "alpha must be of type float, got 'x'; or one of cross_fit"),
        ("ladder[]", "alpha must be numbers, got ''"),
        ("ladder[0.5 inf]", "alpha must be finite"),
        ("constant[cross_fit]", "c must be of type float, got 'cross_fit'; or one of oracle"),
    ],
)
def test_bad_coefficients(spelling: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        choose_baseline(spelling)


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("top_m[0]", "m must be at least 1"),
        ("top_m[1.5]", "m must be of type int"),
        ("cvar_upper[0]", r"q must be greater than 0\.0"),
        ("cvar_lower[1.01]", r"q must be at most 1\.0"),
        ("cvar_lower[nan]", "q must be finite"),
        ("trimmed_mean[0.5]", r"p must be less than 0\.5"),
        ("trimmed_mean[-0.1]", r"p must be at least 0\.0"),
        ("median[1]", "median takes no parameter"),
        ("l_statistic[0.5 nan]", "alpha must be finite"),
        ("l_statistic[a]", "alpha must be of type float"),
        ("partitioned[lo]", "did you mean loo"),
    ],
)
def test_bad_estimators(spelling: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        choose_estimator(spelling)


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


class Point:
    """An entry point as an installed package would bring it."""

    def __init__(self, name: str, twin: str | None) -> None:
        self.value = f"third_party:{name.upper()}"
        self._row = replace(HALVED, name=name, twin=twin)

    def load(self) -> BaselineRow:
        return self._row


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(*, group: str) -> list[Any]:
        return list(starmap(Point, TWINS.items())) if group == "maxk_lab.baselines" else []

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
        ("halved_with_lost_twin", False, "LabError: cannot load 'third_party:nothing'"),
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
