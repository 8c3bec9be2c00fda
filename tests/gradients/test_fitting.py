"""Fitted coefficients against least squares on the scores, and each fit's effect on the mean."""

import itertools
import math

import pytest
import torch

from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.estimators.baselines.least_squares import family_terms
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights
from maxk_lab.gradients.enumerated.moments import Outcomes
from maxk_lab.gradients.fitting import cross_fit, oracle_coefficients, same_batch
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.statistics.bias import bias_verdicts
from maxk_lab.statistics.units import Units


def drawn(instances, groups, n, seed=0, width=4):
    """Rewards [I, R, n] and scores [I, R, n, width] of groups, no two alike."""
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(instances, groups, n, generator=generator).double()
    return rewards, torch.randn(instances, groups, n, width, generator=generator).double()


def least_squares(rewards, scores, k, family):
    """The α of the least Σ_r ‖ĝ_r‖², written out: rewards [R, n], scores [R, n, P] → [D]."""
    w0, directions = family_terms(rewards, k, family)
    plain = torch.einsum("rn,rnp->rp", w0, scores).flatten()
    moved = torch.einsum("rnd,rnp->rpd", directions, scores).flatten(0, 1)
    return torch.linalg.lstsq(moved, -plain.unsqueeze(1), driver="gelsd").solution.squeeze(1)


@pytest.mark.parametrize(
    ("family", "n", "k"), [("affine", 4, 2), ("ladder", 4, 2), ("ladder", 6, 4), ("ladder", 9, 8)]
)
def test_a_cross_fit_is_the_least_squares_over_the_groups_of_all_other_instances(family, n, k):
    rewards, scores = drawn(4, 6, n)
    found = cross_fit(rewards, scores @ scores.mT, k, family)
    for i in range(4):
        others = [j for j in range(4) if j != i]
        expected = least_squares(
            rewards[others].flatten(0, 1), scores[others].flatten(0, 1), k, family
        )
        torch.testing.assert_close(found[i], expected, rtol=1e-8, atol=1e-10)


def test_a_cross_fit_sees_nothing_of_its_own_instance():
    rewards, scores = drawn(3, 5, 6)
    gram = scores @ scores.mT
    before = cross_fit(rewards, gram, 4, "ladder")
    rewards[1], gram[1] = 1e9 * rewards[1], 1e9 * gram[1]
    after = cross_fit(rewards, gram, 4, "ladder")
    assert torch.equal(after[1], before[1])
    assert not torch.allclose(after[0], before[0])


def test_a_cross_fit_needs_another_instance():
    rewards, scores = drawn(1, 5, 4)
    with pytest.raises(ValueError, match="it needs at least 2, got 1"):
        cross_fit(rewards, scores @ scores.mT, 2, "affine")


@pytest.mark.parametrize(("family", "n", "k"), [("affine", 4, 2), ("ladder", 6, 3)])
def test_the_same_batch_fit_is_the_least_squares_of_the_group_itself(family, n, k):
    rewards, scores = drawn(2, 3, n)
    found = same_batch(rewards, scores @ scores.mT, k, family)
    for i, r in itertools.product(range(2), range(3)):
        expected = least_squares(rewards[i, r : r + 1], scores[i, r : r + 1], k, family)
        torch.testing.assert_close(found[i, r], expected, rtol=1e-8, atol=1e-10)


def policy(rewards, seed):
    """Outcomes and their scores [A, 3], random but for Σ_a p_a ψ_a = 0."""
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(len(rewards), generator=generator).double() + 0.1
    p /= p.sum()
    scores = torch.randn(len(rewards), 3, generator=generator).double()
    scores -= p @ scores
    return Outcomes(p, torch.tensor(rewards).double(), None, scores @ scores.T), scores


def every_group(outcomes, n):
    """All A^n ordered groups: outcomes [S, n] and probabilities [S]."""
    rows = torch.tensor(list(itertools.product(range(len(outcomes.rewards)), repeat=n)))
    return rows, outcomes.probabilities[rows].prod(1)


