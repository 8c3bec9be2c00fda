"""Fitted coefficients and the joint optimum against least squares over every group written out."""

import math
from dataclasses import replace

import pytest
import torch
from score_tables import bandit, cell, estimates_of, every_group, measured, pool_of, table

from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.estimators.least_squares import Equations, family_terms
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights
from maxk_lab.gradients.enumerated.moments import Outcomes
from maxk_lab.gradients.enumerated.oracle import joint_optimum
from maxk_lab.gradients.fitting import fit_on_others, oracle_coefficients

DISTINCT, TIED = [0.3, -1.0, 2.0], [1.0, 0.0, 0.0, 1.0]


def equations(rewards, gram, k, family):
    """The normal equations of groups with rewards [..., n] and products [..., n, n]."""
    w0, directions = family_terms(rewards, k, family)
    terms = torch.cat([directions, w0.unsqueeze(-1)], -1)
    return Equations.from_products(directions.mT @ gram @ terms)


def cross_fit(*groups):
    return fit_on_others(equations(*groups))


def least_squares(rewards, scores, k, family):
    """The α of the least Σ_r ‖ĝ_r‖², written out: rewards [R, n], scores [R, n, P] → [D]."""
    w0, directions = family_terms(rewards, k, family)
    plain = torch.einsum("rn,rnp->rp", w0, scores).flatten()
    moved = torch.einsum("rnd,rnp->rpd", directions, scores).flatten(0, 1)
    return torch.linalg.lstsq(moved, -plain.unsqueeze(1), driver="gelsd").solution.squeeze(1)


@pytest.mark.parametrize(("family", "n", "k"), [("affine", 4, 2), ("ladder", 6, 4)])
def test_a_cross_fit_is_the_least_squares_over_the_groups_of_all_other_instances(family, n, k):
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randn(4, 6, n, generator=generator).double()
    scores = torch.randn(4, 6, n, 4, generator=generator).double()
    gram = scores @ scores.mT
    coefficients = cross_fit(rewards, gram, k, family)
    for i in range(4):
        others = [j for j in range(4) if j != i]
        parts = rewards[others].flatten(0, 1), scores[others].flatten(0, 1)
        expected = least_squares(*parts, k, family)
        torch.testing.assert_close(coefficients[i], expected, rtol=1e-8, atol=1e-10)
    rewards[1], gram[1] = 1e9 * rewards[1], 1e9 * gram[1]
    assert torch.equal(cross_fit(rewards, gram, k, family)[1], coefficients[1])


@pytest.mark.parametrize("rewards", [DISTINCT, TIED])
@pytest.mark.parametrize(
    ("family", "n", "k"), [("constant", 3, 3), ("affine", 4, 3), ("ladder", 5, 3)]
)
def test_the_oracle_is_the_least_squares_over_every_ordered_group(rewards, family, n, k):
    outcomes, scores = table(rewards, seed=n, width=3)
    rows, chance = every_group(outcomes.drawn, n)
    w0, directions = family_terms(outcomes.rewards[rows], k, family)
    gram = outcomes.gram[rows.unsqueeze(-1), rows.unsqueeze(-2)]

    def second(alpha):
        weights = w0 + directions @ alpha
        return (chance @ torch.einsum("sn,snm,sm->s", weights, gram, weights)).item()

    found = oracle_coefficients(outcomes, n, k, family)
    # With scores times the root of the group's probability it is a plain least squares.
    weighted = chance.sqrt().view(-1, 1, 1) * scores[rows]
    best = least_squares(outcomes.rewards[rows], weighted, k, family)
    assert second(found) == pytest.approx(second(best), rel=1e-11)
    assert second(found) <= min(second(found + 1e-3), second(found - 1e-3))
    if rewards is DISTINCT:
        torch.testing.assert_close(found, best, rtol=1e-7, atol=1e-8)


def test_a_cross_fit_is_unbiased_whatever_the_other_group():
    """All pairs of a group of one instance, fitted on, and one of another, weighted."""
    n, k = 3, 2
    fitted_on, used_on = table(DISTINCT, seed=1)[0], table([-0.4, 1.5, 0.2], seed=2)[0]
    truth = used_on.centred(exact_gradient_weights(used_on.probabilities, used_on.rewards, k))
    first, _ = every_group(fitted_on.drawn, n)
    second, chance = every_group(used_on.drawn, n)
    rewards = used_on.rewards[second]

    def off(coefficients):
        """Of the mean estimate Σ_a c_a ψ_a, for α of each group or of all, relative."""
        weights = advantages(rewards, baseline="affine[cross_fit]", k=k, coefficients=coefficients)
        weighted = (chance.unsqueeze(1) * weights).flatten()
        mean = used_on.centred(torch.zeros(3).double().index_add_(0, second.flatten(), weighted))
        squared = used_on.inner(mean - truth, mean - truth) / used_on.inner(truth, truth)
        return math.sqrt(max(0.0, squared))

    gram = fitted_on.gram[first.unsqueeze(-1), first.unsqueeze(-2)]
    used_gram = used_on.gram[second.unsqueeze(-1), second.unsqueeze(-2)]
    for rows, products in zip(first, gram, strict=True):
        both = torch.stack([fitted_on.rewards[rows], rewards[0]]).unsqueeze(1)
        grams = torch.stack([products, used_gram[0]]).unsqueeze(1)
        assert off(cross_fit(both, grams, k, "affine")[1]) < 1e-12
    # Coefficients from the group itself are biased.
    assert off(equations(rewards, used_gram, k, "affine").solution()) > 0.01


