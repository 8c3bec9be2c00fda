"""One step on a policy whose every trajectory is listed: its gradient is as the options promise."""

import math
from itertools import product

import pytest
import torch

from maxk_lab.estimators import advantages, off_policy_weights, token_advantages
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline, choose_estimator
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.reference.off_policy import off_policy_weights as reference_weights
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.seeds import derive_seed
from maxk_lab.training.refusals import Weighting
from maxk_lab.training.settings import LossSettings, Settings
from maxk_lab.training.step.fitted import fitted_coefficients
from maxk_lab.training.step.kl import kl_tokens
from maxk_lab.training.step.loss import off_policy_surrogate, surrogate
from maxk_lab.training.step.metrics import METRICS, OFF_POLICY_METRICS
from maxk_lab.training.step.shaping import shape_rewards
from maxk_lab.training.step.step import Step
from maxk_lab.training.step.weights import group_weights

BATCH, N, SEED = 24, 4, 11
RLOO = Weighting("reinforce", "centred", N, 1)


def norms(environment, policy, instances, actions):
    """‖ψ‖² one by one."""
    return grams(environment, policy, instances, actions).diagonal(dim1=-2, dim2=-1)


def grams(environment, policy, instances, actions):
    """ψ_i·ψ_j one by one."""
    log_probs = environment.log_probs(policy, instances, actions).flatten()
    scores = [
        torch.autograd.grad(x, policy.logits, retain_graph=True)[0].flatten() for x in log_probs
    ]
    scores = torch.stack(scores).view(*actions.shape[:2], -1)
    return scores @ scores.mT


def take(environment, weighting=RLOO, policy=None, anchor=None, rate=1.0, **options):
    """The gradient that a step follows (plain descent with rate 1, nothing clipped) and its log."""
    settings = Settings.from_mapping({"batch": BATCH, "max_grad_norm": None, **options})
    policy = environment.policy(0) if policy is None else policy
    before = policy.logits.detach().clone()
    optimizer = torch.optim.SGD(policy.parameters(), lr=rate)
    step = Step(environment, settings, weighting, norms, grams)
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


def binary(actions):
    return (actions[..., 0] == 1).double()


PAIRS = [
    (estimator.name, baseline.name, k)
    for estimator, baseline, k in product(ESTIMATORS, BASELINES, (1, 2, N))
    if Method.parse(estimator.name, baseline.name, k).refusal(N) is None
    and not Method.parse(estimator.name).needs_ratios
    and Method.parse(estimator.name, baseline.name).fit is None
]


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "baseline", "k"), PAIRS)
@pytest.mark.parametrize("ratio", ["sequence", "token"])
def test_at_ratio_one_the_step_follows_the_weighted_scores(
    sequences, estimator, baseline, k, ratio
):
    rows = choose_estimator(estimator).row, choose_baseline(baseline).row
    environment = (
        sequences(reward=binary) if any(row.binary_rewards for row in rows) else sequences()
    )
    policy = environment.policy(0)
    instances, rollouts = drawn(environment, policy)
    if choose_baseline(baseline).row.token_level:
        tokens = environment.tokens(policy, instances, rollouts.actions)
        weights = token_advantages(rollouts.rewards, tokens.logit_proxy, tokens.mask)
    else:
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
    found, metrics = take(environment, Weighting(estimator, baseline, N, k), loss={"ratio": ratio})
    expected = expected_gradient(environment, weights)
    assert expected.norm() > 1e-3
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-10)
    assert metrics["grad_norm"] == pytest.approx(expected.norm().item(), rel=1e-7)
    assert (metrics["clip_ratio/low"], metrics["clip_ratio/high"]) == (0, 0)


@pytest.mark.parametrize("estimator", ["off_policy_maxk", "off_policy_first_order"])
@pytest.mark.parametrize(
    ("baseline", "k"), [("none", 1), ("none", 4), ("centred", 2), ("subloo", 4)]
)
def test_the_first_inner_epoch_is_on_policy(sequences, estimator, baseline, k):
    expected, plain = take(sequences(), Weighting("maxk", baseline, N, k))
    found, metrics = take(sequences(), Weighting(estimator, baseline, N, k))
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
        weights = off_policy_weights(rollouts.rewards, ratios, 3, "subloo")
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
    weights = group_weights(rewards[groups], usable, weighting, ratios=ratios).weights
    chance = before.sum(-1).exp()[groups].prod(1, keepdim=True) * len(groups)
    found = off_policy_surrogate(
        after[groups], ratios, weights * chance, mask[groups], LossSettings()
    )
    objective = exact_value(after.sum(-1).exp(), rewards, k)
    follows = torch.autograd.grad(found.loss, policy.logits, retain_graph=True)[0]
    torch.testing.assert_close(follows, gradient(-objective, policy), rtol=0, atol=1e-12)


