"""The best constant and symmetric baselines against least squares over every group written out."""

import itertools
import math

import pytest
import torch

from maxk_lab.estimators import advantages
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights
from maxk_lab.gradients.enumerated.moments import Outcomes, complete_moments
from maxk_lab.gradients.enumerated.oracle import constant_level, joint_optimum
from maxk_lab.gradients.fitting import oracle_coefficients

DISTINCT, TIED = [0.3, -1.0, 2.0], [1.0, 0.0, 0.0, 1.0]


def policy(rewards, seed, width=5):
    """Outcomes whose g is their number, and scores [A, width], random but for Σ_a p_a ψ_a = 0."""
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(len(rewards), generator=generator).double() + 0.1
    p /= p.sum()
    scores = torch.randn(len(rewards), width, generator=generator).double()
    scores -= p @ scores
    numbers = torch.arange(len(rewards)).double()
    return Outcomes(p, torch.tensor(rewards).double(), numbers, scores @ scores.T), scores


def bandit(arms, seed):
    """Outcomes of a softmax bandit with N(0, 1) logits and rewards."""
    generator = torch.Generator().manual_seed(seed)
    p = torch.softmax(torch.randn(arms, generator=generator).double(), 0)
    rewards = torch.randn(arms, generator=generator).double()
    scores = torch.eye(arms).double() - p
    return Outcomes(p, rewards, torch.arange(arms).double(), scores @ scores.T)


def every_group(outcomes, n):
    """All A^n ordered groups: outcomes [S, n], rewards [S, n] and probabilities [S]."""
    rows = torch.tensor(list(itertools.product(range(len(outcomes.rewards)), repeat=n)))
    return rows, outcomes.rewards[rows], outcomes.probabilities[rows].prod(1)


def second_moment(outcomes, n, weigh):
    return complete_moments(outcomes, n, lambda rewards, g, ratios: weigh(rewards, g.long()))


def named(baseline, k, **rest):
    return lambda rewards, rows: advantages(rewards, baseline=baseline, k=k, **rest)


@pytest.mark.parametrize("rewards", [DISTINCT, TIED, [0.0, 0.0, 0.0]])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_best_constant_is_the_mean_maximum_weighted_by_the_squared_score_of_its_group(
    rewards, k
):
    outcomes, scores = policy(rewards, seed=k)
    rows, values, chance = every_group(outcomes, k)
    squared = scores[rows].sum(1).square().sum(1)
    norm = outcomes.probabilities @ outcomes.gram.diagonal()
    expected = (chance * squared * values.max(1).values).sum() / (k * norm)
    assert constant_level(outcomes, k) == pytest.approx(expected.item(), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("rewards", [DISTINCT, TIED])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (4, 2), (5, 3), (4, 4)])
def test_the_best_constant_is_the_least_squares_one_at_every_n(rewards, n, k):
    outcomes, _ = policy(rewards, seed=n)
    (found,) = oracle_coefficients(outcomes, n, k, "constant").tolist()
    assert constant_level(outcomes, k) == pytest.approx(found, abs=1e-9)


def test_the_best_constant_moves_with_the_rewards():
    outcomes, _ = policy(DISTINCT, seed=0)
    moved = Outcomes(outcomes.probabilities, outcomes.rewards + 1e6, None, outcomes.gram)
    assert constant_level(moved, 3) - 1e6 == pytest.approx(constant_level(outcomes, 3), abs=1e-9)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        constant_level(outcomes, 0)