def test_an_enumerated_cross_fit_has_the_coefficients_of_the_sampled_one():
    pool, key = pool_of(bandit(), size=400, objectives=[3]), ("maxk", "ladder[cross_fit]", 4, 3)
    (exact,) = measured(pool, cell(*key, partitions=2)).values()
    (sampled,) = measured(pool, cell(*key, complete=False, partitions=2)).values()
    assert (exact["against"], sampled["against"]) == ("complete", "exact")
    assert torch.tensor(exact["coefficients"]).shape == (12, 2)
    assert sampled["coefficients"] == exact["coefficients"]


def least_second_moment(outcomes, scores, n, k):
    """The least E‖Σ_i (s_i − b_i) ψ_i‖² over b(multiset of the others).

    Each multiset is an unknown, and each group a row.
    """
    rows, chance = every_group(outcomes.drawn, n)
    unknowns: dict[tuple[int, ...], int] = {}
    moved = torch.zeros(len(rows), scores.shape[1], math.comb(len(scores) + n - 2, n - 1)).double()
    for s, group in enumerate(rows.tolist()):
        for i, member in enumerate(group):
            others = tuple(sorted(group[:i] + group[i + 1 :]))
            moved[s, :, unknowns.setdefault(others, len(unknowns))] += scores[member]
    weights = advantages(outcomes.rewards[rows], estimator="maxk", baseline="none", k=k)
    plain = estimates_of(weights, scores, rows)
    root = chance.sqrt().unsqueeze(1)
    matrix, right = (root.unsqueeze(2) * moved).flatten(0, 1), (root * plain).flatten()
    best = torch.linalg.lstsq(matrix, right.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    return (right - matrix @ best).square().sum().item()


@pytest.mark.parametrize(
    ("rewards", "n", "k"),
    [
        *((DISTINCT, n, k) for n, k in ((3, 1), (3, 2), (3, 3), (2, 2))),
        (TIED, 3, 2),
        ([0.5, 1.5], 6, 3),
    ],
)
def test_the_joint_optimum_is_the_least_squares_over_every_ordered_group(rewards, n, k):
    outcomes, scores = table(rewards, seed=n + k, weights="number")
    expected = least_second_moment(outcomes, scores, n, k)
    best = joint_optimum(outcomes, n, k)
    rows, chance = every_group(outcomes.drawn, n)
    weights = best.weights(outcomes.rewards[rows], rows)
    estimates = estimates_of(weights, scores, rows)
    assert (chance @ estimates.square().sum(1)).item() == pytest.approx(expected, rel=1e-12)
    # No product with a sample's own score is left, given the others.
    products = chance * (estimates * scores[rows[:, 0]]).sum(1)
    assert products.view(len(scores), -1).sum(0).abs().max().item() < 1e-13
    order = torch.arange(n).roll(1)
    moved = best.weights(outcomes.rewards[rows][:, order], rows[:, order])
    torch.testing.assert_close(moved, weights[:, order], rtol=0, atol=1e-14)


def test_multisets_of_vanishing_chance_are_no_obstacle_to_the_joint_optimum():
    outcomes, _ = table(DISTINCT, weights="number")
    p = torch.tensor([1.0, 1e-80, 1e-80]).double()
    best = joint_optimum(replace(outcomes, probabilities=p), 6, 2)
    assert all(map(math.isfinite, best.values.values()))
    certain = replace(
        outcomes, probabilities=torch.eye(3)[0].double(), gram=torch.zeros(3, 3).double()
    )
    assert set(joint_optimum(certain, 3, 2).values.values()) == {0.0}


def solve(arms, n, k, limit):
    ones = torch.ones(arms).double()
    outcomes = Outcomes(ones / arms, ones, None, torch.eye(arms).double())
    return joint_optimum(outcomes, n, k, limit=limit)


def measure(arms, count, baseline, n, *, complete):
    return measured(pool_of(bandit(arms), count=count), cell("maxk", baseline, n, 2, complete))


ORACLES = ("affine[oracle]", "ladder[oracle]", "constant[oracle]", "joint_optimum")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve(10, 8, 2, 4000), r"11440 unknowns, at most 4000 are .* for; n <= 6 fits"),
        (lambda: solve(10, 2, 2, 9), "10 unknowns, at most 9 are solved for; no n fits"),
        (lambda: solve(3, 1, 1, 9), "1 <= K <= n and n >= 2, got n = 1 and K = 1"),
        (lambda: solve(3, 4, 5, 9), "1 <= K <= n and n >= 2, got n = 4 and K = 5"),
        (lambda: solve(3, 4, 0, 9), "1 <= K <= n and n >= 2, got n = 4 and K = 0"),
        (
            lambda: oracle_coefficients(table(DISTINCT, behaviour=True)[0], 4, 2, "affine"),
            r"leave out gradient\.behaviour",
        ),
        *(
            (lambda c=c: measure(3, 1, "affine[cross_fit]", 4, complete=c), "at least 2, got 1")
            for c in (True, False)
        ),
        *(
            (lambda b=b, a=a, n=n, c=c: measure(a, 2, b, n, complete=c), "complete: true")
            for b in ORACLES
            for a, n, c in ((3, 4, False), (20, 8, True))
        ),
        (
            lambda: measure(3, 2, "shrinkage", 4, complete=True),
            "shrinkage needs groups of other instances: set complete",
        ),
    ],
)
def test_refusals_say_what_is_needed(call, message):
    with pytest.raises((LabError, ValueError), match=message):
        call()


def test_a_baseline_of_other_prompts_is_sampled():
    pool = pool_of(bandit(), size=400, objectives=[2])
    (sampled,) = measured(pool, cell("maxk", "shrinkage", 4, 2, False)).values()
    (centred,) = measured(pool, cell("maxk", "centred", 4, 2, False)).values()
    assert sampled["variance"] != centred["variance"]
    assert sampled["scale"] == pytest.approx(1.0, abs=0.2)
