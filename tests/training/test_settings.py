"""Settings: defaults that are unbiased, and every mistake told at once before the first step."""

from typing import get_args

import pytest

from maxk_lab.errors import LabError
from maxk_lab.estimators import WEIGHT_NORMALIZATIONS
from maxk_lab.training.settings import (
    EvaluationSettings,
    Settings,
    Weighting,
    WeightNormalization,
    check,
)

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
    assert (settings.start, settings.reward_scale, settings.k_schedule.kind) == (
        "iid",
        1.0,
        "fixed",
    )
    assert (settings.reward_clip, settings.inner_epochs, settings.entropy_bonus) == (None, 1, 0.0)


def test_every_normalization_of_weights_can_be_asked_for():
    assert get_args(WeightNormalization) == tuple(WEIGHT_NORMALIZATIONS)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"loss": {"aggregation": "fixed"}}, "loss.divisor is missing: the aggregation fixed"),
        (
            {"batch": 20},
            "batch must be a multiple of every n of the grid; 8 does not divide 20; "
            "the nearest that fit all: 16 and 24",
        ),
        ({"batch": 4}, "8 does not divide 4; the nearest that fit all: 8"),
        (
            {"steps": 5, "snapshots": [0, 5, 6]},
            "snapshots must be at most 5, the steps of a training, got 6",
        ),
        (
            {"evaluate": {"temperatures": [2.0, 1.5]}},
            "evaluate.temperatures must hold 1, the policy as it was trained, got 2.0, 1.5",
        ),
        (
            {"evaluate": {"tuning": 64}},
            "evaluate.tuning 64 has nothing to choose between: "
            "give several temperatures, or extras",
        ),
        (
            {"steps": 300, "evaluate": {"every": 100, "last": 4}},
            "evaluate.last must be at most 3, the evaluations of a training of 300 steps "
            "without that of step 0, got 4",
        ),
    ],
)
def test_each_mistake_is_named(mapping, message):
    """Settings are the same model in a sweep file, whose tests hold the other mistakes."""
    assert message in complaints(**mapping)


def test_all_mistakes_are_told_at_once():
    text = complaints(
        Weighting("maxk", "subloo", 8, 9), batch=9, loss={"divisor": 2.0}, evaluate={"samples": 4}
    )
    for part in ("maxk needs", "batch must be", "loss.divisor is read", "must be at least 9"):
        assert part in text
    text = complaints(steps=0, loss={"dual_clip": 0.5}, evaluat={})
    for part in ("steps must be", "loss.dual_clip must be", "unknown key 'evaluat'"):
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
        assert "otb_token gives one per token" in complaints(token, **mapping)
    for how, lost in (("zscore", "has no standard deviation"), ("sum_to_zero", "is left with the")):
        text = complaints(Weighting("reinforce", "none", 1, 1), weight_normalization=how)
        assert text.startswith(
            f"weight_normalization {how} needs every n of the grid to be at least 2"
        )
        assert f"a group of one {lost}" in text
    binary = Weighting("maxrl", "none", 8, 1)
    check(Settings(), binary)
    lost = "leaves no rewards of 0 and 1, which maxrl needs"
    assert f"kl.place reward {lost}; place it" in complaints(binary, kl={"place": "reward"})
    assert f"reward_scale 2.0 {lost}" in complaints(binary, reward_scale=2.0)
    assert f"reward_clip [-1.0, 0.5] {lost}" in complaints(binary, reward_clip=(-1, 0.5))
    check(Settings(reward_clip=(0.0, 1.0)), binary)


@pytest.mark.parametrize(
    "baseline", ["affine[oracle]", "ladder[oracle]", "constant[oracle]", "joint_optimum"]
)
def test_baselines_of_the_whole_policy_are_not_trained_with(baseline):
    assert f"{baseline} is fitted by complete enumeration" in complaints(
        Weighting("maxk", baseline, 8, 2)
    )


def test_cross_fitting_needs_another_instance():
    weighting = Weighting("maxk", "ladder[cross_fit]", 8, 2)
    wanted = "ladder[cross_fit] is fitted on other instances: batch / n must be at least 2, got 1"
    assert complaints(weighting, batch=8) == wanted
    check(Settings.from_mapping({"batch": 16}), weighting)
    check(Settings.from_mapping({"batch": 8}), Weighting("maxk", "ladder[same_batch]", 8, 2))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ({"ratio": "token"}, "loss.ratio must be sequence for off_policy_maxk, "),
        (
            {"aggregation": "seq_mean"},
            "loss.aggregation must be seq_sum or fixed for off_policy_maxk",
        ),
        ({"aggregation": "token_mean"}, "of whole trajectories; got token_mean"),
        ({"dual_clip": 3.0}, "loss.dual_clip must be null for off_policy_maxk"),
    ],
)
def test_off_policy_weights_are_of_whole_sequences_and_clip_nothing(loss, message):
    weighting = Weighting("off_policy_maxk", "centred", 8, 2)
    assert message in complaints(weighting, loss=loss)
    check(Settings.from_mapping({"inner_epochs": 4}), weighting)
    check(Settings.from_mapping({"loss": {"aggregation": "fixed", "divisor": 2.0}}), weighting)


@pytest.mark.parametrize(
    ("steps", "every", "last", "after", "at_the_end"),
    [
        (7, 3, 1, (0, 3, 6, 7), (7,)),
        (7, 3, 2, (0, 3, 6, 7), (6, 7)),
        (6, 3, 2, (0, 3, 6), (3, 6)),
        (2, 3, 1, (0, 2), (2,)),
    ],
)
def test_the_end_is_the_last_evaluations_without_the_untrained_one(
    steps, every, last, after, at_the_end
):
    evaluate = EvaluationSettings(every=every, last=last)
    assert evaluate.after(steps) == after
    assert evaluate.at_the_end(steps) == at_the_end
