"""`run_checks` passes, covers every row, and fails where a row is wrong."""

from __future__ import annotations

import dataclasses

import pytest

from maxk_lab.catalogue import Catalogue
from maxk_lab.estimators import catalogue
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline
from maxk_lab.estimators.check.run import check_pair, run_checks


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


def raises(*_: object, **__: object) -> None:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("pair", "changes", "failing"),
    [
        (("maxk", "centred"), {"level": lambda at: at.others.value()}, "brute force"),
        (("maxk", "centred"), {"function": raises}, "unbiased"),
        (("maxk", "group_mean"), {"biased": ""}, "unbiased"),
        (("maxk", "centred"), {"biased": "not at all"}, "bias seen"),
        (("maxk", "group_mean"), {"scale": lambda n, k: 1.0}, "unbiased up to scale"),
        (
            ("maxk", "centred"),
            {"function": BASELINES.get("group_mean").function},
            "brute force",
        ),
        (("maxk", "opo"), {"biased": ""}, "unbiased"),
        (("maxk", "eob_loo"), {"function": BASELINES.get("eob").function}, "unbiased"),
        (("grpo", "none"), {"scale": lambda n, k: 1.0}, "unbiased up to scale"),
        (("grpo", "none"), {"biased": ""}, "unbiased"),
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
        wrong = [dataclasses.replace(r, **changes) if r.name == changed else r for r in rows]
        monkeypatch.setattr(catalogue, name, Catalogue(rows.kind, wrong, "maxk_lab.nothing"))
    assert failing in {result.name for result in check_pair(*pair) if not result.ok}
