"""The curves are the unbiased ρ̂ of each instance; extras are measured, or have a reason."""

import pytest
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


@pytest.mark.parametrize("name", ["tsp", "smtwtp"])
def test_the_extras_are_measured_or_have_a_reason(name):
    environment = make(name, "float32", **({"num_loc": 6} if name == "tsp" else {"num_job": 5}))
    instances, policy = environment.instances(4, 1), environment.policy(0)
    extras = tuple(WAYS) if name == "tsp" else ("greedy", "augmentation")
    evaluate = EvaluationSettings(extras=extras, samples=6)
    rewards = decoded(
        environment, policy, instances, evaluate, temperatures=(), seed=1, extras_seed=2
    )
    if name == "smtwtp":
        assert rewards["greedy"].shape == (4,)
        assert "no coordinates to rotate" in rewards["greedy_augmented"]
        return
    assert {values.dtype for values in rewards.values()} == {torch.float64}
    assert {key: tuple(values.shape) for key, values in rewards.items()} == (
        dict.fromkeys(EXTRAS, (4,)) | {"forced": (4, 6)}
    )
    # The unturned copy is one of the eight.
    for greedy in ("greedy", "greedy_multistart"):
        assert (rewards[f"{greedy}_augmented"] >= rewards[greedy] - 1e-6).all()
    forced = sample_rewards(environment.forced_starts(), policy, instances, 6, 2)
    assert torch.equal(rewards["multistart_sampling"], forced.amax(1))
