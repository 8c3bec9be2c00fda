"""Labelled extras of an evaluation: those asked for, with their rewards or a reason for none."""

import torch

from maxk_lab.environments.environment import make_environment
from maxk_lab.training.evaluation import sample_rewards
from maxk_lab.training.extras import measure_extras

ALL = ("greedy", "augmentation", "multistart", "multistart_augmentation")


def measured(environment, instances, names=ALL):
    found = measure_extras(environment, environment.policy(0), instances, names, samples=6, seed=2)
    return dict(found)


def test_an_environment_without_them_says_so(sequences):
    found = measured(sequences(), torch.arange(3))
    assert list(found) == [
        "greedy", "greedy_augmented", "greedy_multistart", "multistart_sampling",
        "greedy_multistart_augmented",
    ]  # fmt: skip
    assert found["greedy"] == "this environment has no greedy decoding"
    assert found["multistart_sampling"] == "this environment has no forced starts"


def test_only_what_is_asked_for_is_measured(sequences):
    assert measured(sequences(), torch.arange(3), ()) == {}
    assert list(measured(sequences(), torch.arange(3), ("greedy",))) == ["greedy"]


def test_the_extras_of_a_routing_problem():
    environment = make_environment(
        {"name": "tsp", "num_loc": 6},
        {
            "embed_dim": 16,
            "num_encoder_layers": 1,
            "num_heads": 2,
            "feedforward_hidden": 16,
            "dtype": "float32",
        },
    )
    instances = environment.instances(4, 1)
    found = measured(environment, instances)
    assert all(
        rewards.shape == (4,) and rewards.dtype == torch.float64 for rewards in found.values()
    )
    # The unturned copy is one of the eight.
    assert (found["greedy_augmented"] >= found["greedy"] - 1e-6).all()
    assert (found["greedy_multistart_augmented"] >= found["greedy_multistart"] - 1e-6).all()
    policy = environment.policy(0)
    forced = sample_rewards(environment.forced_starts(), policy, instances, 6, 2)
    assert torch.equal(found["multistart_sampling"], forced.amax(1))
