"""`run_checks` passes, covers every row, and fails where a row is wrong."""

from __future__ import annotations

import dataclasses

import pytest

from maxk_lab.catalogue import Catalogue
from maxk_lab.errors import LabError
from maxk_lab.estimators import catalogue
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline
from maxk_lab.estimators.check.run import check_pair, check_tokens, run_checks


@pytest.mark.slow
@pytest.mark.deep
def test_everything_holds_and_every_row_is_covered() -> None:
    results = run_checks()
    assert [result for result in results if not result.ok] == []
    rows = " ".join(result.row for result in results)
    for row in (*BASELINES, *ESTIMATORS):
        assert row.name in rows


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The pairs that a run checks; nothing is computed for them."""
    pairs: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "maxk_lab.estimators.check.run.check_pair",
        lambda estimator, baseline: pairs.append((estimator, baseline)) or [],
    )
    return pairs


def test_one_estimator(checked: list[tuple[str, str]]) -> None:
    run_checks("reinforce")
    assert ("reinforce", "centred") in checked
    assert {estimator for estimator, _ in checked} == {"reinforce"}
    with pytest.raises(LabError, match="did you mean reinforce"):
        run_checks("reinforc")


def test_the_examples_of_a_form_of_objective_are_checked_with_what_the_others_are_sums_of(
    checked: list[tuple[str, str]],
) -> None:
    run_checks("top_m[3]")
    assert {baseline for _, baseline in checked} == {"none", "centred", "subloo"}
    checked.clear()
    run_checks("top_m")
    of_any = [choose_baseline(row.name).name for row in BASELINES if row.any_objective]
    assert sorted(checked) == sorted(("top_m[2]", baseline) for baseline in of_any)


def test_one_baseline(checked: list[tuple[str, str]]) -> None:
    rows = {result.row for result in run_checks(estimator="maxk", baseline="subloo")}
    assert checked == [("maxk", "subloo")]
    # What all rows share is checked, too.
    assert "reinforce / otb_token" in rows
    checked.clear()
    run_checks(baseline="subloo")
    # reinforce has K = 1, where subloo does not exist; the order statistics have it.
    assert {("maxk", "subloo"), ("median", "subloo")} <= set(checked)
    assert ("reinforce", "subloo") not in checked
    assert {baseline for _, baseline in checked} == {"subloo"}
    with pytest.raises(LabError, match="did you mean subloo"):
        run_checks(baseline="sublo")


@pytest.mark.parametrize(
    ("name", "changes", "failing"),
    [
        ("group_mean", {"biased": ""}, "unbiased"),
        ("centred", {"biased": "not at all"}, "bias seen"),
        ("group_mean", {"scale": lambda n, k: 1.0}, "unbiased but for scale"),
        ("centred", {"function": BASELINES.get("group_mean").function}, "brute force"),
        ("opo", {"biased": ""}, "unbiased"),
        ("eob_loo", {"function": BASELINES.get("eob").function}, "unbiased"),
    ],
)
def test_a_wrong_row_fails(
    name: str, changes: dict[str, object], failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [dataclasses.replace(row, **changes) if row.name == name else row for row in BASELINES]
    monkeypatch.setattr(catalogue, "BASELINES", Catalogue("baseline", rows, "maxk_lab.nothing"))
    assert failing in {result.name for result in check_pair("maxk", name) if not result.ok}


@pytest.mark.parametrize(
    ("name", "changes", "failing"),
    [
        ("grpo", {"scale": lambda n, k: 1.0}, "unbiased but for scale"),
        ("grpo", {"biased": ""}, "unbiased"),
        ("leader_reward", {"biased": ""}, "unbiased"),
    ],
)
def test_a_wrong_estimator_fails(
    name: str, changes: dict[str, object], failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [dataclasses.replace(row, **changes) if row.name == name else row for row in ESTIMATORS]
    monkeypatch.setattr(catalogue, "ESTIMATORS", Catalogue("estimator", rows, "maxk_lab.nothing"))
    assert failing in {result.name for result in check_pair(name, "none") if not result.ok}


def test_tokens_are_checked() -> None:
    (result,) = check_tokens()
    assert result.ok
    assert (result.name, result.row) == ("bias seen", "reinforce / otb_token")
