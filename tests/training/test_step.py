"""One step on a policy whose every trajectory is listed: its gradient is as the options promise."""

import math

import pytest
import torch
from small_environments import make

from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.estimators.by_name import usable_weights
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.seeds import derive_seed
from maxk_lab.training.batch import METRICS, OFF_POLICY_METRICS
from maxk_lab.training.evaluation import device_of, resolve_device
from maxk_lab.training.loss import kl_tokens, shape_rewards, surrogate
from maxk_lab.training.settings import LossSettings, Settings, Weighting
from maxk_lab.training.step import Step
from maxk_lab.training.trainer import Trainer

BATCH, N, SEED = 24, 4, 11

RLOO = Weighting("reinforce", "centred", N, 1)


def norms(environment, policy, instances, actions):
    """‖ψ‖² one by one."""
    log_probs = environment.log_probs(policy, instances, actions).flatten()
    scores = [
        torch.autograd.grad(x, policy.logits, retain_graph=True)[0].flatten() for x in log_probs
    ]
    return torch.stack(scores).square().sum(1).view(actions.shape[:2])


def take(environment, weighting=RLOO, policy=None, anchor=None, rate=1.0, **options):
    """The gradient that a step follows (plain descent with rate 1, nothing clipped) and its log."""
    settings = Settings.from_mapping({"batch": BATCH, "max_grad_norm": None, **options})
    policy = environment.policy(0) if policy is None else policy
    before = policy.logits.detach().clone()
    optimizer = torch.optim.SGD(policy.parameters(), lr=rate)
    step = Step(environment, settings, weighting)
    metrics = step.take(policy, optimizer, anchor, seed=SEED)
    return (before - policy.logits.detach()) / rate, metrics


def drawn(environment, policy):
    """The batch that the step draws."""
    instances = environment.instances(BATCH // N, derive_seed("instances", SEED))
    return instances, environment.rollout(policy, instances, N, seed=derive_seed("rollouts", SEED))


def gradient(value, policy):
    return torch.autograd.grad(value, policy.logits)[0]


def expected_gradient(environment, weights):
    """−mean over instances of Σ_i w_i ∇log π(y_i)."""
    policy = environment.policy(0)
    instances, rollouts = drawn(environment, policy)
    tokens = environment.tokens(policy, instances, rollouts.actions)
    terms = (
        weights.unsqueeze(-1) * tokens.log_probs
        if weights.dim() == 2
        else weights * tokens.log_probs
    )
    return gradient(-terms.sum() / len(instances), policy)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-10)


def binary(actions):
    return (actions[..., 0] == 1).double()


# Weights of every kind that a step makes: by group, by length, by gradient, by proxy.
PAIRS = [
    ("reinforce", "centred", 1),
    ("maxk", "subloo", 2),
    ("maxrl", "none", 1),
    ("reinforce", "opo_loo", 1),
    ("reinforce", "eob_loo", 1),
    ("reinforce", "otb_loo", 1),
]


@pytest.mark.parametrize(("estimator", "baseline", "k"), PAIRS)
def test_at_ratio_one_the_step_follows_the_weighted_scores(sequences, estimator, baseline, k):
    environment = sequences(reward=binary) if estimator == "maxrl" else sequences()
    policy = environment.policy(0)
    instances, rollouts = drawn(environment, policy)
    weights = advantages(
        rollouts.rewards,
        estimator=estimator,
        baseline=baseline,
        k=k,
        trajectory_weights={
            "length": rollouts.lengths.double(),
            "logit_proxy": rollouts.logit_proxy,
            "grad_norm": norms(environment, policy, instances, rollouts.actions),
        },
    )
    follows, metrics = take(environment, Weighting(estimator, baseline, N, k))
    expected = expected_gradient(environment, weights)
    assert expected.norm() > 1e-3
    close(follows, expected)
    assert metrics["grad_norm"] == pytest.approx(expected.norm().item(), rel=1e-7)
    assert (metrics["clip_ratio/low"], metrics["clip_ratio/high"]) == (0, 0)
    assert set(metrics) == set(METRICS)
    assert math.isnan(metrics["kl/token"])


