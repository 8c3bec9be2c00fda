"""The K of every step on its way to the study's, and a training that follows it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab.errors import LabError
from maxk_lab.training.refusals import Weighting, check, schedule_refusal
from maxk_lab.training.schedule import scheduled_k, scheduled_ks
from maxk_lab.training.settings import KScheduleSettings, Settings
from maxk_lab.training.step.metrics import METRICS, SCHEDULE_METRICS
from maxk_lab.training.step.step import Step
from maxk_lab.training.trainer import Trainer


@pytest.mark.parametrize(
    ("kind", "first", "until", "k", "expected"),
    [
        ("fixed", 1, 4, 8, [8] * 7),
        ("linear", 1, 4, 9, [1, 3, 5, 7, 9, 9, 9]),
        ("linear", 8, 3, 2, [8, 6, 4, 2, 2, 2, 2]),
        ("linear", 1, 4, 3, [1, 2, 2, 2, 3, 3, 3]),
        ("step", 1, 3, 8, [1, 1, 1, 8, 8, 8, 8]),
    ],
)
def test_the_k_of_every_step(kind, first, until, k, expected):
    schedule = KScheduleSettings(kind=kind, first=first, until=until)
    assert [scheduled_k(schedule, k, step) for step in range(7)] == expected
    assert list(scheduled_ks(schedule, k, 7)) == sorted(set(expected))


def test_a_training_that_ends_on_the_way_needs_the_k_it_comes_to_and_its_own():
    assert [*scheduled_ks(KScheduleSettings(kind="linear"), 9, 14)] == [1, 2, 9]
    assert [*scheduled_ks(KScheduleSettings(kind="step", first=2), 4, 10)] == [2, 4]


@given(
    kind=st.sampled_from(["fixed", "linear", "step"]),
    first=st.integers(1, 40),
    until=st.integers(1, 60),
    k=st.integers(1, 40),
    steps=st.integers(0, 80),
)
def test_every_k_of_a_schedule_is_found_without_going_through_its_steps(
    kind, first, until, k, steps
):
    schedule = KScheduleSettings(kind=kind, first=first, until=until)
    stepped = {scheduled_k(schedule, k, step) for step in range(steps)}
    assert [*scheduled_ks(schedule, k, steps)] == sorted({k, *stepped})


def test_a_schedule_of_very_many_steps_takes_no_time():
    schedule = KScheduleSettings(kind="linear", first=1, until=10**9)
    assert [*scheduled_ks(schedule, 64, 10**9)] == [*range(1, 65)]
    weighting = Weighting("maxk", "centred", 8, 2)
    far = KScheduleSettings(kind="linear", first=10**6, until=10**9)
    refused = schedule_refusal(weighting, far, 10**9)
    assert "comes by K = 8: " in refused


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            {"kind": "liner"},
            "k_schedule.kind must be one of fixed, linear, step, got 'liner' "
            "(did you mean linear?)",
        ),
        ({"kind": "step", "first": 0}, "k_schedule.first must be at least 1, got 0"),
        ({"kind": "step", "until": 0}, "k_schedule.until must be at least 1, got 0"),
        (
            {"kind": "step", "first": 8},
            "k_schedule comes by K = 8: centred needs 1 <= K < n, got K = 8 and n = 8",
        ),
        ({"kind": "linear", "first": 9}, "k_schedule comes by K = 8: "),
    ],
)
def test_a_schedule_that_cannot_be_run_is_refused(schedule, message):
    with pytest.raises(LabError) as caught:
        check(Settings.from_mapping({"k_schedule": schedule}), Weighting("maxk", "centred", 8, 2))
    assert message in str(caught.value)


def test_an_estimator_with_a_k_of_its_own_has_no_schedule_to_mind():
    settings = Settings.from_mapping({"k_schedule": {"kind": "step", "first": 8}})
    with pytest.raises(LabError, match="comes by K = 8"):
        check(settings, Weighting("maxk", "centred", 8, 1))
    assert check(settings, Weighting("reinforce", "centred", 8, 1)) is None


def trained(environment, k, **settings):
    settings = Settings.from_mapping({"steps": 4, "batch": 16, "learning_rate": 0.05, **settings})
    trainer = Trainer.start(
        Step(environment, settings, Weighting("maxk", "centred", 4, k)),
        environment.policy(0),
        seed=3,
    )
    for _ in range(4):
        trainer.advance()
    return trainer


def test_every_step_trains_for_its_k(sequences):
    environment = sequences()
    scheduled = trained(environment, 3, k_schedule={"kind": "linear", "first": 1, "until": 2})
    assert set(scheduled.log) == set(METRICS) | set(SCHEDULE_METRICS)
    assert scheduled.log["k"] == [1, 2, 3, 3]
    # The same four steps, each by a method for its own K.
    by_hand = trained(environment, 3)
    policy = environment.policy(0)
    by_hand.policy.load_state_dict(policy.state_dict())
    again = Trainer.start(by_hand.one_step, policy, seed=3)
    for k in (1, 2, 3, 3):
        again.one_step = by_hand.one_step.at(k)
        again.advance()
    assert torch.equal(again.policy.logits, scheduled.policy.logits)
    assert "k" not in again.log
    assert not torch.equal(trained(environment, 3).policy.logits, scheduled.policy.logits)
