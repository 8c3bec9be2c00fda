"""The estimates of blocks against loops over them, written out."""

import numpy as np
import pytest
import torch

from maxk_lab.gradients.sampled import blocks as blocks_module
from maxk_lab.gradients.sampled.blocks import KEPT, Blocks, mean_of_blocks, together

INSTANCES, WIDTH = 3, 4
EVERY = np.ones(INSTANCES, dtype=bool)
both_ways = pytest.mark.parametrize("exact", [True, False])


def draw(blocks, *, exact, seed=0, off=0.3):
    """Mean estimates X and Y [I, B, P] of blocks, and their mean ‖ĝ‖² [I, B]."""
    rng = np.random.default_rng(seed)
    gradient = rng.normal(size=(INSTANCES, 1, WIDTH))
    first = gradient + np.asarray(off) + rng.gamma(1.0, 0.3, (INSTANCES, blocks, WIDTH)) - 0.3
    noise = 0.0 if exact else rng.gamma(1.0, 0.3, (INSTANCES, blocks, WIDTH)) - 0.3
    second = np.broadcast_to(gradient + noise, first.shape)
    return first, second, rng.gamma(5.0, 1.0, (INSTANCES, blocks))


def made(first, second, squared, *, exact):
    """The blocks of these estimates."""
    pairs = ((first, first), (first, second), (second, second))
    return Blocks(squared, *(a @ b.swapaxes(1, 2) for a, b in pairs), exact=exact)


def over_pairs(a, b):
    """The mean of ⟨a_i, b_j⟩ over all pairs of different blocks, [B, P] each."""
    products = [a[i] @ b[j] for i in range(len(a)) for j in range(len(a)) if i != j]
    return sum(products) / len(products)


def estimates(x, y, squared, exact):
    """The four moments of one instance from its blocks: x, y [B, P]."""
    inner = np.mean([one @ y[0] for one in x]) if exact else over_pairs(x, y)
    truth = y[0] @ y[0] if exact else over_pairs(y, y)
    return np.array([squared.mean(), over_pairs(x, x), inner, truth])


@both_ways
@pytest.mark.parametrize("blocks", [2, 3, 8])
def test_moments_are_means_over_blocks_or_pairs_and_blocks_lie_as_the_jackknife_says(blocks, exact):
    """Each pseudo-value is B times the estimate, less B − 1 times that without the block."""
    drawn = draw(blocks, exact=exact)
    found = made(*drawn, exact=exact)
    within = found.within()
    assert within.shape == (4, INSTANCES, blocks)
    for i in range(INSTANCES):
        x, y, squared = (part[i] for part in drawn)
        whole = estimates(x, y, squared, exact)
        assert found.columns()[:, i] == pytest.approx(whole)
        for b in range(blocks if blocks > 2 else 0):
            rest = [c for c in range(blocks) if c != b]
            # Without a block of three there is one pair left, in both orders.
            without = estimates(x[rest], y[rest], squared[rest], exact)
            pseudo = blocks * whole - (blocks - 1) * without
            assert within[:, i, b] == pytest.approx(pseudo - whole, abs=1e-12)
    unknown = np.isnan(found.deviations(EVERY).along.variance)
    assert unknown.all() if blocks == 2 and not exact else not unknown.any()
    if blocks == 2:  # They tell the error of what is a mean of blocks only.
        known = ~np.isnan(within).any((1, 2))
        assert known.tolist() == [True, False, exact, exact]
        assert not exact or not within[3].any()


def test_a_record_keeps_means_of_equally_many_neighbours(monkeypatch):
    monkeypatch.setattr(blocks_module, "KEPT_IN_ALL", INSTANCES * 12 - 1)
    drawn = draw(12, exact=True)
    within = made(*drawn, exact=True).within()
    far = drawn[2] - drawn[2].mean(1, keepdims=True)
    assert within.shape == (4, INSTANCES, 6)
    for kept in range(6):
        assert within[0, :, kept] == pytest.approx((far[:, 2 * kept] + far[:, 2 * kept + 1]) / 2)
    assert within.sum(2) == pytest.approx(np.zeros((4, INSTANCES)), abs=1e-10)
    for blocks in range(1, 70):
        assert blocks / together(blocks) <= KEPT < blocks / max(together(blocks) - 1, 1e-9)