@pytest.mark.parametrize("baseline", ["none", "centred", "subloo"])
def test_float32_rewards_and_far_ratios_give_the_weights_of_their_definition(baseline):
    """Also where unusable samples leave the groups unequal."""
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randn(3, N, generator=generator)
    ratios = (10 * torch.randn(3, N, generator=generator, dtype=torch.float64)).exp()
    usable = torch.ones_like(rewards, dtype=torch.bool)
    usable[1, 0] = False
    weighting = Weighting("off_policy_maxk", baseline, N, 2)
    found = group_weights(rewards, usable, weighting, ratios=ratios).weights
    for row in range(3):
        counts = usable[row]
        exact = reference_weights(rewards[row, counts], ratios[row, counts], 2, baseline)
        tolerance = 1e-7 * exact.abs().max().item()
        torch.testing.assert_close(found[row, counts].double(), exact, rtol=1e-7, atol=tolerance)
    assert found.dtype == torch.float32
    assert found[1, 0] == 0


def test_a_fixed_divisor_divides_the_off_policy_loss(sequences):
    weighting = Weighting("off_policy_maxk", "centred", N, 2)
    plain, _ = take(sequences(), weighting)
    found, _ = take(sequences(), weighting, loss={"aggregation": "fixed", "divisor": 6.0})
    torch.testing.assert_close(found, plain / 6, rtol=0, atol=1e-14)


def test_a_policy_moved_out_of_reach_by_an_inner_epoch_is_an_error(sequences):
    environment = sequences()
    weighting = Weighting("off_policy_maxk", "none", N, 2)
    with pytest.raises(
        FloatingPointError, match=r"the ratio of a trajectory is 0\.0: the inner epochs"
    ):
        take(environment, weighting, inner_epochs=2, rate=1e5)


@pytest.mark.parametrize(
    "baseline", ["affine[cross_fit]", "affine[same_batch]", "ladder", "ladder[same_batch]"]
)
def test_fitted_baselines_follow_the_coefficients_of_the_batch(sequences, baseline):
    environment, weighting = sequences(), Weighting("maxk", baseline, N, 3)
    policy = environment.policy(0)
    instances, rollouts = drawn(environment, policy)
    usable = torch.ones_like(rollouts.rewards, dtype=torch.bool)
    products = grams(environment, policy, instances, rollouts.actions)
    coefficients = fitted_coefficients(rollouts.rewards, usable, weighting, products)
    assert coefficients.abs().max() > 0.1
    weights = advantages(rollouts.rewards, baseline=baseline, k=3, coefficients=coefficients)
    found, _ = take(environment, weighting)
    torch.testing.assert_close(
        found, expected_gradient(environment, weights), rtol=1e-7, atol=1e-10
    )


def test_fitted_baselines_need_somebody_to_measure_the_products(sequences):
    environment = sequences()
    step = Step(environment, Settings(batch=BATCH), Weighting("maxk", "ladder[cross_fit]", N, 2))
    policy = environment.policy(0)
    with pytest.raises(ValueError, match=r"ladder\[cross_fit\] needs grams, got None"):
        step.take(policy, torch.optim.SGD(policy.parameters(), lr=1.0), None, seed=0)


def test_every_metric_is_reported_and_nothing_else(sequences):
    _, metrics = take(sequences())
    assert set(metrics) == set(METRICS)
    assert math.isnan(metrics["kl/token"])
    assert metrics["frac_unscorable"] == 0


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
    torch.testing.assert_close(
        found, expected_gradient(environment, weights), rtol=1e-7, atol=1e-10
    )
    assert metrics["frac_unscorable"] == (1 + 4 + 3) / BATCH
    assert metrics["frac_unusable_groups"] == 2 / 6
    assert metrics["reward/mean"] == pytest.approx(rollouts.rewards.nanmean().item())


