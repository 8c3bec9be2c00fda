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


def take(environment, weighting=RLOO, policy=None, anchor=None, rate=1.0, **options):
    """The gradient that a step follows (plain descent with rate 1, nothing clipped) and its log."""
    settings = Settings.from_mapping({"batch": BATCH, "max_grad_norm": None, **options})
    policy = environment.policy(0) if policy is None else policy
    before = policy.logits.detach().clone()
    optimizer = torch.optim.SGD(policy.parameters(), lr=rate)
    metrics = Step(environment, settings, weighting).take(policy, optimizer, anchor, seed=SEED)
    return (before - policy.logits.detach()) / rate, metrics


def drawn(environment, policy):
    """The batch that the step draws, with its tokens."""
    instances = environment.instances(BATCH // N, derive_seed("instances", SEED))
    rollouts = environment.rollout(policy, instances, N, seed=derive_seed("rollouts", SEED))
    return instances, rollouts, environment.tokens(policy, instances, rollouts.actions)


def gradient(value, policy):
    return torch.autograd.grad(value, policy.logits, retain_graph=True)[0]


def expected_gradient(environment, weights):
    """−mean over instances of Σ_i w_i ∇log π(y_i)."""
    policy = environment.policy(0)
    instances, _, tokens = drawn(environment, policy)
    return gradient(-(weights * tokens.log_probs.sum(-1)).sum() / len(instances), policy)


def assert_close(step, expected):
    torch.testing.assert_close(step, expected, rtol=1e-7, atol=1e-10)


def binary(actions):
    return (actions[..., 0] == 1).double()


def zero(actions):
    return torch.zeros(actions.shape[:-1], dtype=torch.float64)


# Weights of every kind that a step makes: by group, by length, by gradient, by proxy.
@pytest.mark.parametrize(
    ("estimator", "baseline", "k"),
    [
        ("reinforce", "centred", 1),
        ("maxk", "subloo", 2),
        ("maxrl", "none", 1),
        ("reinforce", "opo_loo", 1),
        ("reinforce", "eob_loo", 1),
        ("reinforce", "otb_loo", 1),
    ],
)
def test_at_ratio_one_the_step_follows_the_weighted_scores(sequences, estimator, baseline, k):
    environment = sequences(reward=binary) if estimator == "maxrl" else sequences()
    policy = environment.policy(0)
    _, rollouts, tokens = drawn(environment, policy)
    scores = [gradient(value, policy) for value in tokens.log_probs.sum(-1).flatten()]
    weights = advantages(
        rollouts.rewards,
        estimator=estimator,
        baseline=baseline,
        k=k,
        trajectory_weights={
            "length": rollouts.lengths.double(),
            "logit_proxy": rollouts.logit_proxy,
            "grad_norm": torch.stack(scores).square().flatten(1).sum(1).view(-1, N),
        },
    )
    step, metrics = take(environment, Weighting(estimator, baseline, N, k))
    expected = expected_gradient(environment, weights)
    assert expected.norm() > 1e-3
    assert_close(step, expected)
    assert metrics["grad_norm"] == pytest.approx(expected.norm().item(), rel=1e-7)
    assert (metrics["clip_ratio/low"], metrics["clip_ratio/high"]) == (0, 0)
    assert set(metrics) == set(METRICS)
    assert math.isnan(metrics["kl/token"])
    # Truncated sequences count as all others.
    assert 0 < metrics["frac_truncated"] == rollouts.truncated.double().mean().item() < 1
    assert metrics["length/max"] == 3


@pytest.mark.parametrize(("baseline", "k"), [("none", 1), ("centred", 2), ("subloo", 4)])
def test_the_first_inner_epoch_is_on_policy(sequences, baseline, k):
    expected, plain = take(sequences(), Weighting("maxk", baseline, N, k))
    step, metrics = take(sequences(), Weighting("off_policy_maxk", baseline, N, k))
    torch.testing.assert_close(step, expected, rtol=0, atol=1e-12)
    assert set(metrics) == set(METRICS) | set(OFF_POLICY_METRICS)
    assert metrics["ess"] == 1
    assert metrics["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-12)


def test_further_inner_epochs_follow_the_weights_of_the_policy_as_it_is_then(sequences):
    environment, rate = sequences(), 3.0
    weighting = Weighting("off_policy_maxk", "subloo", N, 3)
    step, metrics = take(environment, weighting, inner_epochs=3, rate=rate)
    policy = environment.policy(0)
    instances, rollouts, _ = drawn(environment, policy)
    start, shares = policy.logits.detach().clone(), []
    for _ in range(3):
        log_probs = environment.log_probs(policy, instances, rollouts.actions)
        ratios = (log_probs - rollouts.log_probs).exp().detach()
        shares.append((ratios.sum(1).square() / ratios.square().sum(1)).mean().item() / N)
        weights = weighting.method.weights(rollouts.rewards, ratios=ratios)
        descent = gradient(-(weights * log_probs).sum() / len(instances), policy)
        with torch.no_grad():
            policy.logits -= rate * descent
    torch.testing.assert_close(step, (start - policy.logits.detach()) / rate, rtol=0, atol=1e-12)
    assert min(shares) < 0.9
    assert metrics["ess"] == pytest.approx(sum(shares) / 3, rel=1e-9)
    with pytest.raises(
        FloatingPointError, match=r"ratio of a trajectory is 0\.0: the inner epochs"
    ):
        take(environment, Weighting("off_policy_maxk", "none", N, 2), inner_epochs=2, rate=1e5)


@pytest.mark.parametrize("baseline", ["none", "centred", "subloo"])
def test_the_second_inner_epoch_is_unbiased_for_the_moved_policy(sequences, baseline):
    """Over all groups of three sequences of the old policy, each with its chance."""
    environment, n, k = sequences(), 3, 2
    policy = environment.policy(1)
    before = environment.every(environment.policy(0))[2].detach()
    _, rewards, after, mask = environment.every(policy)
    groups = torch.cartesian_prod(*[torch.arange(len(rewards))] * n)
    ratios = (after.detach() - before).sum(-1).exp()[groups]
    usable = torch.ones_like(groups, dtype=torch.bool)
    method = Weighting("off_policy_maxk", baseline, n, k).method
    weights, _ = usable_weights(method, rewards[groups], usable, ratios=ratios)
    weights *= before.sum(-1).exp()[groups].prod(1, keepdim=True) * len(groups)
    loss = surrogate(after[groups], before[groups], weights, mask[groups], LossSettings(), ratios)
    expected = gradient(-exact_value(after.sum(-1).exp(), rewards, k), policy)
    torch.testing.assert_close(gradient(loss.loss, policy), expected, rtol=0, atol=1e-12)


def test_unscorable_samples_leave_their_siblings_baselines(sequences):
    def reward(actions):
        values = sequences().reward(actions)
        values[..., 0, 1] = torch.nan
        values[..., 1, :] = torch.nan
        values[..., 2, :3] = torch.nan
        return values

    environment = sequences(reward=reward)
    rewards = drawn(environment, environment.policy(0))[1].rewards
    weights = torch.zeros_like(rewards)
    weights[0, [0, 2, 3]] = advantages(rewards[0, [0, 2, 3]], k=1)
    weights[3:] = advantages(rewards[3:], k=1)
    step, metrics = take(environment)
    assert_close(step, expected_gradient(environment, weights))
    assert metrics["frac_unscorable"] == (1 + 4 + 3) / BATCH
    assert metrics["frac_unusable_groups"] == 2 / 6
    assert metrics["reward/mean"] == pytest.approx(rewards.nanmean().item())


@pytest.mark.parametrize(
    ("baseline", "options", "shape"),
    [
        ("centred", {"reward_scale": 3.0, "reward_clip": [1.5, 3.0]},
         lambda rewards, kl: (3 * rewards).clamp(1.5, 3.0)),
        ("centred", {"kl": {"place": "reward", "beta": 0.7}},
         lambda rewards, kl: rewards - 0.7 * kl),
        ("none", {"normalize_advantages": True}, lambda rewards, kl: rewards),
    ],
    ids=["scale and clip", "kl", "normalised"],
)  # fmt: skip
def test_rewards_are_shaped_before_and_advantages_normalised_after_the_weights(
    sequences, baseline, options, shape
):
    environment = sequences()
    anchor = environment.policy(5) if "kl" in options else None
    instances, rollouts, _ = drawn(environment, environment.policy(0))
    reference = environment.log_probs(environment.policy(5), instances, rollouts.actions)
    shaped = shape(rollouts.rewards, rollouts.log_probs - reference.detach())
    weights = advantages(shaped, baseline=baseline, k=1)
    if baseline == "none":
        a = N * weights
        weights = (a - a.mean()) / (a.std() + 1e-4) / N
    step, metrics = take(
        environment, Weighting("reinforce", baseline, N, 1), None, anchor, **options
    )
    assert_close(step, expected_gradient(environment, weights))
    assert metrics["reward/mean"] == pytest.approx(rollouts.rewards.mean().item())
    assert metrics["reward_with_kl/mean"] == pytest.approx(shaped.mean().item())
    assert metrics["advantage/mean"] == pytest.approx(N * weights.mean().item(), abs=1e-12)


def test_the_terms_beside_the_surrogate_have_their_gradients(sequences):
    """The entropy bonus climbs the entropy; KL in the loss is the token mean."""
    environment = sequences(reward=zero)
    policy, anchor = environment.policy(0), environment.policy(5)
    instances, rollouts, tokens = drawn(environment, policy)
    step, metrics = take(environment, entropy_bonus=0.3)
    assert_close(step, gradient(-0.3 * tokens.entropy.sum() / BATCH, policy))
    assert metrics["entropy"] == pytest.approx(tokens.entropy.sum().item() / BATCH)
    reference = environment.tokens(anchor, instances, rollouts.actions).log_probs.detach()
    for kind in ("k1", "k3"):
        kl = kl_tokens(tokens.log_probs, reference, kind)[tokens.mask]
        options = {"kl": {"place": "loss", "type": kind, "beta": 0.7}}
        step, metrics = take(environment, anchor=anchor, **options)
        assert_close(step, gradient(0.7 * kl.mean(), policy))
        assert metrics["kl/token"] == pytest.approx(kl.mean().item())
        assert metrics["kl/sequence"] == pytest.approx(kl.sum().item() / BATCH)
    assert anchor.logits.grad is None


@pytest.mark.parametrize("place", ["reward", "loss"])
def test_a_token_without_a_chance_is_an_error(sequences, place):
    environment = sequences()
    policy, anchor = environment.policy(0), environment.policy(5)
    optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)

    def exclude(module):
        with torch.no_grad():
            module.logits[0, :, 1] = -torch.inf

    message = "after an inner epoch the policy gives it no chance"
    if place == "reward":
        exclude(anchor)
        message = "the reference gives it no chance"
    optimizer.step = lambda: exclude(policy)
    settings = Settings.from_mapping({"batch": BATCH, "inner_epochs": 2, "kl": {"place": place}})
    with pytest.raises(FloatingPointError, match=f"estimate of a token is not finite.*{message}"):
        Step(environment, settings, RLOO).take(policy, optimizer, anchor, seed=SEED)


def test_k1_in_the_reward_with_a_leave_one_out_baseline_is_unbiased_for_the_divergence(sequences):
    """Over all pairs of sequences: E[Σ w ∇log π] = −β ∇KL(π‖anchor); k3 has another direction."""
    environment = sequences(reward=zero)
    policy = environment.policy(0)
    reference = environment.every(environment.policy(5))[2].detach()
    _, rewards, log_probs, mask = environment.every(policy)
    probabilities = log_probs.detach().sum(-1).exp()
    assert probabilities.sum().item() == pytest.approx(1, abs=1e-12)
    pairs = torch.cartesian_prod(*[torch.arange(len(rewards))] * 2)

    def expectation(kind):
        penalty = 0.7 * kl_tokens(log_probs.detach(), reference, kind).sum(-1)[pairs]
        shaped = shape_rewards(rewards[pairs], penalty=penalty, clip=None)
        weights = advantages(shaped, estimator="reinforce", baseline="centred", k=1)
        weights *= probabilities[pairs].prod(1, keepdim=True) * len(pairs)
        drawn_from = log_probs[pairs]
        loss = surrogate(drawn_from, drawn_from.detach(), weights, mask[pairs], LossSettings())
        return -gradient(loss.loss, policy)

    divergence = (log_probs.sum(-1).exp() * (log_probs - reference).sum(-1)).sum()
    expected = -0.7 * gradient(divergence, policy)
    torch.testing.assert_close(expectation("k1"), expected, rtol=1e-10, atol=1e-12)
    assert (expectation("k3") - expected).norm() > 0.05 * expected.norm()


def test_the_gradient_is_clipped_after_it_is_measured(sequences):
    plain, metrics = take(sequences())
    clipped, same = take(sequences(), max_grad_norm=0.01)
    assert plain.norm().item() > 0.01
    assert clipped.norm().item() == pytest.approx(0.01, rel=1e-3)
    assert metrics["grad_norm"] == same["grad_norm"]


@pytest.mark.parametrize("baseline", ["otb_loo", "eob_loo"])
def test_a_policy_sure_of_itself_has_weights_still(sequences, baseline):
    """Its proxies round to zero, which no weighted mean could divide by."""
    policy = sequences().policy(0)
    with torch.no_grad():
        policy.logits[..., 2] += 60
    _, metrics = take(sequences(), Weighting("reinforce", baseline, N, 1), policy=policy)
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


@pytest.mark.parametrize("cuda", [False, True])
def test_auto_is_cuda_where_it_is_there_and_the_environment_can_use_it(
    sequences, monkeypatch, cuda
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    assert resolve_device("auto").type == ("cuda" if cuda else "cpu")
    assert resolve_device("auto", sequences()).type == resolve_device("cpu").type == "cpu"
    why = "this environment's instances stay on the CPU" if cuda else "torch finds no CUDA device"
    with pytest.raises(LabError, match=f"device cuda: {why}.*; use auto or cpu"):
        resolve_device("cuda", sequences())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_gives_the_numbers_of_the_cpu_within_rounding():
    environment = make("tsp", num_loc=6, dtype="float32")
    cpu, cuda = (trained(environment, 4, device=device) for device in ("cpu", "cuda"))
    assert device_of(cuda.policy).type == "cuda"
    for name in ("reward/mean", "loss", "grad_norm", "entropy"):
        assert cuda.log[name] == pytest.approx(cpu.log[name], rel=1e-3, abs=1e-4)


def with_forced_starts(environment):
    step = Step(
        environment,
        Settings(batch=10, start="multistart"),
        Weighting("reinforce", "group_mean", 5, 1),
    )
    return Trainer.start(step, environment.policy(0), seed=0)


def test_an_environment_without_forced_starts_is_refused_before_the_first_step(sequences):
    with pytest.raises(LabError, match="start multistart: this environment has no forced starts"):
        with_forced_starts(environment := sequences())
    assert environment.seen == []


def test_the_group_mean_and_forced_starts_are_pomo():
    """The gradient of −mean((R − mean R) log π), over all starts of all instances."""
    environment = make("tsp", num_loc=5)
    policy, seed = environment.policy(0), derive_seed("step", 0, 0)
    trainer = with_forced_starts(environment)
    trainer.advance()
    instances = environment.instances(2, derive_seed("instances", seed))
    forced = environment.forced_starts()
    rollouts = forced.rollout(policy, instances, 5, seed=derive_seed("rollouts", seed))
    log_probs = forced.log_probs(policy, instances, rollouts.actions)
    advantage = rollouts.rewards - rollouts.rewards.mean(1, keepdim=True)
    (-(advantage * log_probs).mean()).backward()
    parameters = zip(trainer.policy.parameters(), policy.parameters(), strict=True)
    pairs = [
        (mine.grad, expected.grad) for mine, expected in parameters if expected.grad is not None
    ]
    assert sum(bool(expected.any()) for _, expected in pairs) > 10
    for mine, expected in pairs:
        torch.testing.assert_close(mine, expected, rtol=1e-6, atol=1e-9)
