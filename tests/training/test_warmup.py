"""The warm-up learns, and an interrupted one goes on to the same numbers."""

import copy

import pytest
import torch

from maxk_lab.calls import Leaving
from maxk_lab.environments.environment import make_environment
from maxk_lab.training.warmup import WarmUp, train_until

SETTINGS = {"batch": 8, "n": 8, "clip": 1.0, "seed": 5}


def tsp():
    policy = {
        "embed_dim": 16,
        "num_encoder_layers": 1,
        "num_heads": 2,
        "feedforward_hidden": 16,
        "dtype": "float32",
    }
    return make_environment({"name": "tsp", "num_loc": 8}, policy)


@pytest.mark.slow
def test_the_warm_up_shortens_the_tours():
    environment = tsp()
    warmup = WarmUp.start(environment.policy(0), 3e-3)
    instances = environment.instances(32, 9)
    before = environment.rollout(warmup.policy, instances, 16, seed=1).rewards.mean().item()
    train_until(warmup, environment, 60, **SETTINGS)
    after = environment.rollout(warmup.policy, instances, 16, seed=1).rewards.mean().item()
    assert after > before + 0.2


def test_an_interrupted_warm_up_goes_on_to_the_same_numbers():
    environment = tsp()
    whole = WarmUp.start(environment.policy(0), 1e-3)
    train_until(whole, environment, 6, **SETTINGS)
    first = WarmUp.start(environment.policy(0), 1e-3)
    train_until(first, environment, 2, **SETTINGS)
    second = WarmUp.start(environment.policy(0), 1e-3)
    second.load(copy.deepcopy(first.state()))
    train_until(second, environment, 6, **SETTINGS)
    assert second.step == 6
    for a, b in zip(whole.policy.parameters(), second.policy.parameters()):
        assert torch.equal(a, b)


def test_a_warm_up_is_left_after_a_step_but_not_after_the_last():
    environment = tsp()
    warmup = WarmUp.start(environment.policy(0), 1e-3)
    with pytest.raises(Leaving):
        train_until(warmup, environment, 2, **SETTINGS, leaving=lambda: True)
    assert warmup.step == 1
    train_until(warmup, environment, 2, **SETTINGS, leaving=lambda: True)
    assert warmup.step == 2


def test_every_step_is_reported():
    steps = []
    environment = tsp()
    train_until(
        WarmUp.start(environment.policy(0), 1e-3),
        environment,
        3,
        **SETTINGS,
        on_step=lambda i, of: steps.append((i, of)),
    )
    assert steps == [(1, 3), (2, 3), (3, 3)]
