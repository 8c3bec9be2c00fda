"""Claims of the newer kinds: settings as regions, arithmetic, orders, and the unmeasured."""

from __future__ import annotations

import pytest

from maxk_lab.errors import LabError
from maxk_lab.sweeps.spec.arithmetic import evaluate_value
from maxk_lab.sweeps.spec.claims import EqualsClaim, OrderClaim, RatioClaim

POINTS = [
    {"estimator": "maxk", "baseline": baseline, "n": n, "k": 2, "stage": 0,
     "setting": {"environment.arms": arms}}
    for baseline in ("none", "centred", "subloo")
    for n in (2, 8)
    for arms in (4, 8)
    if baseline != "centred" or n > 2
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "k**2 * success_probability * (1 - success_probability)**(2*k - 1) / n",
            4 * 0.25 * 0.75**3 / 8,
        ),
        ("n ** 0.5", 8**0.5),
        ("arms - n", -4.0),
        ("-2 ** 2", -4.0),
        (0.5, 0.5),
        ("-(n + k) * 2 / 4", -5.0),
        ("1e-3", 0.001),
    ],
)
def test_values_may_use_settings_and_powers(value: float | str, expected: float) -> None:
    setting = {
        "environment.arms": 4,
        "policy.success_probability": 0.25,
        "environment.rewards": "binary",
    }
    assert evaluate_value(value, 8, 2, setting) == expected
    assert evaluate_value(value, 8, 2, tuple(setting.items())) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *(
            (value, "must be a number or arithmetic in n, k, arms such as")
            for value in (
                "rewards",
                "n // k",
                "__import__('os')",
                "n if k else 1",
                "",
                "1 -",
                "n.real",
                "'a' * 9",
                "True",
            )
        ),
        ("9**9**9**9", "'9**9**9**9' is not finite at n = 8, k = 2, arms = 4"),
        ("(0 - 1)**0.5", "is not a real number at n = 8, k = 2"),
        ("0**(0 - 1)", "divides by zero at n = 8, k = 2"),
    ],
)
def test_values_that_are_none(value: str, words: str) -> None:
    with pytest.raises(LabError) as caught:
        evaluate_value(value, 8, 2, {"environment.arms": 4, "environment.rewards": "binary"})
    assert words in str(caught.value)


def test_a_region_of_settings() -> None:
    claim = EqualsClaim.model_validate(
        {"name": "c", "kind": "equals", "metric": "scale", "value": 1, "tolerance": 1}
        | {"where": {"setting": {"environment.arms": 8}, "n": (8,)}}
    )
    met = [point for (point,) in claim.points(POINTS)]
    assert [(p["baseline"], p["n"], p["setting"]) for p in met] == [
        (baseline, 8, {"environment.arms": 8}) for baseline in ("none", "centred", "subloo")
    ]


def test_pairs_have_the_same_setting_unless_it_is_what_differs() -> None:
    both = {"name": "c", "kind": "ratio", "metric": "snr", "at_most": 1.0}
    baselines = RatioClaim.model_validate(
        both | {"of": {"baseline": "subloo"}, "over": {"baseline": "centred"}}
    )
    found = list(baselines.points(POINTS))
    assert len(found) == 2
    for of, over in found:
        assert (of["baseline"], over["baseline"]) == ("subloo", "centred")
        assert (of["n"], of["setting"]) == (over["n"], over["setting"])
    arms = [{"setting": {"environment.arms": value}} for value in (4, 8)]
    settings = RatioClaim.model_validate(both | {"of": arms[0], "over": arms[1]})
    found = list(settings.points(POINTS))
    assert len(found) == 5
    for of, over in found:
        assert (of["setting"]["environment.arms"], over["setting"]["environment.arms"]) == (4, 8)
        assert (of["baseline"], of["n"]) == (over["baseline"], over["n"])


def test_rows_of_an_order_are_whole() -> None:
    claim = OrderClaim.model_validate(
        {"name": "c", "kind": "order", "metric": "variance"}
        | {"along": [{"baseline": name} for name in ("subloo", "centred", "none")]}
    )
    found = list(claim.points(POINTS))
    # centred needs K < n, so n = 2 has no whole row.
    assert [tuple(point["baseline"] for point in row) for row in found] == [
        ("subloo", "centred", "none")
    ] * 2
    assert {row[0]["n"] for row in found} == {8}
    assert all(row[0]["setting"] == row[1]["setting"] == row[2]["setting"] for row in found)


def test_an_optimum_is_compared_across_k() -> None:
    points = [{"estimator": "maxk", "baseline": "none", "n": k, "k": k} for k in (1, 2, 4)]
    claim = OrderClaim.model_validate(
        {"name": "c", "kind": "order", "metric": "optimum", "along": [{"k": 1}, {"k": 2}, {"k": 4}]}
    )
    assert claim.study == "objective"
    assert [[point["k"] for point in row] for row in claim.points(points)] == [[1, 2, 4]]