@pytest.mark.parametrize(
    ("baseline", "k"), [("none", 1), ("none", 4), ("centred", 2), ("subloo", 4)]
)
def test_the_first_inner_epoch_is_on_policy(sequences, baseline, k):
    expected, plain = take(sequences(), Weighting("maxk", baseline, N, k))
    found, metrics = take(sequences(), Weighting("off_policy_maxk", baseline, N, k))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert set(metrics) == set(METRICS) | set(OFF_POLICY_METRICS)
    assert metrics["ess"] == 1
    assert metrics["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-12)


def test_further_inner_epochs_follow_the_weights_of_the_policy_as_it_is_then(sequences):
    environment, rate = sequences(), 3.0
    weighting = Weighting("off_policy_maxk", "subloo", N, 3)
    found, metrics = take(environment, weighting, inner_epochs=3, rate=rate)
    policy = environment.policy(0)
    instances, rollouts = drawn(environment, policy)
    start, shares = policy.logits.detach().clone(), []
    for _ in range(3):
        log_probs = environment.log_probs(policy, instances, rollouts.actions)
        ratios = (log_probs - rollouts.log_probs).exp().detach()
        shares.append((ratios.sum(1).square() / ratios.square().sum(1)).mean().item() / N)
        weights = weighting.method.weights(rollouts.rewards, ratios=ratios)
        step = gradient(-(weights * log_probs).sum() / len(instances), policy)
        with torch.no_grad():
            policy.logits -= rate * step
    torch.testing.assert_close(found, (start - policy.logits.detach()) / rate, rtol=0, atol=1e-12)
    assert min(shares) < 0.9
    assert metrics["ess"] == pytest.approx(sum(shares) / 3, rel=1e-9)


@pytest.mark.parametrize("baseline", ["none", "centred", "subloo"])
def test_the_second_inner_epoch_is_unbiased_for_the_moved_policy(sequences, baseline):
    """Over all groups of three sequences of the old policy, each with its chance."""
    environment, n, k = sequences(), 3, 2
    old, policy = environment.policy(0), environment.policy(1)
    listed, rewards = environment.enumerate(torch.arange(1))
    with torch.no_grad():
        before = environment.tokens(old, torch.arange(1), listed.unsqueeze(0)).log_probs[0]
    tokens = environment.tokens(policy, torch.arange(1), listed.unsqueeze(0))
    after, mask = tokens.log_probs[0], tokens.mask[0]
    groups = torch.cartesian_prod(*[torch.arange(len(listed))] * n)
    ratios = (after.detach() - before).sum(-1).exp()[groups]
    usable = torch.ones_like(groups, dtype=torch.bool)
    weighting = Weighting("off_policy_maxk", baseline, n, k)
    weights, _ = usable_weights(weighting.method, rewards[groups], usable, ratios=ratios)
    chance = before.sum(-1).exp()[groups].prod(1, keepdim=True) * len(groups)
    log_probs, settings = after[groups], LossSettings()
    found = surrogate(log_probs, before[groups], weights * chance, mask[groups], settings, ratios)
    objective = exact_value(after.sum(-1).exp(), rewards, k)
    follows = torch.autograd.grad(found.loss, policy.logits, retain_graph=True)[0]
    torch.testing.assert_close(follows, gradient(-objective, policy), rtol=0, atol=1e-12)


def test_a_policy_moved_out_of_reach_by_an_inner_epoch_is_an_error(sequences):
    environment = sequences()
    weighting = Weighting("off_policy_maxk", "none", N, 2)
    with pytest.raises(
        FloatingPointError, match=r"the ratio of a trajectory is 0\.0: the inner epochs"
    ):
        take(environment, weighting, inner_epochs=2, rate=1e5)


def test_unscorable_samples_leave_their_siblings_baselines(sequences):
    def reward(actions):
        values = sequences().reward(actions)
        values[..., 0, 1] = torch.nan
        values[..., 1, :] = torch.nan
        values[..., 2, :3] = torch.nan
        return values

    environment = sequences(reward=reward)
    _, rollouts = drawn(environment, environment.policy(0))
    weights = torch.zeros_like(rollouts.rewards)
    weights[0, [0, 2, 3]] = advantages(rollouts.rewards[0, [0, 2, 3]], k=1)
    weights[3:] = advantages(rollouts.rewards[3:], k=1)
    found, metrics = take(environment)
    close(found, expected_gradient(environment, weights))
    assert metrics["frac_unscorable"] == (1 + 4 + 3) / BATCH
    assert metrics["frac_unusable_groups"] == 2 / 6
    assert metrics["reward/mean"] == pytest.approx(rollouts.rewards.nanmean().item())


def test_truncated_completions_count_as_any_other(sequences):
    environment = sequences()
    _, rollouts = drawn(environment, environment.policy(0))
    assert 0 < rollouts.truncated.sum() < rollouts.truncated.numel()
    found, metrics = take(environment)
    close(found, expected_gradient(environment, advantages(rollouts.rewards, k=1)))
    assert metrics["frac_truncated"] == rollouts.truncated.double().mean().item()
    assert metrics["length/max"] == 3


@pytest.mark.parametrize("shape", ["bent rewards", "normalised"])
def test_rewards_are_shaped_before_and_advantages_normalised_after_the_weights(sequences, shape):
    environment = sequences()
    _, rollouts = drawn(environment, environment.policy(0))
    if shape == "normalised":
        options, weighting = {"normalize_advantages": True}, Weighting("reinforce", "none", N, 1)
        a = N * advantages(rollouts.rewards, baseline="none", k=1)
        weights, seen = (a - a.mean()) / (a.std() + 1e-4) / N, rollouts.rewards
    else:
        options, weighting = {"reward_scale": 3.0, "reward_clip": [1.5, 3.0]}, RLOO
        seen = (3 * rollouts.rewards).clamp(1.5, 3.0)
        weights = advantages(seen, k=1)
    found, metrics = take(environment, weighting, **options)
    close(found, expected_gradient(environment, weights))
    assert metrics["reward/mean"] == pytest.approx(rollouts.rewards.mean().item())
    assert metrics["reward_with_kl/mean"] == pytest.approx(seen.mean().item())
    assert metrics["advantage/mean"] == pytest.approx(N * weights.mean().item(), abs=1e-12)


def zero(actions):
    return torch.zeros(actions.shape[:-1], dtype=torch.float64)


def beside(environment):
    """The policy, an anchor, the batch that the step draws, and its tokens under both."""
    policy, anchor = environment.policy(0), environment.policy(5)
    instances, rollouts = drawn(environment, policy)
    tokens = environment.tokens(policy, instances, rollouts.actions)
    other = environment.tokens(anchor, instances, rollouts.actions).log_probs.detach()
    return policy, anchor, rollouts, tokens, other


def test_the_entropy_bonus_climbs_the_entropy(sequences):
    policy, _, _, tokens, _ = beside(environment := sequences(reward=zero))
    found, metrics = take(environment, entropy_bonus=0.3)
    close(found, gradient(-0.3 * tokens.entropy.sum() / BATCH, policy))
    assert metrics["entropy"] == pytest.approx(tokens.entropy.sum().item() / BATCH)


@pytest.mark.parametrize("kind", ["k1", "k3"])
def test_kl_in_the_loss_is_the_token_mean_with_its_gradient(sequences, kind):
    policy, anchor, _, tokens, other = beside(environment := sequences(reward=zero))
    kl = kl_tokens(tokens.log_probs, other, kind)[tokens.mask]
    options = {"kl": {"place": "loss", "type": kind, "beta": 0.7}}
    found, metrics = take(environment, anchor=anchor, **options)
    close(found, gradient(0.7 * kl.mean(), policy))
    assert metrics["kl/token"] == pytest.approx(kl.mean().item())
    assert metrics["kl/sequence"] == pytest.approx(kl.sum().item() / BATCH)
    assert anchor.logits.grad is None


def test_kl_in_the_reward_is_a_constant_of_the_sequence(sequences):
    _, anchor, rollouts, _, other = beside(environment := sequences())
    weights = advantages(rollouts.rewards - 0.7 * (rollouts.log_probs - other.sum(-1)), k=1)
    found, metrics = take(environment, anchor=anchor, kl={"place": "reward", "beta": 0.7})
    close(found, expected_gradient(environment, weights))
    assert metrics["reward_with_kl/mean"] != pytest.approx(metrics["reward/mean"])


@pytest.mark.parametrize("place", ["reward", "loss"])
def test_a_token_without_a_chance_is_an_error(sequences, place):
    """Under the anchor, or under the policy after an inner epoch."""
    environment = sequences()
    policy, anchor = environment.policy(0), environment.policy(5)
    settings = Settings.from_mapping({"batch": BATCH, "inner_epochs": 2, "kl": {"place": place}})

    class Excluding(torch.optim.SGD):
        def step(self, closure=None):
            exclude(policy)

    def exclude(which):
        with torch.no_grad():
            which.logits[0, :, 1] = -torch.inf

    words = "after an inner epoch the policy gives it no chance"
    if place == "reward":
        exclude(anchor)
        words = "the reference gives it no chance"
    with pytest.raises(FloatingPointError, match=f"KL estimate of a token is not finite.*{words}"):
        Step(environment, settings, RLOO).take(
            policy, Excluding(policy.parameters()), anchor, seed=SEED
        )


def test_k1_in_the_reward_with_a_leave_one_out_baseline_is_unbiased_for_the_divergence(sequences):
    """Over all pairs of sequences: E[Σ w ∇log π] = −β ∇KL(π‖anchor); k3 has another direction."""
    environment = sequences(reward=zero)
    policy, anchor = environment.policy(0), environment.policy(5)
    listed, rewards = environment.enumerate(torch.arange(1))
    with torch.no_grad():
        other = environment.tokens(anchor, torch.arange(1), listed.unsqueeze(0)).log_probs[0]
    tokens = environment.tokens(policy, torch.arange(1), listed.unsqueeze(0))
    log_probs = tokens.log_probs[0]
    probabilities = log_probs.detach().sum(-1).exp()
    assert probabilities.sum().item() == pytest.approx(1, abs=1e-12)
    pairs = torch.cartesian_prod(torch.arange(len(listed)), torch.arange(len(listed)))

    def expected(kind):
        penalty = 0.7 * kl_tokens(log_probs.detach(), other, kind).sum(-1)[pairs]
        shaped = shape_rewards(rewards[pairs], penalty=penalty, clip=None)
        weights = advantages(shaped, estimator="reinforce", baseline="centred", k=1)
        chance = probabilities[pairs].prod(1, keepdim=True) * len(pairs)
        current = log_probs[pairs]
        found = surrogate(
            current, current.detach(), weights * chance, tokens.mask[0][pairs], LossSettings()
        )
        return -torch.autograd.grad(found.loss, policy.logits, retain_graph=True)[0]

    divergence = (log_probs.sum(-1).exp() * (log_probs - other).sum(-1)).sum()
    wanted = -0.7 * torch.autograd.grad(divergence, policy.logits, retain_graph=True)[0]
    torch.testing.assert_close(expected("k1"), wanted, rtol=1e-10, atol=1e-12)
    assert (expected("k3") - wanted).norm() > 0.05 * wanted.norm()


def test_the_gradient_is_clipped_after_it_is_measured(sequences):
    environment = sequences()
    plain, metrics = take(environment)
    clipped, same = take(environment, max_grad_norm=0.01)
    assert plain.norm().item() > 0.01
    assert clipped.norm().item() == pytest.approx(0.01, rel=1e-3)
    assert metrics["grad_norm"] == same["grad_norm"]


def test_a_policy_sure_of_itself_has_weights_still(sequences):
    """Its proxies round to zero, which no weighted mean could divide by."""
    environment = sequences()
    policy = environment.policy(0)
    with torch.no_grad():
        policy.logits[..., 2] += 60
    for baseline in ("otb_loo", "eob_loo"):
        _, metrics = take(environment, Weighting("reinforce", baseline, N, 1), policy=policy)
        assert metrics["loss"] == pytest.approx(0, abs=1e-9)


def trained(environment, steps=2, **settings):
    settings = Settings.from_mapping({"batch": 16, "inner_epochs": 2, **settings})
    method = Step(environment, settings, Weighting("maxk", "centred", 4, 2))
    trainer = Trainer.start(method, environment.policy(0), seed=0)
    for _ in range(steps):
        trainer.advance()
    return trainer


def test_one_pass_takes_the_place_of_two(sequences):
    class OnePass(sequences):
        def rollout_with_tokens(self, policy, instances, n, *, seed):
            rollouts = sequences.rollout(self, policy, instances, n, seed=seed)
            return rollouts, sequences.tokens(self, policy, instances, rollouts.actions)

        def rollout(self, policy, instances, n, *, seed):
            raise AssertionError

    assert torch.equal(trained(OnePass()).policy.logits, trained(sequences()).policy.logits)


@pytest.mark.parametrize("there", [False, True])
def test_auto_is_cuda_where_it_is_there_and_the_environment_can_use_it(
    sequences, monkeypatch, there
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert resolve_device("auto").type == ("cuda" if there else "cpu")
    assert resolve_device("auto", sequences()).type == resolve_device("cpu").type == "cpu"
    why = "this environment's instances stay on the CPU" if there else "torch finds no CUDA device"
    with pytest.raises(LabError, match=f"device cuda: {why}.*; use auto or cpu"):
        resolve_device("cuda", sequences())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_gives_the_numbers_of_the_cpu_within_rounding():
    environment = make("tsp", num_loc=6, dtype="float32")
    here, there = trained(environment, 4, device="cpu"), trained(environment, 4, device="cuda")
    assert device_of(there.policy).type == "cuda"
    for name in ("reward/mean", "loss", "grad_norm", "entropy"):
        assert there.log[name] == pytest.approx(here.log[name], rel=1e-3, abs=1e-4)


def started(environment):
    settings = Settings(batch=10, start="multistart")
    step = Step(environment, settings, Weighting("reinforce", "group_mean", 5, 1))
    return Trainer.start(step, environment.policy(0), seed=0)


def test_an_environment_without_forced_starts_is_refused_before_the_first_step(sequences):
    with pytest.raises(LabError, match="start multistart: this environment has no forced starts"):
        started(environment := sequences())
    assert environment.seen == []


def test_the_group_mean_and_forced_starts_are_pomo():
    """The gradient of −mean((R − mean R) log π), over all starts of all instances."""
    environment = make("tsp", num_loc=5)
    trainer, policy, seed = started(environment), environment.policy(0), derive_seed("step", 0, 0)
    trainer.advance()
    instances = environment.instances(2, derive_seed("instances", seed))
    forced = environment.forced_starts()
    rollouts = forced.rollout(policy, instances, 5, seed=derive_seed("rollouts", seed))
    log_probs = forced.log_probs(policy, instances, rollouts.actions)
    advantage = rollouts.rewards - rollouts.rewards.mean(1, keepdim=True)
    (-(advantage * log_probs).mean()).backward()
    both = zip(policy.parameters(), trainer.policy.parameters(), strict=True)
    pairs = [(found.grad, expected.grad) for expected, found in both if expected.grad is not None]
    assert sum(bool(expected.any()) for _, expected in pairs) > 10
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
