"""Claims: the points that they speak of, and values that are arithmetic."""

import pytest

from maxk_lab.sweep_file.claims import Claim, evaluate_value

ARMS = "environment.arms"
POINTS = [
    {"estimator": "maxk", "baseline": baseline, "n": n, "k": 2, "stage": 0, "setting": {ARMS: arms}}
    for baseline in ("none", "centred", "subloo")
    for n in (2, 8)
    for arms in (4, 8)
    if baseline != "centred" or n > 2
]
OPTIMA = [
    {"estimator": "maxk", "baseline": "none", "n": k, "k": k, "setting": {ARMS: 4}}
    for k in (1, 2, 4)
]
SETTING = {ARMS: 4, "policy.success_probability": 0.25, "environment.rewards": "binary"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("k**2 * success_probability * (1 - success_probability)**(2*k - 1) / n",
         4 * 0.25 * 0.75**3 / 8),
        ("n ** 0.5", 8**0.5),
        ("arms - n", -4.0),
        ("-2 ** 2", -4.0),
        (0.5, 0.5),
        ("-(n + k) * 2 / 4", -5.0),
        ("1e-3", 0.001),
    ],
)  # fmt: skip
def test_values_may_use_settings_and_powers(value, expected):
    for setting in (SETTING, tuple(SETTING.items())):
        assert evaluate_value(value, 8, 2, setting) == expected


SNR = {"kind": "ratio", "metric": "snr", "at_most": 1.0}
ALL = ("subloo", "centred", "none")
ALONG = [{"baseline": name} for name in ALL]
BOTH = [{"setting": {ARMS: arms}} for arms in (4, 8)]


@pytest.mark.parametrize(
    ("claim", "points", "rows"),
    [
        ({"kind": "equals", "metric": "scale", "value": 1, "tolerance": 1,
          "where": {"setting": {ARMS: 8}, "n": 8}}, POINTS,
         [[(name, 8, 8)] for name in ("none", "centred", "subloo")]),
        # All is equal but what differs; a row of an order is whole: centred needs K < n.
        (SNR | dict(zip(("of", "over"), ALONG)), POINTS,
         [[("subloo", 8, arms), ("centred", 8, arms)] for arms in (4, 8)]),
        (SNR | dict(zip(("of", "over"), BOTH)), POINTS,
         [[(name, n, 4), (name, n, 8)]
          for name, n in [("none", 2), ("none", 8), ("centred", 8), ("subloo", 2), ("subloo", 8)]]),
        ({"kind": "order", "metric": "variance", "along": ALONG}, POINTS,
         [[(name, 8, arms) for name in ALL] for arms in (4, 8)]),
        # An optimum, whose n is its K, is compared across K.
        ({"kind": "order", "metric": "optimum", "along": [{"k": k} for k in (1, 2, 4)]}, OPTIMA,
         [[("none", k, 4) for k in (1, 2, 4)]]),
    ],
)  # fmt: skip
def test_the_points_of_a_claim(claim, points, rows):
    parsed = Claim.model_validate({"name": "c"} | claim)
    met = [[(p["baseline"], p["n"], p["setting"][ARMS]) for p in row]
           for row in parsed.points(points)]  # fmt: skip
    assert met == rows
    assert parsed.study == ("objective" if points is OPTIMA else "gradient")
