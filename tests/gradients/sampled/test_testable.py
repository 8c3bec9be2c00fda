"""The pool from which on an instance is tested, where every trajectory is listed."""

import pytest
import torch

from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.sampled.references import LEAST_CARRYING, carrying_share
from maxk_lab.gradients.scores.pool import Listing


def needed(probabilities, rewards, k=1, *, behaviour=None, lengths=None):
    """The pool that an instance needs."""
    own, values = torch.tensor(probabilities).double(), torch.tensor(rewards).double()
    drawn = own if behaviour is None else torch.tensor(behaviour).double()
    squared = torch.ones_like(own) if lengths is None else torch.tensor(lengths).double() ** 2
    listed = Listing(values, own, own, own, probabilities=own, behaviour=drawn)
    return LEAST_CARRYING / carrying_share(listed, squared, Objective("max", k))


@pytest.mark.parametrize("rare", [0.1, 1e-3, 1e-6])
def test_one_rare_trajectory_that_carries_all_must_be_drawn_so_often(rare: float) -> None:
    pool = needed([1 - rare, rare], [0.0, 1.0], lengths=[0.0, 1.0])
    assert pool == pytest.approx(LEAST_CARRYING / rare)


def test_trajectories_of_alike_shares_are_carried_by_every_draw() -> None:
    pool = needed([0.25] * 4, [1.0, 1.0, -1.0, -1.0])
    assert pool == pytest.approx(LEAST_CARRYING)


def test_what_counts_is_the_chance_under_the_policy_that_draws() -> None:
    rare, often = (
        needed([0.999, 0.001], [0.0, 1.0], behaviour=[1 - b, b], lengths=[0.0, 1.0])
        for b in (0.001, 0.5)
    )
    assert (rare, often) == (
        pytest.approx(LEAST_CARRYING / 0.001),
        pytest.approx(2 * LEAST_CARRYING),
    )


@pytest.mark.parametrize("k", [1, 3])
def test_a_shift_of_all_rewards_changes_nothing_and_padding_neither(k: int) -> None:
    one = needed([0.7, 0.2, 0.1], [0.0, 1.0, 3.0], k)
    assert needed([0.7, 0.2, 0.1], [50.0, 51.0, 53.0], k) == pytest.approx(one)
    assert needed([0.7, 0.2, 0.1, 0.0], [0.0, 1.0, 3.0, 0.0], k) == pytest.approx(one)


def test_no_pool_is_enough_where_there_is_no_gradient() -> None:
    assert needed([0.5, 0.5], [1.0, 1.0]) > 1e60  # as much as a record holds stands for any number
