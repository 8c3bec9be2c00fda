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
    "steps": 5,
    "batch": 16,
    "learning_rate": 0.05,
    "inner_epochs": 2,
    "kl": {"place": "loss", "type": "k3"},
    "checkpoint_every": 4,
    "evaluate": {"every": 2, "instances": 3, "samples": 4},
}
PLAIN = {"kl": {}, "inner_epochs": 1}
RLOO = Weighting("reinforce", "centred", 4, 1)


def start(environment, weighting=RLOO, **options):
    settings = Settings.from_mapping({**OPTIONS, **options})
    return Trainer.start(Step(environment, settings, weighting), environment.policy(0), seed=7)


def run(trainer, environment, **keywords):
    held_out = torch.arange(3)
    train(
        trainer,
        evaluate=lambda policy, step: (sample_rewards(environment, policy, held_out, 4, step), {}),
        **keywords,
    )
    return trainer


def test_a_training_left_at_any_step_goes_on_to_the_same_numbers(sequences, tmp_path):
    environment, path = sequences(), tmp_path / "training.pt"
    run(halfway := start(environment, steps=3), environment, checkpoint=path)
    assert [evaluation.step for evaluation in halfway.evaluations] == [0, 2, 3]
    assert torch.load(path, weights_only=True)["steps"] == 3
    path.unlink()
    rare = {"checkpoint_every": 1000}
    uninterrupted = run(start(environment), environment)
    trainer, times = start(environment, **rare), 0
    while trainer.steps < 5:
        trainer, times = start(environment, **rare), times + 1
        if path.exists():
            trainer.load(torch.load(path, weights_only=True))
        with pytest.raises(Leaving):
            run(trainer, environment, checkpoint=path, leaving=lambda: True)
        assert trainer.steps == times
    run(trainer, environment, checkpoint=path, leaving=lambda: True)
    assert torch.equal(trainer.policy.logits, uninterrupted.policy.logits)
    assert repr(trainer.log) == repr(uninterrupted.log)  # NaN included
    for mine, expected in zip(trainer.evaluations, uninterrupted.evaluations, strict=True):
        assert mine.step == expected.step
        assert torch.equal(mine.rewards, expected.rewards)


def test_the_anchor_is_the_initial_policy(sequences):
    environment = sequences()
    trainer, resumed = start(environment), start(environment)
    trainer.advance()
    resumed.load(trainer.state())
    initial = environment.policy(0).logits
    assert torch.equal(resumed.anchor.logits, initial)
    assert torch.equal(trainer.anchor.logits, initial)
    assert not torch.equal(resumed.policy.logits, initial)
    assert start(environment, kl={}).anchor is None


def exact(environment, policy, k):
    _, rewards, log_probs, _ = environment.every(policy)
    return exact_value(log_probs.sum(-1).exp(), rewards, k).item()


def test_training_improves_the_value_it_is_for_and_no_global_random_state(sequences):
    environment, weighting = sequences(), Weighting("maxk", "subloo", 4, 3)
    trainer = start(environment, weighting, steps=12, learning_rate=0.2, **PLAIN)
    before, state = exact(environment, trainer.policy, 3), torch.random.get_rng_state()
    train(trainer)
    assert exact(environment, trainer.policy, 3) > before + 0.2
    assert torch.equal(torch.random.get_rng_state(), state)


def test_mistakes_are_refused_before_the_first_step(sequences):
    environment = sequences()
    problems = r"batch must be a multiple of every n.*evaluate.samples must be at least 5"
    with pytest.raises(LabError, match=problems):
        start(environment, Weighting("maxk", "subloo", 5, 5))
    assert environment.seen == []


def test_every_step_trains_for_its_k(sequences):
    """The same four steps, each by a method for its own K."""
    environment, weighting = sequences(), Weighting("maxk", "centred", 4, 3)
    schedule = {"kind": "step", "first": 1, "until": 2}
    scheduled = start(environment, weighting, k_schedule=schedule, **PLAIN)
    by_hand, fixed = (start(environment, weighting, **PLAIN) for _ in range(2))
    method = by_hand.one_step
    for k in (1, 1, 3, 3):
        by_hand.one_step = method.at(k)
        for trainer in (scheduled, by_hand, fixed):
            trainer.advance()
    assert set(scheduled.log) == set(METRICS) | set(SCHEDULE_METRICS)
    assert scheduled.log["k"] == [1, 1, 3, 3]
    assert "k" not in by_hand.log
    reinforce = Weighting("reinforce", "centred", 4, 3)
    mean = start(environment, reinforce, k_schedule=schedule | {"first": 2}, **PLAIN)
    mean.advance()
    assert mean.log["k"] == [1]  # for any K of the grid
    assert torch.equal(by_hand.policy.logits, scheduled.policy.logits)
    assert not torch.equal(fixed.policy.logits, scheduled.policy.logits)


@pytest.mark.parametrize(("name", "parameters"), [("bandit", {}), ("tsp", {"num_loc": 5})])
def test_a_warm_up_is_reinforce_with_a_leave_one_out_mean(name, parameters):
    """Its first steps by hand: plain policy gradient on the data of (seed, step), clipped."""
    environment = make(name, **parameters)
    policy, initial = environment.policy(0), environment.policy(0)
    options = {"batch": 4, "n": 4, "learning_rate": 1e-2, "clip": 1.0, "seed": 5}
    warmed = warm_up(environment, initial, steps=2, **options)
    train(warmed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for step in range(2):
        seed = derive_seed("warmup", 5, step)
        instances = environment.instances(4, derive_seed("instances", seed))
        rollouts = environment.rollout(policy, instances, 4, seed=derive_seed("rollouts", seed))
        log_probs = environment.log_probs(policy, instances, rollouts.actions)
        weights = advantages(rollouts.rewards, estimator="reinforce", baseline="centred", k=1)
        optimizer.zero_grad()
        (-(weights.to(log_probs) * log_probs).sum(-1).mean()).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    for mine, by_hand in zip(warmed.policy.parameters(), policy.parameters(), strict=True):
        torch.testing.assert_close(mine, by_hand, rtol=1e-5, atol=1e-6)