@pytest.mark.parametrize("rewards", [[0.3, -1.0, 2.0], [1.0, 0.0, 0.0, 1.0], [-0.5, 0.7, 0.1, 1.9]])
@pytest.mark.parametrize(
    ("family", "n", "k"), [("constant", 3, 3), ("affine", 4, 3), ("ladder", 4, 2), ("ladder", 5, 3)]
)
def test_the_oracle_is_the_least_squares_over_every_ordered_group(rewards, family, n, k):
    outcomes, scores = policy(rewards, seed=n)
    rows, chance = every_group(outcomes, n)
    w0, directions = family_terms(outcomes.rewards[rows], k, family)
    gram = outcomes.gram[rows.unsqueeze(-1), rows.unsqueeze(-2)]

    def second(alpha):
        weights = w0 + directions @ alpha
        return (chance @ torch.einsum("sn,snm,sm->s", weights, gram, weights)).item()

    found = oracle_coefficients(outcomes, n, k, family)
    # A sample's own score, weighted by the root of its group's probability, makes it a plain least
    # squares.
    weighted = chance.sqrt().view(-1, 1, 1) * scores[rows]
    best = least_squares(outcomes.rewards[rows], weighted, k, family)
    assert second(found) == pytest.approx(second(best), rel=1e-11)
    assert second(found) <= second(found + 1e-3)
    assert second(found) <= second(found - 1e-3)
    if len(set(rewards)) > 2:
        torch.testing.assert_close(found, best, rtol=1e-7, atol=1e-8)


def test_the_oracle_refuses_trajectories_of_another_policy():
    outcomes, _ = policy([0.3, -1.0, 2.0], seed=0)
    ratios = torch.ones(3).double()
    elsewhere = Outcomes(
        outcomes.probabilities,
        outcomes.rewards,
        None,
        outcomes.gram,
        ratios,
        outcomes.probabilities,
    )
    with pytest.raises(LabError, match=r"leave out gradient\.behaviour"):
        oracle_coefficients(elsewhere, 4, 2, "affine")


@pytest.mark.parametrize(("family", "n", "k"), [("affine", 3, 2), ("ladder", 4, 3)])
def test_a_cross_fit_is_unbiased_whatever_the_other_group_and_a_same_batch_fit_is_not(family, n, k):
    """All pairs of a group of one instance, fitted on, and one of another, weighted."""
    fitted_on, _ = policy([0.3, -1.0, 2.0], seed=1)
    used_on, _ = policy([-0.4, 1.5, 0.2], seed=2)
    truth = exact_gradient_weights(used_on.probabilities, used_on.rewards, k)
    truth = used_on.centred(truth)
    first, chance_of_first = every_group(fitted_on, n)
    second, chance = every_group(used_on, n)
    rewards = used_on.rewards[second]

    def mean(coefficients):
        """The coefficients c [A] of E ĝ = Σ_a c_a ψ_a, for α of each group or of all."""
        weights = advantages(
            rewards, baseline=f"{family}[cross_fit]", k=k, coefficients=coefficients
        )
        totals = (
            torch.zeros(3)
            .double()
            .index_add_(0, second.flatten(), (chance.unsqueeze(1) * weights).flatten())
        )
        return used_on.centred(totals)

    def size(off):
        return math.sqrt(max(0.0, used_on.inner(off, off) / used_on.inner(truth, truth)))

    gram = fitted_on.gram[first.unsqueeze(-1), first.unsqueeze(-2)]
    own_gram = used_on.gram[second.unsqueeze(-1), second.unsqueeze(-2)]
    overall = torch.zeros(3).double()
    for rows, products, share in zip(first, gram, chance_of_first, strict=True):
        both = torch.stack([fitted_on.rewards[rows], rewards[0]]).unsqueeze(1)
        found = cross_fit(both, torch.stack([products, own_gram[0]]).unsqueeze(1), k, family)[1]
        assert size(mean(found) - truth) < 1e-12
        overall += share * mean(found)
    assert size(overall - truth) < 1e-12
    assert size(mean(same_batch(rewards, own_gram, k, family)) - truth) > 0.01


