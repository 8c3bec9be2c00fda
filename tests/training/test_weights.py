"""The weights of a batch: unusable samples touch no sibling, fits come from other groups."""

import itertools

import pytest
import torch

from maxk_lab.estimators import advantages
from maxk_lab.estimators.baselines.least_squares import Equations, family_terms, normal_equations
from maxk_lab.estimators.by_name import usable_weights
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.studies.training.work import measure as measure_training
from maxk_lab.training.settings import Weighting
from maxk_lab.training.step import fitted_coefficients, normalized

NAN = float("nan")
REWARDS = torch.tensor(
    [
        [1.0, 3.0, -2.0, 0.5],
        [1.0, NAN, -2.0, 0.5],
        [NAN, NAN, NAN, NAN],
        [NAN, 3.0, NAN, 0.5],
        [NAN, 3.0, NAN, NAN],
        [4.0, NAN, 1.0, 2.0],
    ],
    dtype=torch.float64,
)

USABLE = ~REWARDS.isnan()
G = torch.arange(1.0, 25.0, dtype=torch.float64).view(6, 4)


@pytest.mark.parametrize(
    ("estimator", "baseline", "k", "unusable"),
    [
        ("reinforce", "centred", 1, [0, 0, 1, 0, 1, 0]),
        ("reinforce", "none", 1, [0, 0, 1, 0, 0, 0]),
        ("maxk", "centred", 2, [0, 0, 1, 1, 1, 0]),
        ("maxk", "subloo", 2, [0, 0, 1, 0, 1, 0]),
        ("maxk", "optimal[length]", 1, [0, 0, 1, 0, 1, 0]),
        ("grpo", "none", 1, [0, 0, 1, 0, 1, 0]),
    ],
)
def test_what_is_left_of_a_group_is_weighted_as_a_group_of_its_own(
    estimator, baseline, k, unusable
):
    weighting = Weighting(estimator, baseline, 4, k)
    weights, refused = usable_weights(
        weighting.method, REWARDS, USABLE, trajectory_weights={"length": G}
    )
    assert refused.tolist() == [bool(x) for x in unusable]
    for row in range(len(REWARDS)):
        usable = USABLE[row]
        if unusable[row]:
            assert (weights[row] == 0).all()
            continue
        expected = advantages(
            REWARDS[row, usable],
            estimator=estimator,
            baseline=baseline,
            k=k,
            trajectory_weights={"length": G[row, usable]},
        )
        torch.testing.assert_close(weights[row, usable], expected, rtol=1e-12, atol=1e-14)
        assert (weights[row, ~usable] == 0).all()


