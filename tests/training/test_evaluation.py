"""The curves are the unbiased ρ̂ of each instance; extras are measured, or have a reason."""

import torch
from small_environments import make

from maxk_lab.training.evaluation import decoded, max_curves, sample_rewards
from maxk_lab.training.settings import EXTRAS, WAYS, EvaluationSettings

NAN = torch.nan


def test_a_curve_is_pass_at_k_of_the_scorable_samples():
    """Instances with all of four samples scorable, two of them, none."""
    rewards = torch.tensor([[1, 0, 1, 0], [NAN, 1, NAN, 0], [NAN] * 4], dtype=torch.float64)
    expected = torch.tensor([[1 / 2, 5 / 6, 1, 1], [1 / 2, 1, NAN, NAN], [NAN] * 4])
    torch.testing.assert_close(max_curves(rewards), expected.double(), equal_nan=True)


def extras(environment, names):
    settings = EvaluationSettings(extras=names, samples=6)
    policy, instances = environment.policy(0), environment.instances(4, 1)
    return decoded(environment, policy, instances, settings, temperatures=(), seed=1, extras_seed=2)


def test_an_extra_that_cannot_be_measured_has_a_reason():
    rewards = extras(make("smtwtp", "float32", num_job=5), ("greedy", "augmentation"))
    assert rewards["greedy"].shape == (4,)
    assert "no coordinates to rotate" in rewards["greedy_augmented"]


def test_all_extras_of_a_routing_problem():
    environment = make("tsp", "float32", num_loc=6)
    rewards = extras(environment, tuple(WAYS))
    assert {values.dtype for values in rewards.values()} == {torch.float64}
    assert {key: tuple(values.shape) for key, values in rewards.items()} == (
        dict.fromkeys(EXTRAS, (4,)) | {"forced": (4, 6)}
    )
    # The unturned copy is one of the eight.
    for greedy in ("greedy", "greedy_multistart"):
        assert (rewards[f"{greedy}_augmented"] >= rewards[greedy] - 1e-6).all()
    policy, instances = environment.policy(0), environment.instances(4, 1)
    forced = sample_rewards(environment.forced_starts(), policy, instances, 6, 2)
    assert torch.equal(rewards["multistart_sampling"], forced.amax(1))
