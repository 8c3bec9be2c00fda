"""The trainer learns, shows all weightings the same data, and no interruption changes a number."""

import pytest
import torch
from small_environments import make

from maxk_lab.calls import Leaving
from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.seeds import derive_seed
from maxk_lab.training.batch import METRICS, SCHEDULE_METRICS
from maxk_lab.training.evaluation import sample_rewards
from maxk_lab.training.settings import KScheduleSettings, Settings, Weighting, check
from maxk_lab.training.step import Step
from maxk_lab.training.trainer import Trainer, train, warm_up

# Every option that has a state of its own.
OPTIONS = {
    "steps": 13,
    "batch": 16,
    "learning_rate": 0.05,
    "inner_epochs": 2,
    "kl": {"place": "loss", "type": "k3", "reference": "moving", "reference_every": 3},
    "checkpoint_every": 4,
    "evaluate": {"every": 5, "instances": 3, "samples": 4},
}

RLOO = Weighting("reinforce", "centred", 4, 1)


def trainer(environment, weighting=RLOO, seed=7, **options):
    settings = Settings.from_mapping({**OPTIONS, **options})
    return Trainer.start(Step(environment, settings, weighting), environment.policy(0), seed=seed)


def run(started, environment, **keywords):
    held_out = torch.arange(3)
    train(
        started,
        evaluate=lambda policy, step: sample_rewards(environment, policy, held_out, 4, step),
        **keywords,
    )
    return started


def same(a, b):
    """Equal in everything but the time taken."""
    for x, y in zip(a.policy.parameters(), b.policy.parameters(), strict=True):
        assert torch.equal(x, y)
    assert repr(a.log) == repr(b.log)  # NaN included
    assert [e.step for e in a.evaluations] == [e.step for e in b.evaluations]
    for x, y in zip(a.evaluations, b.evaluations, strict=True):
        assert torch.equal(x.rewards, y.rewards)


def test_a_training_left_at_any_step_goes_on_to_the_same_numbers(sequences, tmp_path):
    environment, path = sequences(), tmp_path / "training.pt"
    run(halfway := trainer(environment, steps=6), environment, checkpoint=path)
    assert [e.step for e in halfway.evaluations] == [0, 5, 6]
    assert torch.load(path, weights_only=True)["steps"] == 6
    path.unlink()
    rare = {"checkpoint_every": 1000}
    whole = run(trainer(environment), environment)
    started, times = trainer(environment, **rare), 0
    while started.steps < 13:
        started, times = trainer(environment, **rare), times + 1
        if path.exists():
            started.load(torch.load(path, weights_only=True))
        with pytest.raises(Leaving):
            run(started, environment, checkpoint=path, leaving=lambda: True)
        assert started.steps == times
    same(run(started, environment, checkpoint=path, leaving=lambda: True), whole)


def test_a_moving_anchor_is_the_policy_of_its_last_renewal(sequences):
    environment = sequences()
    started = trainer(environment)
    snapshots = []
    for _ in range(7):
        snapshots.append(started.policy.logits.detach().clone())
        started.advance()
    assert torch.equal(started.anchor.logits, snapshots[6])
    started.advance()
    assert torch.equal(started.anchor.logits, snapshots[6])
    frozen = trainer(environment, kl={"place": "loss"})
    for _ in range(4):
        frozen.advance()
    assert torch.equal(frozen.anchor.logits, snapshots[0])
    assert trainer(environment, kl={}).anchor is None


def test_all_weightings_of_a_seed_see_the_same_instances(sequences):
    seen = []
    for weighting in (RLOO, Weighting("maxk", "subloo", 4, 3)):
        environment = sequences()
        run(trainer(environment, weighting), environment)
        seen.append(environment.seen)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 13
    environment = sequences()
    run(trainer(environment, seed=8), environment)
    assert not set(environment.seen) & set(seen[0])


def test_training_changes_no_global_random_state(sequences):
    environment = sequences()
    before = torch.random.get_rng_state()
    run(trainer(environment), environment)
    assert torch.equal(torch.random.get_rng_state(), before)


def exact(environment, policy, k):
    actions, rewards = environment.enumerate(torch.arange(1))
    with torch.no_grad():
        log_probs = environment.log_probs(policy, torch.arange(1), actions.unsqueeze(0))[0]
    return float(exact_value(log_probs.exp(), rewards, k))


@pytest.mark.parametrize(
    "weighting",
    [RLOO, Weighting("maxk", "subloo", 4, 3), Weighting("reinforce", "otb_token", 4, 1)],
    ids=lambda w: f"{w.baseline}-{w.k}",
)
def test_training_improves_the_value_it_is_for(sequences, weighting):
    environment = sequences()
    started = trainer(environment, weighting, steps=40, kl={}, inner_epochs=1)
    before = exact(environment, started.policy, weighting.k)
    run(started, environment)
    assert exact(environment, started.policy, weighting.k) > before + 0.2


def test_mistakes_are_told_before_the_first_step(sequences):
    environment = sequences()
    with pytest.raises(
        LabError, match=r"batch must be a multiple of every n.*evaluate.samples must be at least 5"
    ):
        trainer(environment, Weighting("maxk", "subloo", 5, 5))
    assert environment.seen == []


def test_a_loss_that_is_not_finite_names_its_step(sequences):
    calls = []

    def reward(actions):
        calls.append(1)
        size = 1e308 if len(calls) == 3 else 1.0
        return torch.full(actions.shape[:-1], size, dtype=torch.float64)

    environment = sequences(reward=reward)
    started = trainer(environment, Weighting("reinforce", "none", 4, 1), kl={}, batch=64)
    with pytest.raises(FloatingPointError, match=r"the training loss is -inf at step 1"):
        run(started, environment)


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
    assert [schedule.at(step, k) for step in range(7)] == expected
    assert schedule.all(7, k) == sorted(set(expected))


def test_a_training_that_ends_on_the_way_needs_the_k_it_comes_to_and_its_own():
    assert KScheduleSettings(kind="linear").all(14, 9) == [1, 2, 9]
    assert KScheduleSettings(kind="step", first=2).all(10, 4) == [2, 4]
    assert KScheduleSettings(until=10**9).all(10**9, 4) == [4]


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


def warmed_up(environment, steps, **options):
    options = {"batch": 8, "n": 8, "learning_rate": 1e-2, "clip": 1.0, "seed": 5} | options
    return warm_up(environment, environment.policy(0), steps=steps, **options)


@pytest.mark.parametrize("name", ["bandit", "tsp"])
def test_a_warm_up_is_reinforce_with_a_leave_one_out_mean(name):
    """Its first steps by hand: plain policy gradient on the data of (seed, step), clipped."""
    environment = make(name, **{"num_loc": 5} if name == "tsp" else {})
    warmed = warmed_up(environment, 3)
    train(warmed)
    policy = environment.policy(0)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for step in range(3):
        seed = derive_seed("warmup", 5, step)
        instances = environment.instances(8, derive_seed("instances", seed))
        rollouts = environment.rollout(policy, instances, 8, seed=derive_seed("rollouts", seed))
        log_probs = environment.log_probs(policy, instances, rollouts.actions)
        weights = advantages(rollouts.rewards, estimator="reinforce", baseline="centred", k=1)
        optimizer.zero_grad()
        (-(weights.to(log_probs) * log_probs).sum(-1).mean()).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    for mine, by_hand in zip(warmed.policy.parameters(), policy.parameters(), strict=True):
        torch.testing.assert_close(mine, by_hand, rtol=1e-5, atol=1e-6)
