"""Settings: defaults that are unbiased, and every mistake told at once before the first step."""

import re

import pytest

from maxk_lab.errors import LabError
from maxk_lab.training.settings import Settings, Weighting, check

RLOO = Weighting("reinforce", "centred", 8, 1)


def complaints(weighting=RLOO, **mapping):
    with pytest.raises(LabError) as caught:
        check(Settings.from_mapping(mapping), weighting)
    return str(caught.value)


def test_the_defaults_are_fine_and_bend_nothing():
    settings = Settings.from_mapping({})
    check(settings, RLOO)
    assert settings.kl.place == "none"
    assert settings.loss.aggregation == "seq_sum"
    assert (settings.weight_normalization, settings.min_gap_scale) == ("none", None)
    assert not settings.normalize_advantages
    assert (settings.start, settings.reward_scale, settings.k_schedule.kind, settings.amp) == (
        "iid",
        1.0,
        "fixed",
        False,
    )
    assert (settings.reward_clip, settings.inner_epochs, settings.entropy_bonus) == (None, 1, 0.0)


def test_blocks_are_filled_in():
    settings = Settings.from_mapping(
        {"kl": {"place": "loss"}, "loss": {"ratio": "token"}, "reward_clip": [0, 1]}
    )
    assert (settings.kl.place, settings.kl.type, settings.loss.ratio) == ("loss", "k1", "token")
    assert settings.loss.epsilon_low == 0.2
    assert settings.reward_clip == (0, 1)
    assert hash(settings) == hash(
        Settings.from_mapping(
            {"kl": {"place": "loss"}, "loss": {"ratio": "token"}, "reward_clip": [0, 1]}
        )
    )


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"batchs": 3}, "unknown training setting 'batchs' (did you mean batch?)"),
        ({"kl": {"bata": 3}}, "unknown training setting 'bata' (did you mean beta?)"),
    ],
)
def test_unknown_keys_are_refused(mapping, message):
    with pytest.raises(LabError, match=re.escape(message)):
        Settings.from_mapping(mapping)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (
            {"kl": {"place": "los"}},
            "kl.place must be one of none, reward, loss, got 'los' (did you mean loss?)",
        ),
        ({"kl": {"beta": float("nan")}}, "kl.beta must be at least 0, got nan"),
        ({"loss": {"aggregation": "fixed"}}, "loss.divisor must be given for aggregation fixed"),
        ({"loss": {"dual_clip": 1.0}}, "loss.dual_clip must be greater than 1, got 1.0"),
        ({"loss": {"epsilon_low": 1.0}}, "loss.epsilon_low must be less than 1, got 1.0"),
        ({"reward_clip": [1, 0]}, "reward_clip must be [low, high] with low < high, got [1, 0]"),
        ({"reward_order": ["kl"]}, "reward_order must name clip and kl once each, got ['kl']"),
        ({"truncated": "mask"}, "truncated must be one of keep, mask_loss, mask_all, got 'mask'"),
        ({"max_grad_norm": 0.0}, "max_grad_norm must be greater than 0, got 0.0"),
        ({"batch": 20}, "n must divide batch: 20 / 8; the nearest batch is 16 or 24"),
        ({"batch": 4}, "n must divide batch: 4 / 8; the nearest batch is 8"),
        ({"reward_scale": 0.0}, "reward_scale must be greater than 0, got 0.0"),
        ({"device": "gpu"}, "device must be one of auto, cpu, cuda, got 'gpu'"),
        (
            {"steps": 5, "snapshots": [0, 5, 6]},
            "snapshots must be steps from 0 to steps = 5, got [6]",
        ),
        (
            {"evaluate": {"extras": ["greedi"]}},
            "evaluate.extras must be one of greedy, augmentation, multistart, got 'greedi' (did you mean greedy?)",
        ),
        (
            {"evaluate": {"reference": "milp"}},
            "evaluate.reference must be one of auto, none, exact, pyvrp, got 'milp'",
        ),
        ({"evaluate": {"samples": 0}}, "evaluate.samples must be at least 1, got 0"),
    ],
)
def test_each_mistake_is_named(mapping, message):
    assert message in complaints(**mapping)


def test_all_mistakes_are_told_at_once():
    text = complaints(
        Weighting("maxk", "subloo", 8, 9), batch=9, loss={"dual_clip": 0.5}, evaluate={"samples": 4}
    )
    for part in (
        "subloo needs" if "subloo needs" in text else "maxk needs",
        "n must divide batch",
        "dual_clip",
        "at least k = 9",
    ):
        assert part in text


def test_pairs_that_cannot_run_are_refused():
    assert "centred needs 1 <= K < n, got K = 8 and n = 8" in complaints(
        Weighting("maxk", "centred", 8, 8)
    )
    with pytest.raises(LabError, match=r"unknown baseline 'centered' \(did you mean centred\?\)"):
        check(Settings(), Weighting("maxk", "centered", 8, 1))


def test_options_that_a_pair_has_no_meaning_for_are_refused():
    token = Weighting("reinforce", "otb_token", 8, 1)
    check(Settings(), token)
    for mapping in ({"weight_normalization": "zscore"}, {"min_gap_scale": 0.1}):
        assert "otb_token gives one weight per token" in complaints(token, **mapping)
    binary = Weighting("maxrl", "none", 8, 1)
    check(Settings(), binary)
    assert "maxrl needs rewards of 0 and 1" in complaints(binary, kl={"place": "reward"})
    assert "maxrl needs rewards of 0 and 1: no reward_scale, got 2.0" in complaints(
        binary, reward_scale=2.0
    )
    assert "no reward_clip between them, got [-1, 0.5]" in complaints(binary, reward_clip=(-1, 0.5))
    check(Settings(reward_clip=(0.0, 1.0)), binary)


@pytest.mark.parametrize(
    "baseline", ["affine[oracle]", "ladder[oracle]", "constant[oracle]", "joint_optimum"]
)
def test_baselines_of_the_whole_policy_are_not_trained_with(baseline):
    assert f"{baseline} is computed from the whole policy" in complaints(
        Weighting("maxk", baseline, 8, 2)
    )


def test_cross_fitting_needs_another_instance():
    weighting = Weighting("maxk", "ladder[cross_fit]", 8, 2)
    wanted = "ladder[cross_fit] is fitted on the other instances of a batch: batch must be at least 2 n = 16, got 8"
    assert complaints(weighting, batch=8) == wanted
    check(Settings.from_mapping({"batch": 16}), weighting)
    check(Settings.from_mapping({"batch": 8}), Weighting("maxk", "ladder[same_batch]", 8, 2))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ({"ratio": "token"}, "loss.ratio must be sequence, got token"),
        ({"aggregation": "seq_mean"}, "loss.aggregation must be seq_sum or fixed, got seq_mean"),
        (
            {"aggregation": "token_mean"},
            "loss.aggregation must be seq_sum or fixed, got token_mean",
        ),
        ({"dual_clip": 3.0}, "off_policy_maxk clips no ratio: no loss.dual_clip, got 3.0"),
    ],
)
def test_off_policy_weights_are_of_whole_sequences_and_clip_nothing(loss, message):
    weighting = Weighting("off_policy_maxk", "centred", 8, 2)
    assert message in complaints(weighting, loss=loss)
    check(Settings.from_mapping({"inner_epochs": 4}), weighting)
    check(Settings.from_mapping({"loss": {"aggregation": "fixed", "divisor": 2.0}}), weighting)
