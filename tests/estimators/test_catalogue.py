"""The catalogue: spellings, limits that agree with the functions, rows of other packages, and no torch."""

from __future__ import annotations

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
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, BaselineRow, choose_baseline, refusal

PAIRS = [(e.name, spelling) for e in ESTIMATORS for b in BASELINES for spelling in (b.name, *b.examples)]


@pytest.mark.parametrize(("estimator", "baseline"), PAIRS)
def test_every_pair_runs_exactly_where_the_catalogue_says(estimator: str, baseline: str) -> None:
    function, choice = load(ESTIMATORS.get(estimator).implementation), choose_baseline(baseline)
    base = partial(load(choice.row.implementation), **choice.params)
    for n in (1, 2, 3, 5):
        rewards = torch.randn(2, n, generator=torch.Generator().manual_seed(n))
        for k in range(1, n + 2):
            if refusal(estimator, baseline, n, k) is None:
                weights = function(rewards, k, base, stable_sort=True)
                assert weights.shape == rewards.shape
                assert weights.dtype == rewards.dtype
                assert torch.isfinite(weights).all()
                assert torch.equal(weights, advantages(rewards, estimator=estimator, baseline=baseline, k=k))
            else:
                with pytest.raises(ValueError, match="must be"):
                    function(rewards, k, base, stable_sort=True)


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
        "import sys, maxk_lab.estimators, maxk_lab.estimators.catalogue as c;"
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
