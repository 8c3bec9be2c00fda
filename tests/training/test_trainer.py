"""The trainer learns, shows all weightings the same data, and no interruption changes a number."""

import pytest
import torch

from maxk_lab.calls import Leaving
from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.training.evaluation import max_curves, sample_rewards
from maxk_lab.training.refusals import Weighting
from maxk_lab.training.settings import Settings
from maxk_lab.training.step.step import Step
from maxk_lab.training.trainer import Trainer, train

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


class KilledError(Exception):
    """What stops a training in the middle."""


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["frozen", "moving"])
def test_a_training_killed_at_any_step_goes_on_to_the_same_numbers(sequences, tmp_path, reference):
    kl = OPTIONS["kl"] | {"reference": reference}
    environment = sequences()
    whole = run(trainer(environment, kl=kl), environment)
    assert [e.step for e in whole.evaluations] == [0, 5, 10, 13]
    assert {len(values) for values in whole.log.values()} == {13}
    for last in range(1, 14) if reference == "moving" else (6,):
        path = tmp_path / f"{last}.pt"

        def stop(step, steps, last=last):
            if step == last:
                raise KilledError

        with pytest.raises(KilledError):
            run(trainer(environment, kl=kl), environment, checkpoint=path, on_step=stop)
        resumed = trainer(environment, kl=kl)
        state = torch.load(path, weights_only=True)
        assert state["steps"] == (last - 1) // 4 * 4
        resumed.load(state)
        same(run(resumed, environment, checkpoint=path), whole)
        # And the checkpoint of the end is the end.
        ended = trainer(environment, kl=kl)
        ended.load(torch.load(path, weights_only=True))
        same(run(ended, environment), whole)


def test_a_training_left_at_any_step_goes_on_to_the_same_numbers(sequences, tmp_path):
    environment, path = sequences(), tmp_path / "training.pt"
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


def test_training_a_bandit_for_the_maximum_improves_its_maximum():
    """A policy with a favourite arm must learn to try every arm: all instances are different."""
    environment = make_environment(
        {"name": "bandit", "arms": 6, "reward_shift": 0.0}, {"init_std": 2.0, "dtype": "float64"}
    )
    instances = environment.instances(200, 1, held_out=True)
    started = trainer(
        environment,
        Weighting("maxk", "subloo", 8, 8),
        steps=40,
        kl={},
        batch=64,
        evaluate={"samples": 8},
    )

    def value_at_8():
        rewards = sample_rewards(environment, started.policy, instances, 32, 2)
        return max_curves(rewards)[:, 7].mean().item()

    before = value_at_8()
    while started.steps < 40:
        started.advance()
    assert value_at_8() > before + 0.1


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
