"""Settings: defaults that are unbiased, and every mistake at once before the first step.

They are the same model in a sweep file, whose tests hold each mistake at its place.
"""

from typing import get_args

import pytest

from maxk_lab.errors import LabError
from maxk_lab.estimators.method import WEIGHT_NORMALIZATIONS
from maxk_lab.studies.training.row import biasing
from maxk_lab.training.settings import (
    EvaluationSettings,
    KScheduleSettings,
    Settings,
    Weighting,
    WeightNormalization,
    check,
)

RLOO = Weighting("reinforce", "centred", 8, 1)
OFF_POLICY = Weighting("off_policy_maxk", "centred", 8, 2)


def test_the_defaults_are_fine_and_bend_nothing():
    settings = Settings.from_mapping({})
    check(settings, RLOO)
    assert biasing(settings) == {}
    assert get_args(WeightNormalization) == tuple(WEIGHT_NORMALIZATIONS)


@pytest.mark.parametrize(
    ("weighting", "mapping", "messages"),
    [
        (RLOO, {"evaluate": {"temperatures": [2.0, 1.5]}},
         ["evaluate.temperatures must hold 1, the policy as it was trained, got 2.0, 1.5"]),
        (Weighting("maxk", "subloo", 8, 9),
         {"batch": 9, "loss": {"divisor": 2.0}, "evaluate": {"samples": 4}},
         ["maxk needs", "batch must be", "loss.divisor is read", "must be at least 9"]),
        (RLOO, {"steps": 0, "loss": {"epsilon_low": 1.5}, "evaluat": {}},
         ["steps must be", "loss.epsilon_low must be", "unknown key 'evaluat'"]),
        (Weighting("reinforce", "none", 1, 1), {"weight_normalization": "sum_to_zero"},
         ["weight_normalization sum_to_zero needs every n of the grid to be at least 2: "
          "a group of one is left with the weight 0"]),
        (Weighting("maxk", "ladder[cross_fit]", 8, 2), {},
         ["ladder[cross_fit] is fitted to gradients: gradient studies only"]),
        (Weighting("maxk", "centred", 8, 2), {"k_schedule": {"kind": "step", "first": 8}},
         ["k_schedule comes by K = 8: centred needs 1 <= K < n, got K = 8 and n = 8"]),
        # No problem.
        (Weighting("maxrl", "none", 8, 1), {"reward_clip": [0.0, 1.0]}, []),
        (OFF_POLICY, {"inner_epochs": 4}, []),
        (OFF_POLICY, {"loss": {"aggregation": "fixed", "divisor": 2.0}}, []),
    ],
)  # fmt: skip
def test_all_problems_are_in_one_message(weighting, mapping, messages):
    message = ""
    try:
        check(Settings.from_mapping(mapping), weighting)
    except LabError as error:
        message = str(error)
    assert [each for each in messages if each not in message] == []
    assert bool(message) == bool(messages)


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
    assert evaluate.final_steps(steps) == at_the_end


@pytest.mark.parametrize(
    ("kind", "first", "until", "k", "expected"),
    [
        ("fixed", 1, 4, 8, [8] * 7),
        ("step", 1, 3, 8, [1, 1, 1, 8, 8, 8, 8]),
        # A training that ends before the step needs the K of the grid, too.
        ("step", 2, 10**9, 4, [2] * 7),
    ],
)
def test_the_k_of_every_step(kind, first, until, k, expected):
    schedule = KScheduleSettings(kind=kind, first=first, until=until)
    assert [schedule.at(step, k) for step in range(7)] == expected
    assert schedule.all(k) == sorted({*expected, k})
