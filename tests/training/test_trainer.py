"""The trainer learns, shows all weightings the same data, and no interruption changes a number."""

import pytest
import torch
from small_environments import make

from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.leaving import Leaving
from maxk_lab.seeds import derive_seed
from maxk_lab.training.batch import METRICS, SCHEDULE_METRICS
from maxk_lab.training.evaluation import sample_rewards
from maxk_lab.training.settings import Settings, Weighting
from maxk_lab.training.step import Step
from maxk_lab.training.trainer import Trainer, train, warm_up

# Every option that has a state of its own.
OPTIONS = {
    "steps": 13,
    "batch": 16,
    "learning_rate": 0.05,
    "inner_epochs": 2,
    "kl": {"place": "loss", "type": "k3"},
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
        evaluate=lambda policy, step: (sample_rewards(environment, policy, held_out, 4, step), {}),
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


def test_the_anchor_is_the_initial_policy(sequences):
    environment = sequences()
    started = trainer(environment)
    for _ in range(4):
        started.advance()
    initial = environment.policy(0).logits
    assert torch.equal(started.anchor.logits, initial)
    resumed = trainer(environment)
    resumed.load(started.state())
    assert torch.equal(resumed.anchor.logits, initial)
    assert not torch.equal(resumed.policy.logits, initial)
    assert trainer(environment, kl={}).anchor is None


def exact(environment, policy, k):
    actions, rewards = environment.enumerate(torch.arange(1))
    with torch.no_grad():
        log_probs = environment.log_probs(policy, torch.arange(1), actions.unsqueeze(0))[0]
    return float(exact_value(log_probs.exp(), rewards, k))


def test_training_improves_the_value_it_is_for_and_no_global_random_state(sequences):
    environment, weighting = sequences(), Weighting("maxk", "subloo", 4, 3)
    started = trainer(environment, weighting, steps=40, kl={}, inner_epochs=1)
    before, state = exact(environment, started.policy, weighting.k), torch.random.get_rng_state()
    run(started, environment)
    assert exact(environment, started.policy, weighting.k) > before + 0.2
    assert torch.equal(torch.random.get_rng_state(), state)


def test_mistakes_are_told_before_the_first_step(sequences):
    environment = sequences()
    with pytest.raises(
        LabError, match=r"batch must be a multiple of every n.*evaluate.samples must be at least 5"
    ):
        trainer(environment, Weighting("maxk", "subloo", 5, 5))
    assert environment.seen == []


def test_every_step_trains_for_its_k(sequences):
    """The same four steps, each by a method for its own K."""
    environment, own = sequences(), {"kl": {}, "inner_epochs": 1}
    weighting = Weighting("maxk", "centred", 4, 3)
    schedule = {"kind": "step", "first": 1, "until": 2}
    scheduled = trainer(environment, weighting, k_schedule=schedule, **own)
    by_hand, plain = (trainer(environment, weighting, **own) for _ in range(2))
    whole = by_hand.one_step
    for k in (1, 1, 3, 3):
        by_hand.one_step = whole.at(k)
        for each in (scheduled, by_hand, plain):
            each.advance()
    assert set(scheduled.log) == set(METRICS) | set(SCHEDULE_METRICS)
    assert scheduled.log["k"] == [1, 1, 3, 3]
    assert "k" not in by_hand.log
    assert torch.equal(by_hand.policy.logits, scheduled.policy.logits)
    assert not torch.equal(plain.policy.logits, scheduled.policy.logits)


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
