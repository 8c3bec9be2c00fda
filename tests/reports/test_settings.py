"""The settings that a sweep varies, in words."""

from maxk_lab.reports.naming import environment_label, setting_of, setting_words, short_names
from maxk_lab.studies.gradient.pool import key


def test_words_of_settings_are_as_short_as_they_are_clear():
    setting = {"environment.arms": 8, "behaviour.distance": 0.25, "environment.rewards": "linear"}
    assert setting_words(tuple(setting.items())) == "arms=8, distance=0.25, rewards=linear"
    assert setting_words(()) == ""
    assert short_names(["policy.scale", "environment.scale", "policy.mean"]) == {
        "policy.scale": "policy.scale",
        "environment.scale": "environment.scale",
        "policy.mean": "mean",
    }


def test_a_varied_key_is_left_out_of_the_environment_s_label():
    cell = {"environment": {"name": "tsp", "num_loc": 8}, "setting": {"policy.embed_dim": 4}}
    assert environment_label(cell) == "tsp(num_loc=8)"
    assert environment_label(cell | {"setting": {"environment.num_loc": 9}}) == "tsp"
    assert setting_of(cell) == (("policy.embed_dim", 4),)
    point = {"stage": 0, "estimator": "maxk", "baseline": "none", "n": 8, "k": 2}
    for varied in ({}, {"behaviour.distance": 0.5}):
        off_policy = cell | point | {"behaviour": {"distance": 0.5}}
        off_policy["setting"] = cell["setting"] | varied
        assert key(off_policy).setting == (("policy.embed_dim", 4), ("behaviour.distance", 0.5))
