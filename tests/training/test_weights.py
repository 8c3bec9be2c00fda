"""The weights of a batch: unusable samples touch no sibling."""

import pytest
import torch

from maxk_lab.estimators import advantages
from maxk_lab.estimators.by_name import usable_weights
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.training.settings import Weighting
from maxk_lab.training.step import normalized

NAN = float("nan")
REWARDS = torch.tensor(
    [
        [1.0, 3.0, -2.0, 0.5],
        [NAN, NAN, NAN, NAN],
        [NAN, 3.0, NAN, 0.5],
        [NAN, 3.0, NAN, NAN],
        [4.0, NAN, 1.0, 2.0],
    ],
    dtype=torch.float64,
)
USABLE = ~REWARDS.isnan()
LENGTHS = torch.arange(1.0, 21.0, dtype=torch.float64).view(5, 4)


@pytest.mark.parametrize(
    ("estimator", "baseline", "k", "least"),
    [
        ("reinforce", "centred", 1, 2),
        ("reinforce", "none", 1, 1),
        ("maxk", "centred", 2, 3),
        ("maxk", "subloo", 2, 2),
        ("maxk", "optimal[length]", 1, 2),
        ("grpo", "none", 1, 2),
    ],
)
def test_the_scored_samples_of_a_group_are_weighted_as_a_group(estimator, baseline, k, least):
    method = Weighting(estimator, baseline, 4, k).method
    weights, refused = usable_weights(
        method, REWARDS, USABLE, trajectory_weights={"length": LENGTHS}
    )
    assert torch.equal(refused, USABLE.sum(1) < least)
    expected = torch.zeros_like(REWARDS)
    for row, usable in enumerate(USABLE):
        if not refused[row]:
            expected[row, usable] = advantages(
                REWARDS[row, usable],
                estimator=estimator,
                baseline=baseline,
                k=k,
                trajectory_weights={"length": LENGTHS[row, usable]},
            )
    torch.testing.assert_close(weights, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("baseline", "k"), [("centred", 1), ("centred", 2), ("subloo", 2), ("none", 1)]
)
def test_the_estimate_is_the_gradient_among_usable_trajectories(sequences, baseline, k):
    """Over all triples of sequences, given that the group is usable at all.

    Besides there is E[Σ w] ∇log P(usable), which `centred` has not.
    """
    environment = sequences()
    policy = environment.policy(0)
    actions, rewards, tokens, _ = environment.every(policy)
    usable, log_probs = actions[:, 0] != 1, tokens.sum(-1)
    triples = torch.cartesian_prod(*[torch.arange(len(actions))] * 3)
    method = Weighting("maxk", baseline, 3, k).method
    weights, refused = usable_weights(method, rewards[triples], usable[triples])
    chance = log_probs.detach().exp()[triples].prod(1)
    chance /= chance[~refused].sum()
    estimate = (chance.unsqueeze(1) * weights * log_probs[triples]).sum()
    probability = log_probs[usable].exp()
    pull = (chance * weights.sum(1)).sum()
    assert (baseline == "centred") == (abs(pull.item()) < 1e-12)
    expected = exact_value(probability / probability.sum(), rewards[usable], k)
    expected = expected + pull * probability.sum().log()
    gradients = [
        torch.autograd.grad(value, policy.logits, retain_graph=True)[0]
        for value in (estimate, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


def test_normalised_advantages_by_hand():
    weights = torch.tensor([[1.0, 3.0], [0.0, 5.0]], dtype=torch.float64)
    counted = torch.tensor([[True, True], [False, True]])
    # Advantages 2, 6, 10: mean 6, standard deviation 4.
    expected = torch.tensor([[-4 / 4.0001, 0.0], [0.0, 4 / 4.0001]], dtype=torch.float64) / 2
    torch.testing.assert_close(normalized(weights, counted, 2), expected, rtol=1e-12, atol=0)
    single = torch.tensor([[True, False], [False, False]])
    assert torch.equal(normalized(weights, single, 2), weights)
