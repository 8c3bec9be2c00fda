"""The weights of a batch: unusable samples touch no sibling."""

import pytest
import torch

from maxk_lab.estimators import advantages
from maxk_lab.estimators.by_name import usable_weights
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.studies.training.work import measure as measure_training
from maxk_lab.training.settings import Weighting
from maxk_lab.training.step import normalized

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


def test_a_training_study_gives_its_steps_what_they_need():
    training = {"steps": 2, "batch": 16, "evaluate": {"instances": 2, "samples": 4}}
    unit = {
        "environment": {"name": "bandit", "arms": 4, "reward_shift": 0.0},
        "policy": {"init_std": 1.0, "dtype": "float64"},
        "seed": 0,
        "training": training,
    }
    pairs = ("maxk", "subloo"), ("reinforce", "eob_loo"), ("off_policy_maxk", "centred")
    cells = [
        {"id": baseline, "estimator": estimator, "baseline": baseline, "n": 8, "k": 3}
        for estimator, baseline in pairs
    ]
    found = dict(measure_training(unit, cells, cache=None, event=lambda *_: None))
    assert ["ess" in one["log"] for one in found.values()] == [False, False, True]
