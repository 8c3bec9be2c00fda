"""Variance anatomy against Hoeffding terms written out over all A^n tuples, and known answers."""

import itertools
from dataclasses import astuple

import pytest
import torch

from maxk_lab.estimators import advantages
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.enumerated.anatomy import Anatomy, AnatomySums
from maxk_lab.gradients.enumerated.moments import MomentSums, Outcomes

PAIRS = [
    ("maxk", "none", 2),
    ("maxk", "centred", 2),
    ("maxk", "centred", 1),
    ("maxk", "subloo", 3),
    ("maxk", "sample_loo", 2),
    ("maxk", "group_mean", 2),
    ("maxk", "optimal[length]", 2),
    ("reinforce", "eob", 1),
    ("grpo", "none", 1),
    ("top_m[2]", "centred", 3),
    ("partitioned[none]", "none", 2),
    ("partitioned[loo]", "none", 2),
]


def table(rewards, seed=0, behaviour=False):
    """A policy of A trajectories whose scores [A, 5] are random but for Σ_a p_a ψ_a = 0."""
    generator = torch.Generator().manual_seed(seed)

    def probabilities():
        p = torch.rand(len(rewards), generator=generator).double() + 0.1
        return p / p.sum()

    p, scores = probabilities(), torch.randn(len(rewards), 5, generator=generator).double()
    scores -= p @ scores
    lengths = torch.tensor([1.0, 3.0, 3.0, 1.0, 2.0][: len(rewards)]).double()
    drawn = probabilities() if behaviour else None
    return p, torch.tensor(rewards).double(), lengths, scores, drawn


def weigh(estimator, baseline, k, kind):
    def weights(rewards, g, ratios):
        given = {} if kind is None or g is None else {kind: g}
        return advantages(
            rewards, estimator=estimator, baseline=baseline, k=k, trajectory_weights=given
        )

    return weights


def found_anatomy(outcomes, n, own, plain, ordered):
    classes = outcomes.classes
    moments, sums = MomentSums(classes), AnatomySums(classes, n)
    for rows, chance in classes.groups(n, ordered=ordered):
        weights, form = own(*classes.arguments(rows)), classes.forms(rows)
        moments.add(rows, chance, weights, form)
        sums.add(
            rows, chance, weights, None if plain is None else plain(*classes.arguments(rows)), form
        )
    found = moments.moments()
    mean = outcomes.centred(found.coefficients)
    return sums.anatomy(outcomes, found), found.second - outcomes.inner(mean, mean)


def higher_terms(estimates, tuples, chance):
    """[S, P] less its mean and its terms of one trajectory, and the total variance of these."""
    mean = chance @ estimates
    left, first = estimates - mean, 0.0
    for i in range(tuples.shape[1]):
        for a in tuples.unique():
            at = tuples[:, i] == a
            term = chance[at] @ estimates[at] / chance[at].sum() - mean
            left[at] -= term
            first += (chance[at].sum() * term.square().sum()).item()
    return left, first


@pytest.mark.parametrize("behaviour", [False, True])
@pytest.mark.parametrize("n", [4, 6])
@pytest.mark.parametrize("rewards", [[0.3, -1.0, 2.0], [1.0, 0.0, 1.0], [1000.3, 999.0, 1002.0]])
@pytest.mark.parametrize(("estimator", "baseline", "k"), PAIRS)
def test_the_parts_are_the_hoeffding_terms_over_all_tuples(
    estimator, baseline, k, rewards, n, behaviour
):
    p, rewards, lengths, scores, drawn = table(rewards, behaviour=behaviour)
    kind, ordered = (
        Method.parse(estimator, baseline).needed_weight,
        Method.parse(estimator).is_ordered,
    )
    lengths = scores.square().sum(1) if kind == "grad_norm" else lengths
    own, plain = weigh(estimator, baseline, k, kind), weigh(estimator, "none", k, None)
    outcomes = Outcomes.of(
        p,
        rewards,
        None if kind is None else lengths,
        scores @ scores.T,
        None if drawn is None else p / drawn,
        drawn,
    )
    found, variance = found_anatomy(
        outcomes, n, own, None if baseline == "none" else plain, ordered
    )

    tuples = torch.tensor(list(itertools.product(range(3), repeat=n)))
    chance = (p if drawn is None else drawn)[tuples].prod(1)
    g = lengths[tuples]
    estimates = torch.einsum("sn,snp->sp", own(rewards[tuples], g, None), scores[tuples])
    without = torch.einsum("sn,snp->sp", plain(rewards[tuples], None, None), scores[tuples])
    higher, first = higher_terms(estimates, tuples, chance)
    of_plain, _ = higher_terms(without, tuples, chance)
    of_baseline = of_plain - higher
    expected = Anatomy(
        first,
        (chance @ of_plain.square().sum(1)).item(),
        (chance @ of_baseline.square().sum(1)).item(),
        -2 * (chance @ (of_plain * of_baseline).sum(1)).item(),
    )
    # Parts cancel: rounding is relative to the largest of them, or of what it was made from.
    size = max(map(abs, astuple(expected))) + (chance @ without.square().sum(1)).item()
    assert astuple(found) == pytest.approx(astuple(expected), rel=1e-10, abs=1e-13 * size)
    assert sum(astuple(found)) == pytest.approx(variance, rel=1e-10, abs=1e-13 * size)


def test_of_one_sample_at_a_time_without_baseline_there_are_no_higher_terms():
    p, rewards, _, scores, _ = table([0.3, -1.0, 2.0, 0.5])
    outcomes = Outcomes.of(p, rewards, None, scores @ scores.T)
    found, variance = found_anatomy(outcomes, 5, weigh("maxk", "none", 1, None), None, False)
    assert found.variance_first == pytest.approx(variance, rel=1e-12)
    assert found.variance_cross == pytest.approx(0.0, abs=1e-14)
    assert (found.variance_baseline, found.variance_interaction) == (0.0, 0.0)


@pytest.mark.parametrize("n", [2, 5])
def test_the_leave_one_out_mean_acts_as_its_expectation_plus_noise_of_pairs(n):
    """The baseline of K = 1, centred, has no first-order term.

    ĝ = Σ (R_i − J) ψ_i / n − Σ_{i≠j} (R_j − J) ψ_i / (n(n−1)).
    """
    p, rewards, _, scores, _ = table([0.3, -1.0, 2.0, 0.5])
    outcomes = Outcomes.of(p, rewards, None, scores @ scores.T)
    own, plain = weigh("maxk", "centred", 1, None), weigh("maxk", "none", 1, None)
    found, _ = found_anatomy(outcomes, n, own, plain, False)
    gap, norms = rewards - p @ rewards, scores.square().sum(1)
    gradient = ((p * rewards) @ scores).square().sum()
    first = (p @ (gap.square() * norms) - gradient) / n
    noise = ((p @ gap.square()) * (p @ norms) + gradient) / (n * (n - 1))
    assert found.variance_first == pytest.approx(first.item(), rel=1e-12)
    assert found.variance_baseline == pytest.approx(noise.item(), rel=1e-12)
    assert found.variance_cross == pytest.approx(0.0, abs=1e-14)
    assert found.variance_interaction == pytest.approx(0.0, abs=1e-14)