VERDICTS = {
    ("affine[cross_fit]", 4, 2): "unbiased",
    ("ladder[cross_fit]", 4, 3): "unbiased",
    ("affine[oracle]", 4, 2): "unbiased",
    ("ladder[oracle]", 4, 3): "unbiased",
    ("constant[oracle]", 4, 2): "unbiased",
    ("joint_optimum", 4, 2): "unbiased",
    ("joint_optimum", 4, 4): "unbiased",
    ("affine[same_batch]", 4, 2): "biased",
    ("ladder[same_batch]", 4, 3): "biased",
}


def bandit(arms=3, shift=0.0):
    return make_environment(
        {"name": "bandit", "arms": arms, "reward_shift": shift},
        {"init_std": 0.5, "dtype": "float64"},
    )


def cell(baseline, n, k, complete=True, partitions=2):
    asked = {"complete": True} if complete else {}
    axes = {"estimator": "maxk", "baseline": baseline, "n": n, "k": k, "partitions": partitions}
    return {"id": f"{baseline}/{n}/{k}"} | axes | asked


def measured(environment, cells, count=12, size=64):
    objectives = sorted({c["k"] for c in cells})
    instances = environment.instances(count, 1)
    pool = draw_pool(
        environment, environment.policy(0), instances, count, size, objectives=objectives, seed=3
    )
    return dict(measure_cells(pool, cells, seed=0))


@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_the_bias_of_every_fit_is_proven_or_refuted_without_sampling(shift):
    found = measured(bandit(shift=shift), [cell(*key) for key in VERDICTS])
    units = {key: Units.from_metrics(found[cell(*key)["id"]]) for key in VERDICTS}
    assert {key: verdict.verdict for key, verdict in bias_verdicts(units).items()} == VERDICTS


@pytest.mark.slow
def test_an_enumerated_cross_fit_has_the_coefficients_and_the_variance_of_the_sampled_one():
    key = ("ladder[cross_fit]", 4, 3)
    (exact,) = measured(bandit(), [cell(*key)], size=20_000).values()
    (sampled,) = measured(bandit(), [cell(*key, complete=False)], size=20_000).values()
    assert (exact["against"], sampled["against"]) == ("complete", "exact")
    assert torch.tensor(exact["coefficients"]).shape == (12, 2)
    assert sampled["coefficients"] == exact["coefficients"]
    assert sampled["variance"] == pytest.approx(exact["variance"], rel=0.03)


def test_with_many_groups_a_cross_fit_varies_as_one_alpha_for_all_does_and_the_oracle_no_more():
    cells = [
        cell(name, 4, 2)
        for name in ("centred", "subloo", "affine[cross_fit]", "affine[oracle]", "joint_optimum")
    ]
    found = {name: m["variance"] for name, m in measured(bandit(), cells, size=4_000).items()}
    centred, subloo, fitted, oracle, best = found.values()
    assert best < oracle < fitted < min(centred, subloo)


@pytest.mark.parametrize(
    "baseline", ["affine[oracle]", "ladder[oracle]", "constant[oracle]", "joint_optimum"]
)
@pytest.mark.parametrize(("arms", "n", "complete"), [(3, 4, False), (20, 8, True)])
def test_an_oracle_without_complete_enumeration_says_what_it_needs(baseline, arms, n, complete):
    (found,) = measured(bandit(arms), [cell(baseline, n, 2, complete)], count=2).values()
    assert isinstance(found, LabError)
    assert "complete: true" in str(found)


def test_a_cross_fit_of_one_instance_is_an_error():
    for complete in (True, False):
        (found,) = measured(bandit(), [cell("affine[cross_fit]", 4, 2, complete)], count=1).values()
        assert isinstance(found, ValueError)
        assert "it needs at least 2, got 1" in str(found)