@pytest.mark.parametrize("truncated", ["keep", "mask_loss", "mask_all"])
def test_truncated_completions_leave_the_loss_or_the_baselines_too(sequences, truncated):
    environment = sequences()
    _, rollouts = drawn(environment, environment.policy(0))
    cut = rollouts.truncated
    assert 0 < cut.sum() < cut.numel()
    weights = advantages(rollouts.rewards, k=1)
    if truncated == "mask_loss":
        weights = weights * ~cut
    if truncated == "mask_all":
        weights = group_weights(rollouts.rewards, ~cut, RLOO).weights
    found, metrics = take(environment, truncated=truncated)
    torch.testing.assert_close(
        found, expected_gradient(environment, weights), rtol=1e-7, atol=1e-10
    )
    assert metrics["frac_truncated"] == cut.double().mean().item()
    assert metrics["length/max"] == 3


def test_the_reward_stages_come_before_the_weights(sequences):
    environment = sequences()
    _, rollouts = drawn(environment, environment.policy(0))
    weights = advantages(rollouts.rewards.clamp(0.5, 1.0), k=1)
    found, metrics = take(environment, reward_clip=[0.5, 1.0])
    torch.testing.assert_close(
        found, expected_gradient(environment, weights), rtol=1e-7, atol=1e-10
    )
    assert metrics["reward/mean"] == pytest.approx(rollouts.rewards.mean().item())
    assert metrics["reward_with_kl/mean"] == pytest.approx(
        rollouts.rewards.clamp(0.5, 1.0).mean().item()
    )


def test_the_scale_of_rewards_is_the_scale_of_the_gradient(sequences):
    plain, before = take(sequences())
    found, after = take(sequences(), reward_scale=3.0)
    torch.testing.assert_close(found, 3 * plain, rtol=1e-9, atol=1e-12)
    assert after["reward/mean"] == before["reward/mean"]
    assert after["reward_with_kl/mean"] == pytest.approx(3 * before["reward/mean"])


def test_normalised_advantages_have_mean_zero_and_spread_one(sequences):
    environment = sequences()
    _, rollouts = drawn(environment, environment.policy(0))
    a = N * advantages(rollouts.rewards, baseline="none", k=1)
    weights = (a - a.mean()) / (a.std() + 1e-4) / N
    found, metrics = take(
        environment, Weighting("reinforce", "none", N, 1), normalize_advantages=True
    )
    torch.testing.assert_close(
        found, expected_gradient(environment, weights), rtol=1e-7, atol=1e-10
    )
    assert metrics["advantage/mean"] == pytest.approx(0, abs=1e-12)


def zero(actions):
    return torch.zeros(actions.shape[:-1], dtype=torch.float64)


def test_the_entropy_bonus_climbs_the_entropy(sequences):
    environment = sequences(reward=zero)
    policy = environment.policy(0)
    instances, rollouts = drawn(environment, policy)
    tokens = environment.tokens(policy, instances, rollouts.actions)
    found, metrics = take(environment, entropy_bonus=0.3)
    expected = gradient(-0.3 * tokens.entropy.sum() / BATCH, policy)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-10)
    assert metrics["entropy"] == pytest.approx(tokens.entropy.sum().item() / BATCH)


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_kl_in_the_loss_is_the_token_mean_with_its_gradient(sequences, kind):
    environment = sequences(reward=zero)
    policy, anchor = environment.policy(0), environment.policy(5)
    instances, rollouts = drawn(environment, policy)
    tokens = environment.tokens(policy, instances, rollouts.actions)
    other = environment.tokens(anchor, instances, rollouts.actions).log_probs.detach()
    kl = kl_tokens(tokens.log_probs, other, kind)[tokens.mask]
    options = {"kl": {"place": "loss", "type": kind, "beta": 0.7}}
    found, metrics = take(environment, anchor=anchor, **options)
    torch.testing.assert_close(found, gradient(0.7 * kl.mean(), policy), rtol=1e-7, atol=1e-10)
    assert metrics["kl/token"] == pytest.approx(kl.mean().item())
    assert metrics["kl/sequence"] == pytest.approx(kl.sum().item() / BATCH)
    assert anchor.logits.grad is None


def test_kl_in_the_reward_is_a_constant_of_the_sequence(sequences):
    environment = sequences()
    policy, anchor = environment.policy(0), environment.policy(5)
    instances, rollouts = drawn(environment, policy)
    other = environment.log_probs(anchor, instances, rollouts.actions).detach()
    weights = advantages(rollouts.rewards - 0.7 * (rollouts.log_probs - other), k=1)
    found, metrics = take(environment, anchor=anchor, kl={"place": "reward", "beta": 0.7})
    torch.testing.assert_close(
        found, expected_gradient(environment, weights), rtol=1e-7, atol=1e-10
    )
    assert metrics["reward_with_kl/mean"] != pytest.approx(metrics["reward/mean"])