def least_squares(outcomes, scores, n, k):
    """The least E‖Σ_i (s_i − b_i) ψ_i‖² over b(multiset of the others).

    Each multiset is an unknown, and each group a row.
    """
    rows, rewards, chance = every_group(outcomes, n)
    unknowns: dict[tuple[int, ...], int] = {}
    moved = torch.zeros(len(rows), scores.shape[1], math.comb(len(scores) + n - 2, n - 1)).double()
    for s, group in enumerate(rows.tolist()):
        for i, own in enumerate(group):
            others = tuple(sorted(group[:i] + group[i + 1 :]))
            moved[s, :, unknowns.setdefault(others, len(unknowns))] += scores[own]
    weights = advantages(rewards, estimator="maxk", baseline="none", k=k)
    plain = torch.einsum("sn,snp->sp", weights, scores[rows])
    root = chance.sqrt().unsqueeze(1)
    matrix, right = (root.unsqueeze(2) * moved).flatten(0, 1), (root * plain).flatten()
    best = torch.linalg.lstsq(matrix, right.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    return (right - matrix @ best).square().sum().item()


@pytest.mark.parametrize(
    ("rewards", "n", "k"),
    [
        (DISTINCT, 3, 1),
        (DISTINCT, 3, 2),
        (DISTINCT, 3, 3),
        (DISTINCT, 2, 1),
        (DISTINCT, 2, 2),
        (TIED, 3, 2),
        ([0.5, 1.5], 6, 3),
    ],
)
def test_the_joint_optimum_is_the_least_squares_over_every_ordered_group(rewards, n, k):
    outcomes, scores = policy(rewards, seed=n + k)
    expected = least_squares(outcomes, scores, n, k)
    best = joint_optimum(outcomes, n, k)
    rows, values, chance = every_group(outcomes, n)
    estimates = torch.einsum("sn,snp->sp", best.weights(values, rows), scores[rows])
    assert (chance @ estimates.square().sum(1)).item() == pytest.approx(expected, rel=1e-12)
    assert second_moment(outcomes, n, best.weights).second == pytest.approx(expected, rel=1e-12)
    plain = second_moment(outcomes, n, named(best.plain, k))
    assert plain.second - best.reduction == pytest.approx(expected, rel=1e-11)


def rivals(outcomes, n, k):
    """Every other unbiased baseline, with oracle coefficients if any: (rewards, rows) → weights."""
    level = torch.tensor([constant_level(outcomes, k)])
    found = {"none": named("none", k), "constant": named("constant[oracle]", k, coefficients=level)}
    if k >= 2:
        found["subloo"] = named("subloo", k)
    if k < n:
        found["centred"] = named("centred", k)
        found["optimal"] = lambda rewards, rows: advantages(
            rewards,
            baseline="optimal[grad_norm]",
            k=k,
            trajectory_weights={"grad_norm": outcomes.gram.diagonal()[rows]},
        )
    for family in ("affine", "ladder") if 2 <= k < n else ():
        found[family] = named(
            f"{family}[oracle]", k, coefficients=oracle_coefficients(outcomes, n, k, family)
        )
    return found


@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (4, 1), (4, 2), (4, 3), (4, 4), (6, 3)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_joint_optimum_is_unbiased_and_no_unbiased_baseline_has_less_variance(
    n, k, shift, seed
):
    plain = bandit(4, seed)
    outcomes = Outcomes(plain.probabilities, plain.rewards + shift, plain.g, plain.gram)
    found = second_moment(outcomes, n, joint_optimum(outcomes, n, k).weights)
    truth = exact_gradient_weights(outcomes.probabilities, outcomes.rewards, k)
    torch.testing.assert_close(
        outcomes.centred(found.coefficients), outcomes.centred(truth), rtol=1e-9, atol=1e-11
    )
    for name, weigh in rivals(outcomes, n, k).items():
        assert found.second <= second_moment(outcomes, n, weigh).second * (1 + 1e-12), name


def test_the_joint_optimum_leaves_no_product_with_an_own_score():
    outcomes, scores = policy(DISTINCT, seed=5)
    n, k = 4, 2
    best = joint_optimum(outcomes, n, k)
    rows, rewards, chance = every_group(outcomes, n)
    estimates = torch.einsum("sn,snp->sp", best.weights(rewards, rows), scores[rows])
    own = chance * (estimates * scores[rows[:, 0]]).sum(1)
    given_others = own.view(3, -1).sum(0)
    assert given_others.abs().max().item() < 1e-14


def test_the_weights_follow_their_samples():
    outcomes, _ = policy(TIED, seed=1)
    best = joint_optimum(outcomes, 4, 2)
    rows, rewards, _ = every_group(outcomes, 4)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(
        best.weights(rewards[:, order], rows[:, order]),
        best.weights(rewards, rows)[:, order],
        rtol=0,
        atol=1e-15,
    )


def test_too_many_unknowns_are_refused_with_what_would_fit():
    outcomes = bandit(10, 0)
    with pytest.raises(
        ValueError, match=r"11440 unknowns, at most 4000 are solved for; n <= 6 fits"
    ):
        joint_optimum(outcomes, 8, 2, limit=4000)
    with pytest.raises(ValueError, match="10 unknowns, at most 9 are solved for; no n fits"):
        joint_optimum(outcomes, 2, 2, limit=9)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (4, 5), (4, 0)])
def test_the_joint_optimum_says_which_n_and_k_it_needs(n, k):
    with pytest.raises(ValueError, match=f"1 <= K <= n and n >= 2, got n = {n} and K = {k}"):
        joint_optimum(bandit(3, 0), n, k)
