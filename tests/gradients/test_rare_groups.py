"""Which groups carry an estimate, against lists of all groups."""

import math

import numpy as np
import pytest
import torch
from score_tables import every_group

from maxk_lab.estimators.method import Method
from maxk_lab.gradients.sampled.rare_groups import (
    RareGroups,
    beyond_rounding,
    drawn_number,
    levels_of,
)
from maxk_lab.gradients.scores.pool import Listing, Part, ScorePool
from maxk_lab.statistics.units import LEAST_DRAWN

REPLICATES = 100


def pool_of(probabilities, rewards, *, drawn=None):
    """A pool of one instance whose trajectories have random scores of mean 0."""
    p, values = torch.tensor(probabilities).double(), torch.tensor(rewards).double()
    scores = torch.from_numpy(np.random.default_rng(0).normal(size=(len(p), 3)))
    scores = scores - p @ scores
    blank = torch.ones_like(p)
    listed = Listing(values, blank, blank, blank, probabilities=p, behaviour=p)
    rows = torch.arange(len(p)) if drawn is None else torch.tensor(drawn)
    of_draws = Listing(*(column[rows] for column in vars(listed).values()))
    part = Part(of_draws, rows, blank[:, None], blank[:1], blank[:1], scores @ scores.T)
    return ScorePool((Part(**vars(part) | {"listed": None if drawn else listed}),), ("maxk",), 0.0)


@pytest.mark.parametrize("baseline", ["none", "centred", "subloo"])
@pytest.mark.parametrize("rewards", [[0.0, 1.0, 1.0, 3.0], [0.0, 0.0, 0.0, 1.0]])
def test_levels_give_the_mean_square_of_all_groups(baseline, rewards):
    method, n = Method.parse("maxk", baseline, 2), 4
    pool = pool_of([0.4, 0.3, 0.2, 0.1], rewards)
    groups = RareGroups(pool, n, REPLICATES)
    squares = groups.squares(method, None)
    (part,) = pool.parts
    rows, chance = every_group(part.listed.probabilities, n)
    weights = method.weights(part.listed.rewards[rows])
    grams = part.gram[rows[:, :, None], rows[:, None, :]]
    mean_square = chance @ torch.einsum("sn,snm,sm->s", weights, grams, weights)
    assert (squares * groups.chances).sum() == pytest.approx(mean_square.item())
    assert groups.chances.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("n", "k"), [(4, 2), (4, 4), (2, 2), (100, 2)])
def test_the_groups_that_carry_a_rare_success_or_failure_are_counted(n, k):
    """`subloo` needs k − 1 samples below the best: of rare failures that takes as many."""
    for rare in (1e-3 if n < 100 else 1e-5, 1e-6):
        for p, fewest in ((1 - rare, k - 1), (rare, 1)):
            groups = RareGroups(pool_of([1 - p, p], [0.0, 1.0]), n, REPLICATES)
            squares = groups.squares(Method.parse("maxk", "subloo", k), None)
            chance = rare**fewest * math.comb(n, fewest)
            assert groups.expected_number(squares)[0] == pytest.approx(
                REPLICATES * chance, rel=0.02
            )


def test_rare_groups_are_the_least_likely_of_which_three_are_expected():
    p, n, replicates = 1e-3, 4, 10_000
    groups = RareGroups(pool_of([1 - p, p], [0.0, 1.0]), n, replicates)
    successes = np.array([math.comb(n, m) * p**m * (1 - p) ** (n - m) for m in range(n + 1)])
    two = successes[2:].sum()
    share = (LEAST_DRAWN / replicates - two) / successes[1]
    assert 0 < share < 1
    for m, value in ((2, successes[2]), (1, share * successes[1]), (0, 0.0)):
        squares = (groups.multisets.sum(1) == m).astype(float)[np.newaxis]
        assert groups.rare(squares) == (pytest.approx([value]), pytest.approx([value]))


def test_what_is_rare_in_one_pool_need_not_be_rare_in_the_pools_of_all_instances():
    (part,) = pool_of([0.999, 0.001], [0.0, 1.0]).parts
    alone, several = (
        RareGroups(ScorePool((part,) * count, ("maxk",), 0.0), 4, 1000) for count in (1, 8)
    )
    squares = several.squares(Method.parse("maxk", "centred", 2), None)
    of_all, of_each = several.rare(squares)
    assert of_each == pytest.approx(alone.rare(squares[:1])[1].repeat(8))
    assert (of_all < of_each / 2).all()


def test_the_chances_of_a_pool_without_a_list_are_those_of_its_draws():
    drawn = [0] * 6 + [1] * 3 + [2]
    listed = RareGroups(pool_of([0.6, 0.3, 0.1], [0.0, 1.0, 2.0]), 3, REPLICATES)
    sampled = RareGroups(pool_of([0.6, 0.3, 0.1], [0.0, 1.0, 2.0], drawn=drawn), 3, REPLICATES)
    method = Method.parse("maxk", "centred", 2)
    assert sampled.chances == pytest.approx(listed.chances)
    assert sampled.squares(method, None) == pytest.approx(listed.squares(method, None))


def test_the_drawn_number_is_the_lower_end_of_the_groups_that_carry():
    squares = torch.zeros(3, 400)
    squares[0, :40] = 2.0
    squares[1] = 5.0
    found = drawn_number(squares, 400, 3200)
    # 40 of 400 carry: the mean length has the relative error of 44 rare events.
    assert 30 < found[0] < 40
    assert found[1] == pytest.approx(3200, rel=0.05)
    assert found[2] == 0.0


def test_weights_of_tied_rewards_are_rounding():
    rewards = torch.tensor([[0.1, 0.1, 0.1], [0.1, 0.2, 0.1]], dtype=torch.float64)
    weights = torch.tensor([[1e-17, -1e-17, 1e-18], [-0.1, 0.2, -0.1]], dtype=torch.float64)
    assert beyond_rounding(weights, rewards).tolist() == [[0.0] * 3, weights[1].tolist()]


def test_levels_split_rewards_where_it_explains_most():
    rewards = np.array([5.0, 0.0, 0.1, 9.0, 5.0, 0.2])
    chance = np.array([0.2, 0.2, 0.2, 0.01, 0.2, 0.19])
    for most, wanted in (
        (2, [1, 0, 0, 1, 1, 0]),
        (3, [1, 0, 0, 2, 1, 0]),
        (9, [3, 0, 1, 4, 3, 2]),
    ):
        assert levels_of(rewards, chance, most).tolist() == wanted
    found = levels_of(rewards, chance, 4)  # of 0, 0.1 and 0.2, the split that explains most
    assert found[0] == found[4] == found[3] - 1 > found[5] > found[1]
    for certain in (0, 4, 9):  # the other chances are lost in the sums
        lost = np.where(np.arange(10) == certain, 1.0, 1e-20)
        assert set(levels_of(np.arange(10.0), lost, 5)) == set(range(5))