@pytest.mark.parametrize(
    ("baseline", "k"), [("centred", 1), ("centred", 2), ("subloo", 2), ("none", 1)]
)
def test_the_estimate_is_the_gradient_among_usable_trajectories(sequences, baseline, k):
    """Over all triples of sequences, given that the group is usable at all.

    Besides there is E[Σ w] ∇log P(usable), which `centred` has not.
    """
    environment = sequences()
    policy = environment.policy(0)
    listed, rewards = environment.enumerate(torch.arange(1))
    usable = listed[:, 0] != 1
    log_probs = environment.log_probs(policy, torch.arange(1), listed.unsqueeze(0))[0]
    probabilities = log_probs.detach().exp()
    triples = torch.cartesian_prod(*[torch.arange(len(listed))] * 3)
    chance = probabilities[triples].prod(1)
    weighting = Weighting("maxk", baseline, 3, k)
    weights, refused = usable_weights(weighting.method, rewards[triples], usable[triples])
    estimate = (chance.unsqueeze(1) * weights * log_probs[triples]).sum() / chance[~refused].sum()
    among = log_probs[usable].exp() / log_probs[usable].exp().sum()
    wanted = exact_value(among, rewards[usable], k)
    pull = (chance * weights.sum(1)).sum() / chance[~refused].sum()
    assert (baseline == "centred") == (abs(pull.item()) < 1e-12)
    wanted = wanted + pull * log_probs[usable].exp().sum().log()
    gradients = [
        torch.autograd.grad(x, policy.logits, retain_graph=True)[0] for x in (estimate, wanted)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


def test_normalised_advantages_by_hand():
    weights = torch.tensor([[1.0, 3.0], [0.0, 5.0]], dtype=torch.float64)
    counted = torch.tensor([[True, True], [False, True]])
    # Advantages 2, 6, 10: mean 6, standard deviation 4.
    expected = torch.tensor([[-4 / 4.0001, 0.0], [0.0, 4 / 4.0001]], dtype=torch.float64) / 2
    torch.testing.assert_close(normalized(weights, counted, 2), expected, rtol=1e-12, atol=0)
    alone = torch.tensor([[True, False], [False, False]])
    assert torch.equal(normalized(weights, alone, 2), weights)


def batch(count=5, n=6, seed=0):
    """Rewards [count, n] and Gram matrices [count, n, n]."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(count, n, 9, generator=generator, dtype=torch.float64)
    return torch.randn(count, n, generator=generator, dtype=torch.float64), scores @ scores.mT


def everything(rewards):
    return torch.ones_like(rewards, dtype=torch.bool)


@pytest.mark.parametrize(
    ("family", "k"), [("affine", 2), ("affine", 5), ("ladder", 2), ("ladder", 4)]
)
def test_coefficients_are_those_of_the_others_or_the_own(family, k):
    rewards, grams = batch()
    start, directions = family_terms(rewards, k, family)
    a, c = normal_equations(start, directions, grams)
    own, cross = (
        fitted_coefficients(
            rewards, everything(rewards), Weighting("maxk", f"{family}[{fit}]", 6, k), grams
        )
        for fit in ("same_batch", "cross_fit")
    )
    for i in range(len(rewards)):
        others = torch.arange(len(rewards)) != i
        torch.testing.assert_close(own[i], Equations(a[i], c[i]).solution(), rtol=1e-12, atol=1e-12)
        expected = Equations(a[others].sum(0), c[others].sum(0)).solution()
        torch.testing.assert_close(cross[i], expected, rtol=1e-10, atol=1e-12)


def test_unscorable_samples_and_groups_too_small_count_for_nothing():
    weighting = Weighting("maxk", "ladder[cross_fit]", 6, 3)
    rewards, grams = batch()
    whole = fitted_coefficients(rewards[:3], everything(rewards[:3]), weighting, grams[:3])
    rewards[3], rewards[4, 3:] = NAN, NAN  # three samples are too few for K = 3
    found = fitted_coefficients(rewards, ~rewards.isnan(), weighting, grams)
    torch.testing.assert_close(found[:3], whole, rtol=1e-12, atol=1e-12)
    rewards[0, 1] = NAN
    kept = torch.tensor([0, 2, 3, 4, 5])
    cut = fitted_coefficients(rewards, ~rewards.isnan(), weighting, grams)
    start, directions = family_terms(rewards[0, kept], 3, "ladder")
    a, c = normal_equations(start, directions, grams[0][kept][:, kept])
    own = Weighting("maxk", "ladder[same_batch]", 6, 3)
    first = fitted_coefficients(rewards, ~rewards.isnan(), own, grams)[0]
    torch.testing.assert_close(first, Equations(a, c).solution(), rtol=1e-12, atol=1e-12)
    assert not torch.equal(cut[1], found[1])


def test_without_any_other_group_the_weights_are_the_centred_ones():
    rewards, grams = batch(count=2)
    rewards[1] = NAN
    weighting = Weighting("maxk", "ladder[cross_fit]", 6, 3)
    coefficients = fitted_coefficients(rewards, ~rewards.isnan(), weighting, grams)
    assert not coefficients[0].any()
    usable = ~rewards.isnan()
    found, _ = usable_weights(weighting.method, rewards, usable, coefficients=coefficients)
    centred, _ = usable_weights(Weighting("maxk", "centred", 6, 3).method, rewards, usable)
    torch.testing.assert_close(found, centred, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("family", ["affine", "ladder"])
def test_cross_fitted_weights_are_unbiased_and_those_of_the_same_batch_are_not(family):
    """Over all pairs of groups of two instances, each with its chance."""
    n, k = 3, 2
    bandits = [TinyBandit((0.3, -0.7), (-1.0, 2.0)), TinyBandit((-0.4, 0.5), (1.0, 3.0))]
    groups = torch.cartesian_prod(*[torch.arange(2)] * n)
    chances = [
        torch.softmax(torch.tensor(b.logits, dtype=torch.float64), 0)[groups].prod(1)
        for b in bandits
    ]
    scores = [b.scores(1)[0][groups] for b in bandits]
    tables = [torch.tensor(b.rewards, dtype=torch.float64)[groups] for b in bandits]
    pairs = list(itertools.product(range(len(groups)), repeat=2))

    def mean(fit):
        weighting = Weighting("maxk", f"{family}[{fit}]", n, k)
        total = [torch.zeros(2, dtype=torch.float64) for _ in bandits]
        for pair in pairs:
            rewards = torch.stack([table[g] for table, g in zip(tables, pair, strict=True)])
            psi = torch.stack([score[g] for score, g in zip(scores, pair, strict=True)])
            alpha = fitted_coefficients(rewards, everything(rewards), weighting, psi @ psi.mT)
            weights, _ = usable_weights(
                weighting.method, rewards, everything(rewards), coefficients=alpha
            )
            chance = chances[0][pair[0]] * chances[1][pair[1]]
            for b in range(2):
                total[b] += chance * (weights[b] @ psi[b])
        return total

    for found, bandit in zip(mean("cross_fit"), bandits, strict=True):
        torch.testing.assert_close(found, bandit.gradient(k), rtol=0.0, atol=1e-12)
    off = [
        (found - b.gradient(k)).norm() / b.gradient(k).norm()
        for found, b in zip(mean("same_batch"), bandits)
    ]
    assert min(off) > 0.02


def test_a_training_study_gives_its_steps_what_they_need():
    training = {"steps": 2, "batch": 16, "evaluate": {"instances": 2, "samples": 4}}
    unit = {
        "environment": {"name": "bandit", "arms": 4, "reward_shift": 0.0},
        "policy": {"init_std": 1.0, "dtype": "float64"},
        "seed": 0,
        "training": training,
    }
    pairs = ("maxk", "ladder[cross_fit]"), ("reinforce", "eob_loo"), ("off_policy_maxk", "subloo")
    cells = [
        {"id": baseline, "estimator": estimator, "baseline": baseline, "n": 8, "k": 3}
        for estimator, baseline in pairs
    ]
    found = dict(measure_training(unit, cells, cache=None, event=lambda *_: None))
    assert ["ess" in one["log"] for one in found.values()] == [False, False, True]
