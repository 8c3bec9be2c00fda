"""The moments of an instance from its independent blocks, their errors, and the bias.

Index: I instances, B blocks.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from maxk_lab.statistics.deviations import Deviation, Deviations
from maxk_lab.statistics.units import Array

# The number of blocks of an instance in a record. More blocks are averaged in equal runs of
# neighbours, unless few instances keep the total below this number.
KEPT = 8
KEPT_IN_ALL = 128
# Differences of products below this share of them are rounding errors, not bias: two estimators may
# differ by a factor alone.
ROUNDING = 1e-12


def together(blocks: int) -> int:
    """Return how many blocks a record averages; `within` needs a multiple of this number."""
    return -(-blocks // KEPT)


class Blocks:
    """B independent blocks of each of I instances, with mean estimates X_b.

    m2 [I, B] is the mean ‖ĝ‖² of a block. `square` [I, B, B] is ⟨X_b, X_c⟩, `cross` ⟨X_b, Y_c⟩ and
    `reference` ⟨Y_b, Y_c⟩; Y_b are the mean estimates of the reference method of the bias. With the
    `exact` ∇J as reference, every Y_b is ∇J.
    """

    def __init__(self, m2: Array, square: Array, cross: Array, reference: Array, *, exact: bool):
        self._square, self._cross, self._reference = square, cross + cross.swapaxes(1, 2), reference
        mean_square = _pair_mean(square)
        if exact:
            inner = _block_mean(cross[:, :, 0])
            truth = reference[:, 0, 0], np.zeros_like(m2)
        else:
            inner, truth = _pair_mean(self._cross / 2), _pair_mean(reference)
        # The mean [I] of every instance, and the distances [I, B] of its blocks to the mean.
        self._estimates = (_block_mean(m2), mean_square, inner, truth)

    def columns(self) -> Array:
        """Unbiased estimates of E‖ĝ‖², ‖E ĝ‖², ⟨E ĝ, ∇J⟩ and ‖∇J‖²: [4, I]."""
        return np.stack([mean for mean, _ in self._estimates])

    def within(self) -> Array:
        """The distances of the blocks to their instance's mean, in every column: [4, I, B']."""
        distances = np.stack([by_block for _, by_block in self._estimates])
        _, instances, blocks = distances.shape
        averaged = 1 if instances * blocks <= KEPT_IN_ALL else together(blocks)
        means: Array = distances.reshape(4, instances, -1, averaged).mean(3)
        return means

    def deviations(self, tested: NDArray[np.bool_]) -> Deviations:
        """The deviation of E ĝ from ∇J: along ∇J, in any direction, and from the nearest s∇J.

        s is one factor for all `tested` instances [I], Σ⟨E ĝ, ∇J⟩ / Σ‖∇J‖².
        """
        _, _, (inner, _), (truth, _) = self._estimates
        total = truth[tested].sum()
        scale = float(inner[tested].sum() / total) if total > 0 else 1.0
        return Deviations(self._along(), self._apart(1.0), beside=self._apart(scale))

    def _along(self) -> Deviation:
        _, _, inner, truth = self._estimates
        size = _largest(self._cross) + _largest(self._reference)
        return Deviation.of(
            _beyond_rounding(inner[0] - truth[0], size),
            _beyond_rounding(inner[1] - truth[1], size[:, None]),
        )

    def _apart(self, scale: float) -> Deviation:
        """Return ‖E X − s E Y‖², the first half of the blocks against the second half.

        Given the mean of the first half, its products with the blocks of the second half are
        independent. So a t statistic is valid for any number of noise directions (Kim and Ramdas
        2024, "Dimension-agnostic inference using cross U-statistics").
        """
        products = (
            self._square - scale * self._cross + scale**2 * self._reference
        )  # ⟨X_b − s Y_b, …⟩
        size = (
            _largest(self._square)
            + abs(scale) * _largest(self._cross)
            + scale**2 * _largest(self._reference)
        )
        half = products.shape[1] // 2
        of_second = _beyond_rounding(products, size[:, None, None])[:, :half, half:].mean(1)
        mean = of_second.mean(1)
        return Deviation.of(mean, of_second - mean[:, None])


def _largest(products: Array) -> Array:
    """Return the largest absolute value of every instance, [I, B, B] → [I]."""
    largest: Array = np.abs(products).max((1, 2))
    return largest


def _beyond_rounding(differences: Array, size: Array) -> Array:
    """Return the differences of numbers of this size, with rounding errors set to 0."""
    return np.where(np.abs(differences) <= ROUNDING * size, 0.0, differences)


def _block_mean(values: Array) -> tuple[Array, Array]:
    """Return the mean of values [I, B], and their distances to it."""
    mean = values.mean(1)
    return mean, values - mean[:, None]


def _pair_mean(products: Array) -> tuple[Array, Array]:
    """Return the mean over pairs b ≠ c of products [I, B, B], which excludes a block's own noise.

    The distances are those of the jackknife's pseudo-values, NaN for fewer than three blocks.
    """
    blocks = products.shape[1]
    with_others = products.sum(2) - np.diagonal(products, axis1=1, axis2=2)
    mean = with_others.sum(1) / (blocks * (blocks - 1))
    if blocks < 3:
        return mean, np.full_like(with_others, np.nan)
    distances = with_others - with_others.mean(1, keepdims=True)
    return mean, 2 * distances / (blocks - 2)


def mean_of_blocks(values: Tensor) -> tuple[Array, Array]:
    """Return the mean [I] of the defined values [I, B], and its error (NaN below two values)."""
    blocks = values.double().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean, spread = np.nanmean(blocks, axis=1), np.nanstd(blocks, axis=1, ddof=1)
        return mean, spread / np.sqrt((~np.isnan(blocks)).sum(1))