@both_ways
@pytest.mark.parametrize("blocks", [4, 7])
def test_deviations_are_those_of_the_second_half_from_the_first(blocks, exact):
    drawn = draw(blocks, exact=exact)
    blocks_of = made(*drawn, exact=exact)
    found, columns, half = blocks_of.deviations(EVERY), blocks_of.columns(), blocks // 2
    scale = columns[2].sum() / columns[3].sum()
    for i in range(INSTANCES):
        x, y, squared = (part[i] for part in drawn)
        _, _, inner, truth = estimates(x, y, squared, exact)
        assert found.along.mean[i] == pytest.approx(inner - truth)
        for name, factor in (("anywhere", 1.0), ("beside", scale)):
            away = x - factor * y
            of_second = np.array([one @ away[:half].mean(0) for one in away[half:]])
            own, count = getattr(found, name), blocks - half
            assert own.mean[i] == pytest.approx(of_second.mean())
            assert own.variance[i] == pytest.approx(of_second.var(ddof=1) / count)
            assert own.freedom == count - 1
    along = blocks_of.within()[2] - blocks_of.within()[3]
    assert found.along.variance == pytest.approx(along.var(1, ddof=1) / blocks)
    assert found.along.freedom == blocks - 1


def test_blocks_without_a_number_are_left_out():
    values = torch.tensor([[1.0, 3.0, np.nan], [2.0, np.nan, np.nan], [np.nan] * 3])
    mean, error = mean_of_blocks(values)
    assert mean.tolist() == pytest.approx([2.0, 2.0, np.nan], nan_ok=True)
    assert error.tolist() == pytest.approx([1.0, np.nan, np.nan], nan_ok=True)


@pytest.mark.parametrize("factor", [0.875, 1 / 3, 1.0, 0.0])
def test_an_estimator_that_differs_by_a_factor_alone_shows_no_other_bias(factor):
    """Group by group, so that all that is left beside the factor is rounding."""
    _, second, squared = draw(16, exact=False)
    wide = second @ np.random.default_rng(0).normal(size=(WIDTH, 300)) * 1e3
    blocks = made(factor * wide, wide, squared, exact=False)
    found, truth = blocks.deviations(EVERY), blocks.columns()[3]
    assert not found.beside.mean.any()
    assert not found.beside.variance.any()
    assert found.along.mean == pytest.approx((factor - 1) * truth)
    # A difference of a millionth is no rounding, and a gradient of zero has the factor 1.
    moved, shift = second.copy(), 1e-5 * np.abs(second).max()
    moved[:, :, 0] += shift
    found = made(moved, second, squared, exact=False).deviations(EVERY)
    assert found.anywhere.mean == pytest.approx(np.full(INSTANCES, shift**2), rel=1e-4)
    found = made(second, 0 * second, squared, exact=True).deviations(EVERY)
    assert found.beside.mean.tolist() == found.anywhere.mean.tolist()


def test_an_instance_that_is_not_tested_moves_no_sum():
    """Whatever its estimates are: the deviations of the others stay as they are alone."""
    first, second, squared = draw(16, exact=True, off=0.0)
    tested = np.array([False, True, True])
    before = made(first, second, squared, exact=True).deviations(tested).only(tested)
    first[0] += 5.0
    after = made(first, second, squared, exact=True).deviations(tested).only(tested)
    for part in ("along", "anywhere", "beside"):
        for name in ("mean", "variance", "third", "carrying"):
            values = getattr(getattr(after, part), name)
            assert values[0] == 0.0
            assert values.tolist() == getattr(getattr(before, part), name).tolist()
