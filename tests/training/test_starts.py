"""Trajectories that start as POMO's do, and their refusal where the environment has none."""

import dataclasses

import pytest
import torch

from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError
from maxk_lab.seeds import derive_seed
from maxk_lab.training.refusals import Weighting
from maxk_lab.training.settings import Settings
from maxk_lab.training.step.step import Step
from maxk_lab.training.trainer import Trainer

RLOO = Weighting("reinforce", "centred", 5, 1)


def started(environment, **settings):
    settings = Settings.from_mapping({"batch": 10, "start": "multistart", **settings})
    return Trainer.start(Step(environment, settings, RLOO), environment.policy(0), seed=0)


def test_an_environment_without_forced_starts_is_refused_before_the_first_step(sequences):
    environment = sequences()
    with pytest.raises(
        LabError, match="start multistart: this environment has no forced starts; use iid"
    ):
        started(environment)
    assert environment.seen == []


def test_unknown_starts_are_refused():
    with pytest.raises(LabError, match=r"start must be one of iid, multistart, got 'multi'"):
        Settings.from_mapping({"start": "multi"})


def tsp(dtype="float32"):
    return make_environment(
        {"name": "tsp", "num_loc": 5},
        {
            "embed_dim": 16,
            "num_encoder_layers": 1,
            "num_heads": 2,
            "feedforward_hidden": 16,
            "dtype": dtype,
        },
    )


def test_training_draws_forced_starts_only_when_told_to():
    forced = started(tsp())
    forced.advance()
    assert forced.log["length/mean"] == [4]
    plain = started(tsp(), start="iid")
    plain.advance()
    assert plain.log["length/mean"] == [5]


def test_the_gradient_norms_of_forced_trajectories_leave_out_the_forced_action():
    environment, seen = tsp(), []

    def norms(where, policy, instances, actions):
        seen.append(where)
        assert torch.equal(actions[..., 0], torch.arange(5).expand(2, 5))
        return where.log_probs(policy, instances, actions).detach().square()

    settings = Settings.from_mapping({"batch": 10, "start": "multistart"})
    method = Step(environment, settings, Weighting("reinforce", "eob_loo", 5, 1), norms)
    Trainer.start(method, environment.policy(0), seed=0).advance()
    assert seen[0] is not environment


def test_the_group_mean_and_forced_starts_are_pomo():
    """The gradient of −mean((R − mean R) log π), over all starts of all instances."""
    environment = tsp("float64")
    trainer = started(environment)
    trainer.one_step = dataclasses.replace(
        trainer.one_step, weighting=Weighting("reinforce", "group_mean", 5, 1)
    )
    policy, seed = environment.policy(0), derive_seed("step", 0, 0)
    trainer.advance()
    instances = environment.instances(2, derive_seed("instances", seed))
    forced = environment.forced_starts()
    rollouts = forced.rollout(policy, instances, 5, seed=derive_seed("rollouts", seed))
    log_probs = forced.log_probs(policy, instances, rollouts.actions)
    advantage = rollouts.rewards - rollouts.rewards.mean(1, keepdim=True)
    (-(advantage * log_probs).mean()).backward()
    pairs = list(zip(policy.parameters(), trainer.policy.parameters(), strict=True))
    assert sum(expected.grad is not None and expected.grad.any() for expected, _ in pairs) > 10
    for expected, found in pairs:
        if expected.grad is not None:
            torch.testing.assert_close(found.grad, expected.grad, rtol=1e-6, atol=1e-9)
