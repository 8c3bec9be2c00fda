"""The softmax bandit: its samples, its proxy and its isolation from the global random state."""

import torch

from maxk_lab.environments.protocol import make_environment


def bandit(arms=6):
    return make_environment(
        {"name": "bandit", "arms": arms, "reward_shift": -2.0}, {"init_std": 1.0, "dtype": "float64"}
    )


def test_samples_follow_the_policy():
    environment = bandit()
    policy = environment.policy(0)
    rollouts = environment.rollout(policy, environment.instances(1, 1), 40_000, seed=2)
    frequency = torch.bincount(rollouts.actions.flatten(), minlength=6) / 40_000
    torch.testing.assert_close(frequency.double(), policy().exp().detach(), atol=0.015, rtol=0)


def test_the_logit_proxy_is_the_exact_squared_score_norm():
    environment = bandit()
    policy, instances = environment.policy(0), environment.instances(2, 1)
    rollouts = environment.rollout(policy, instances, 5, seed=2)
    log_probs = environment.log_probs(policy, instances, rollouts.actions)
    for value, proxy in zip(log_probs.flatten(), rollouts.logit_proxy.flatten()):
        (score,) = torch.autograd.grad(value, [policy.logits], retain_graph=True)
        torch.testing.assert_close(score.square().sum(), proxy, rtol=1e-12, atol=1e-12)


def test_global_random_state_is_kept():
    state = torch.get_rng_state()
    environment = bandit()
    first = environment.rollout(environment.policy(0), environment.instances(2, 1), 5, seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    second = environment.rollout(environment.policy(0), environment.instances(2, 1), 5, seed=2)
    assert torch.equal(first.actions, second.actions)


def test_rewards_belong_to_the_arms_drawn():
    environment = bandit()
    instances = environment.instances(3, 1)
    rollouts = environment.rollout(environment.policy(0), instances, 50, seed=2)
    assert torch.equal(rollouts.rewards, instances.gather(1, rollouts.actions[..., 0]))
    assert rollouts.rewards.mean() < 0
