"""The catalogue: spellings, what every row says, other packages' rows."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch

import maxk_lab.catalogue
from maxk_lab.catalogue import Catalogue, load
from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages, baseline, catalogue, estimator
from maxk_lab.estimators.catalogue import (
    BASELINES,
    ESTIMATORS,
    choose_baseline,
    choose_estimator,
)
from maxk_lab.estimators.check.brute_force import has_definition
from maxk_lab.estimators.method import Method


def test_every_row_says_what_it_is() -> None:
    for row in (*ESTIMATORS, *BASELINES):
        assert row.meaning
        assert row.formula
        assert row.condition
        assert row.constraint
        assert row.citation
        assert row.objective in ("J_K", "J_1", "L_K")
        assert load(row.implementation) is row


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
        ("top_m[1.5]", "m must be a whole number"),
        ("trimmed_mean[-0.1]", "p must be at least 0, got"),
        ("median[1]", "median takes no parameter"),
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


@baseline("s_i / 2", source="a test", biased="biased in scale only", scale=lambda n, k: 0.5)
def halved(rewards: torch.Tensor, k: int) -> torch.Tensor:
    """Half of s."""
    weights: torch.Tensor = load("maxk_lab.estimators:maxk_gradient_weights")(rewards, k)
    return weights / 2


@baseline("s_i - rho_-i(K) / 4", where="1 <= K < n", level=lambda at: at.others.value() / 4)
def quarter(rewards: torch.Tensor, k: int) -> torch.Tensor:
    """A quarter of the value of the others."""
    return load("maxk_lab.estimators:maxk_gradient_weights")(rewards, k) - 0.25 * load(
        "maxk_lab.estimators:sample_loo_baseline"
    )(rewards, k)


@baseline("s_i - rho_-i(K) / 4", where="1 <= K < n", level=lambda at: at.others.value() / 3)
def not_a_third(rewards: torch.Tensor, k: int) -> torch.Tensor:
    """A third of the value of the others, by mistake a quarter."""
    weights: torch.Tensor = quarter(rewards, k)
    return weights


@baseline("s_i", level=lambda at: Fraction(0))
def broken(rewards: torch.Tensor, k: int) -> torch.Tensor:
    """What raises."""
    raise RuntimeError("broken")


@estimator("twice the baseline's weights", biased="twice as long", scale=lambda n, k: 2.0)
def doubled(rewards: torch.Tensor, k: int, baseline_weights: Any) -> torch.Tensor:
    """Twice what the baseline gives."""
    weights: torch.Tensor = 2.0 * baseline_weights(rewards, k)
    return weights


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "maxk_lab.baselines": ("halved", "quarter", "not_a_third", "broken"),
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
    assert choose_baseline("quarter").row.meaning == "a quarter of the value of the others"
    assert Method.parse("maxk", "quarter", 2).refusal(2) == (
        "quarter needs 1 <= K < n, got K = 2 and n = 2"
    )


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("pair", "failing", "checked"),
    [
        (("maxk", "halved"), set(), {"bias seen", "unbiased but for scale"}),
        (("maxk", "quarter"), set(), {"brute force", "unbiased"}),
        (("reinforce", "not_a_third"), {"brute force"}, {"brute force", "unbiased"}),
        (("maxk", "broken"), {"brute force", "unbiased"}, {"brute force", "unbiased"}),
        (("doubled", "centred"), set(), {"bias seen", "unbiased but for scale"}),
    ],
)
def test_rows_of_other_packages_are_checked(
    pair: tuple[str, str], failing: set[str], checked: set[str]
) -> None:
    from maxk_lab.estimators.check.run import check_pair

    results = check_pair(*pair)
    assert {result.name for result in results} == checked
    assert {result.name for result in results if not result.ok} == failing
    if "broken" in pair:
        assert all("RuntimeError: broken" in result.detail for result in results)


def test_a_function_becomes_a_row_with_nothing_said() -> None:
    def my_own(rewards: torch.Tensor, k: int) -> torch.Tensor:
        return rewards - rewards.mean()

    row = baseline()(my_own)
    assert (row.name, row.constraint, row.unbiased) == ("my_own", "1 <= K <= n", True)
    assert row.implementation.endswith(":my_own")


def test_every_baseline_of_the_project_has_its_definition() -> None:
    for row in BASELINES:
        for spelling in (row.name, *row.examples):
            method = Method.parse("maxk", spelling)
            assert has_definition(method) is not method.is_token_level
