"""Studies that vary settings: each stands for itself in rows, tables, figures and claims."""

import pytest

from maxk_lab.reports.naming import environment_label, setting_of, setting_words, short_names
from maxk_lab.studies.gradient.pool import key

ARMS = "environment.num_loc"


@pytest.fixture(scope="module")
def varied(lab):
    """(cells, records): at 9 places `none` has the lowest variance, at 4 `centred`; 9 is first."""
    cells = lab.vary(lab.cells(baselines=("none", "centred"), ns=(8, 16), ks=(2,)), ARMS, (9, 4))
    noise = {(9, "none"): 1.0, (9, "centred"): 4.0, (4, "none"): 9.0, (4, "centred"): 3.0}
    return cells, [lab.record(c, noise=noise[c["setting"][ARMS], c["baseline"]]) for c in cells]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "verdict", "said"),
    [
        (
            {"kind": "ratio", "metric": "variance", "of": {"baseline": "none"},
             "over": {"baseline": "centred"},
             "at_most": 0.5, "where": {"setting": {ARMS: 9}}},
            "supported",
         "stage0/num_loc=9/maxk/none/n8/k2 over stage0/num_loc=9/maxk/centred/n8/k2",
        ),
        (
            {"kind": "ratio", "metric": "variance", "of": {"baseline": "none"},
             "over": {"baseline": "centred"},
             "at_most": 0.5},
            "refuted", "2 of 4 ratios",
        ),
        (
            {"kind": "ratio", "metric": "variance", "of": {"setting": {ARMS: 4}},
             "over": {"setting": {ARMS: 9}},
             "at_least": 5, "where": {"baseline": "none"}},
            "supported", "stage0/num_loc=4/maxk/none/n8/k2 over stage0/num_loc=9/maxk/none/n8/k2",
        ),
        (
            {"kind": "order", "metric": "variance",
             "along": [{"setting": {ARMS: 9}}, {"setting": {ARMS: 4}}],
             "where": {"baseline": "none"}},
            "supported", "2 of 2 ratios",
        ),
        (
            {"kind": "equals", "metric": "scale", "value": "num_loc / num_loc",
             "relative_tolerance": 0.2},
            "supported", "claimed 1.00 ± 0.2",
        ),
    ],
)  # fmt: skip
def test_claims_speak_of_settings(lab, varied, claim, verdict, said):
    found, detail = lab.judged(*varied, **claim)
    assert (found, said in detail) == (verdict, True), detail


def test_words():
    setting = (
        ("environment.arms", 8),
        ("behaviour.distance", 0.25),
        ("environment.rewards", "linear"),
    )
    assert setting_words(setting) == "arms=8, distance=0.25, rewards=linear"
    assert setting_words(()) == ""
    assert short_names(["policy.scale", "environment.scale", "policy.mean"]) == {
        "policy.scale": "policy.scale",
        "environment.scale": "environment.scale",
        "policy.mean": "mean",
    }


def test_what_is_varied_is_no_part_of_the_environment_s_label():
    cell = {"environment": {"name": "tsp", "num_loc": 8}, "setting": {"policy.embed_dim": 4}}
    assert environment_label(cell) == "tsp(num_loc=8)"
    assert environment_label(cell | {"setting": {ARMS: 9}}) == "tsp"
    assert setting_of(cell) == (("policy.embed_dim", 4),)
    point = {"stage": 0, "estimator": "maxk", "baseline": "none", "n": 8, "k": 2}
    for told in ({}, {"behaviour.distance": 0.5}):
        off_policy = cell | point | {"behaviour": {"distance": 0.5}}
        off_policy["setting"] = cell["setting"] | told
        assert key(off_policy).setting == (("policy.embed_dim", 4), ("behaviour.distance", 0.5))
