"""Samples that cannot be scored: their siblings are weighted as if these had never been drawn."""

import pytest
import torch

from maxk_lab.estimators import advantages, token_advantages
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.training.refusals import Weighting
from maxk_lab.training.step.weights import group_weights, normalized, token_weights

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
    found = group_weights(REWARDS, USABLE, weighting, trajectory_weights={"length": G})
    assert found.unusable.tolist() == [bool(x) for x in unusable]
    for row in range(len(REWARDS)):
        usable = USABLE[row]
        if unusable[row]:
            assert (found.weights[row] == 0).all()
            continue
        expected = advantages(
            REWARDS[row, usable],
            estimator=estimator,
            baseline=baseline,
            k=k,
            trajectory_weights={"length": G[row, usable]},
        )
        torch.testing.assert_close(found.weights[row, usable], expected, rtol=1e-12, atol=1e-14)
        assert (found.weights[row, ~usable] == 0).all()


def test_whatever_an_unusable_sample_holds_moves_nothing():
    """A sample left out for its truncation has a reward, and a length: they must not matter."""
    weighting = Weighting("maxk", "optimal[length]", 4, 1)
    usable = torch.tensor([[True, False, True, True]])
    first = group_weights(REWARDS[:1], usable, weighting, trajectory_weights={"length": G[:1]})
    moved, lengths = REWARDS[:1].clone(), G[:1].clone()
    moved[0, 1], lengths[0, 1] = 1e9, 1e9
    second = group_weights(moved, usable, weighting, trajectory_weights={"length": lengths})
    assert torch.equal(first.weights, second.weights)
    assert first.weights[0, 1] == 0


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
    found = group_weights(rewards[triples], usable[triples], Weighting("maxk", baseline, 3, k))
    estimate = (chance.unsqueeze(1) * found.weights * log_probs[triples]).sum() / chance[
        ~found.unusable
    ].sum()
    among = log_probs[usable].exp() / log_probs[usable].exp().sum()
    wanted = exact_value(among, rewards[usable], k)
    pull = (chance * found.weights.sum(1)).sum() / chance[~found.unusable].sum()
    assert (baseline == "centred") == (abs(pull.item()) < 1e-12)
    wanted = wanted + pull * log_probs[usable].exp().sum().log()
    gradients = [
        torch.autograd.grad(x, policy.logits, retain_graph=True)[0] for x in (estimate, wanted)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


def test_options_reach_the_estimators():
    weighting = Weighting("maxk", "none", 4, 1)
    found = group_weights(
        REWARDS, USABLE, weighting, weight_normalization="zscore", min_gap_scale=10.0
    )
    expected = advantages(
        REWARDS[0], baseline="none", k=1, weight_normalization="zscore", min_gap_scale=10.0
    )
    torch.testing.assert_close(found.weights[0], expected)
    # One sample alone has no spread to be divided by.
    assert found.unusable.tolist() == [False, False, True, False, True, False]


def test_token_weights_of_what_is_left_of_a_group():
    mask = torch.arange(5) < torch.arange(24).view(6, 4, 1) % 5 + 1
    proxies = torch.rand(6, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = token_weights(REWARDS, USABLE, Weighting("reinforce", "otb_token", 4, 1), proxies, mask)
    assert found.unusable.tolist() == [False, False, True, False, True, False]
    for row in (0, 1, 3, 5):
        usable = USABLE[row]
        expected = token_advantages(REWARDS[row, usable], proxies[row, usable], mask[row, usable])
        torch.testing.assert_close(found.weights[row, usable], expected, rtol=1e-12, atol=1e-14)
        assert (found.weights[row, ~usable] == 0).all()


def test_normalised_advantages_by_hand():
    weights = torch.tensor([[1.0, 3.0], [0.0, 5.0]], dtype=torch.float64)
    counted = torch.tensor([[True, True], [False, True]])
    # Advantages 2, 6, 10: mean 6, standard deviation 4.
    expected = torch.tensor([[-4 / 4.0001, 0.0], [0.0, 4 / 4.0001]], dtype=torch.float64) / 2
    torch.testing.assert_close(normalized(weights, counted, 2), expected, rtol=1e-12, atol=0)
    alone = torch.tensor([[True, False], [False, False]])
    assert torch.equal(normalized(weights, alone, 2), weights)
