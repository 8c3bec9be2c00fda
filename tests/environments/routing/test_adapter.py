"""The RL4CO adapter against RL4CO itself, and against the traps it exists to avoid."""

import itertools

import pytest
import torch

from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError

POLICY = {
    "embed_dim": 16,
    "num_encoder_layers": 1,
    "num_heads": 2,
    "feedforward_hidden": 16,
    "dtype": "float64",
}


def tsp(num_loc, **policy):
    return make_environment({"name": "tsp", "num_loc": num_loc}, POLICY | policy)


@pytest.fixture(scope="module")
def tsp5():
    return tsp(5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 7])
def test_teacher_forcing_gives_the_log_probability_of_the_rollout_bit_for_bit(dtype, n):
    environment = tsp(8, dtype=dtype)
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
        alone = tsp5.select(instances, b)
        locs = alone["locs"][0]
        for i in range(6):
            tour = locs[rollouts.actions[b, i]]
            length = (tour - tour.roll(-1, 0)).norm(dim=-1).sum()
            assert rollouts.rewards[b, i].item() == pytest.approx(-length.item(), abs=1e-12)
        again = tsp5.log_probs(policy, alone, rollouts.actions[b : b + 1])
        torch.testing.assert_close(again[0], rollouts.log_probs[b], rtol=1e-12, atol=1e-12)


def test_samples_follow_the_enumerated_probabilities(tsp5):
    policy, instance = tsp5.policy(0), tsp5.instances(1, 5)
    listed, _ = tsp5.enumerate(instance)
    probabilities = tsp5.log_probs(policy, instance, listed.unsqueeze(0)).exp()[0].detach()
    actions = tsp5.rollout(policy, instance, 20_000, seed=6).actions[0]
    counts = (actions.unsqueeze(1) == listed).all(-1).sum(0)
    chi_square = (
        ((counts - 20_000 * probabilities).square() / (20_000 * probabilities)).sum().item()
    )
    # 119 degrees of freedom: mean 119, standard deviation 15.4. A forced first node would give more
    # than 4 000.
    assert 60 < chi_square < 200
    assert actions[:, 0].unique().numel() == 5


@pytest.mark.parametrize("num_loc", [5, 6, 7])
def test_enumeration_lists_every_tour_once_and_its_probabilities_sum_to_one(num_loc):
    environment = tsp(num_loc)
    instance = environment.instances(1, 0)
    listed, rewards = environment.enumerate(instance)
    assert sorted(map(tuple, listed.tolist())) == sorted(itertools.permutations(range(num_loc)))
    total = (
        environment.log_probs(environment.policy(0), instance, listed.unsqueeze(0))
        .exp()
        .sum()
        .item()
    )
    assert total == pytest.approx(1.0, abs=1e-12)
    assert rewards.max() < 0


def test_too_many_trajectories_are_refused():
    environment = tsp(20)
    assert not environment.enumerable
    with pytest.raises(LabError, match="too many trajectories"):
        environment.enumerate(environment.instances(1, 0))


def test_global_random_state_is_neither_read_nor_changed():
    def everything():
        environment = tsp(6)
        policy, instances = environment.policy(1), environment.instances(2, 2)
        return environment.rollout(policy, instances, 3, seed=3)

    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = everything()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    second = everything()
    assert torch.equal(first.rewards, second.rewards)
    assert torch.equal(first.actions, second.actions)


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
        gradients = torch.autograd.grad(values[0, 0], parameters, allow_unused=True)
        return torch.cat(
            [
                torch.zeros(p.numel()).double() if g is None else g.flatten()
                for g, p in zip(gradients, parameters)
            ]
        )

    together = score(tsp5.log_probs(policy, instances, actions))
    alone = score(tsp5.log_probs(policy, tsp5.select(instances, 0), actions[:1]))
    torch.testing.assert_close(together, alone, rtol=1e-9, atol=1e-11)