def test_an_anchor_that_excludes_a_drawn_token_is_an_error(sequences):
    environment = sequences()
    anchor = environment.policy(5)
    with torch.no_grad():
        anchor.logits[0, :, 1] = -torch.inf
    with pytest.raises(FloatingPointError, match="KL estimate of a token is not finite"):
        take(environment, anchor=anchor, kl={"place": "reward"})


def test_a_policy_that_excludes_a_drawn_token_after_an_inner_epoch_is_an_error(sequences):
    environment = sequences()
    policy = environment.policy(0)

    class Excluding(torch.optim.SGD):
        def step(self, closure=None):
            with torch.no_grad():
                policy.logits[0, :, 1] = -torch.inf

    settings = Settings.from_mapping({"batch": BATCH, "inner_epochs": 2, "kl": {"place": "loss"}})
    step = Step(environment, settings, RLOO)
    with pytest.raises(
        FloatingPointError, match="after an inner epoch the policy gives it no chance"
    ):
        step.take(policy, Excluding(policy.parameters(), lr=1.0), environment.policy(0), seed=SEED)


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
        shaped = shape_rewards(rewards[pairs], penalty=penalty, clip=None, order=("clip", "kl"))
        weights = group_weights(
            shaped,
            torch.ones_like(pairs, dtype=torch.bool),
            Weighting("reinforce", "centred", 2, 1),
        ).weights
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


def test_inner_epochs_leave_ratio_one_and_are_clipped(sequences):
    environment = sequences()
    once, first = take(environment)
    twice, both = take(environment, inner_epochs=2)
    assert (first["clip_ratio/low"], first["clip_ratio/high"]) == (0, 0)
    assert not torch.allclose(once, twice)
    _, wild = take(environment, inner_epochs=2, rate=30.0)
    assert wild["clip_ratio/low"] > 0
    assert wild["clip_ratio/high"] > 0
    # The first epoch of the two is the only one of the other.
    assert both["loss"] != first["loss"]
    assert both["reward/mean"] == first["reward/mean"]


def test_the_gradient_is_clipped_after_it_is_measured(sequences):
    environment = sequences()
    plain, metrics = take(environment)
    clipped, same = take(environment, max_grad_norm=0.01)
    assert plain.norm().item() > 0.01
    assert clipped.norm().item() == pytest.approx(0.01, rel=1e-3)
    assert metrics["grad_norm"] == same["grad_norm"]


@pytest.mark.parametrize("aggregation", ["seq_sum", "seq_mean", "token_mean", "fixed"])
def test_aggregations_agree_but_for_scale_where_lengths_are_equal(sequences, aggregation):
    environment = sequences()
    policy = environment.policy(0)
    with torch.no_grad():
        policy.logits[..., 0] = -1e3  # nothing ends before its third symbol
    plain, _ = take(environment, policy=policy)
    policy = environment.policy(0)
    with torch.no_grad():
        policy.logits[..., 0] = -1e3
    found, _ = take(environment, policy=policy, loss={"aggregation": aggregation, "divisor": 6.0})
    factor = {"seq_sum": 1.0, "seq_mean": 1 / 3, "token_mean": 1 / 3, "fixed": 1 / 6}[aggregation]
    torch.testing.assert_close(found, factor * plain, rtol=1e-9, atol=1e-12)


def test_a_policy_sure_of_itself_has_weights_still(sequences):
    """Its proxies round to zero, which no weighted mean could divide by."""
    environment = sequences()
    policy = environment.policy(0)
    with torch.no_grad():
        policy.logits[..., 2] += 60
    for baseline in ("otb_loo", "eob_loo", "otb_token"):
        _, metrics = take(environment, Weighting("reinforce", baseline, N, 1), policy=policy)
        assert metrics["loss"] == pytest.approx(0, abs=1e-9)


def test_a_baseline_of_gradient_norms_needs_somebody_to_measure_them(sequences):
    environment = sequences()
    step = Step(environment, Settings(batch=BATCH), Weighting("reinforce", "eob_loo", N, 1))
    policy = environment.policy(0)
    with pytest.raises(ValueError, match="eob_loo needs squared_norms, got None"):
        step.take(policy, torch.optim.SGD(policy.parameters(), lr=1.0), None, seed=0)
