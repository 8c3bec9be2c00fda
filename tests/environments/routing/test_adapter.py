"""The RL4CO adapter against RL4CO itself, and against the traps it exists to avoid."""

import pytest
import torch
from small_environments import make

from maxk_lab.errors import LabError


@pytest.fixture(scope="module")
def tsp5():
    return make("tsp", num_loc=5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 7])
def test_teacher_forcing_gives_the_log_probability_of_the_rollout_bit_for_bit(dtype, n):
    environment = make("tsp", dtype, num_loc=8)
    policy, instances = environment.policy(1), environment.instances(3, 2)
    rollouts = environment.rollout(policy, instances, n, seed=3)
    assert rollouts.log_probs.dtype == getattr(torch, dtype)
    assert torch.equal(
        environment.log_probs(policy, instances, rollouts.actions), rollouts.log_probs
    )


def test_every_trajectory_belongs_to_its_own_instance(tsp5):
    policy, instances = tsp5.policy(0), tsp5.instances(4, 1)
    rollouts = tsp5.rollout(policy, instances, 6, seed=2)
    for b in range(4):
        locs = instances["locs"][b]
        for i in range(6):
            tour = locs[rollouts.actions[b, i]]
            length = (tour - tour.roll(-1, 0)).norm(dim=-1).sum()
            assert rollouts.rewards[b, i].item() == pytest.approx(-length.item(), abs=1e-12)


def test_too_many_trajectories_are_refused():
    environment = make("tsp", num_loc=20)
    assert not environment.enumerable
    with pytest.raises(LabError, match="too many trajectories"):
        environment.enumerate(environment.instances(1, 0))


def test_instances_are_not_changed_by_use(tsp5):
    policy, instances = tsp5.policy(0), tsp5.instances(2, 1)
    copy = instances.clone()
    rollouts = tsp5.rollout(policy, instances, 3, seed=2)
    tsp5.log_probs(policy, instances, rollouts.actions)
    assert set(instances.keys()) == set(copy.keys())
    assert all(torch.equal(instances[key], copy[key]) for key in set(copy.keys()))


def test_rollouts_agree_with_rl4co_own_decoding(tsp5):
    policy, instances = tsp5.policy(0), tsp5.instances(2, 1)
    rollouts = tsp5.rollout(policy, instances, 3, seed=2)
    with torch.no_grad():
        out = policy(
            instances.clone(),
            tsp5.env,
            phase="train",
            actions=rollouts.actions.transpose(0, 1).reshape(6, -1),
            num_samples=3,
            return_entropy=True,
        )
    torch.testing.assert_close(out["entropy"].view(3, 2).T, rollouts.entropy)
    torch.testing.assert_close(out["reward"].view(3, 2).T, rollouts.rewards)
    assert torch.equal(rollouts.lengths, torch.full((2, 3), 5))


def test_the_score_of_one_instance_does_not_depend_on_the_others(tsp5):
    policy, instances = tsp5.policy(0), tsp5.instances(3, 1)
    actions = tsp5.rollout(policy, instances, 2, seed=2).actions
    parameters = list(policy.parameters())

    def score(values):
        how = {"allow_unused": True, "materialize_grads": True}
        return torch.cat([g.ravel() for g in torch.autograd.grad(values[0, 0], parameters, **how)])

    together = score(tsp5.log_probs(policy, instances, actions))
    alone = score(tsp5.log_probs(policy, tsp5.select(instances, 0), actions[:1]))
    torch.testing.assert_close(together, alone, rtol=1e-9, atol=1e-11)
