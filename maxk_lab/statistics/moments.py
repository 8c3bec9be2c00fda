"""Measures of a gradient estimate ĝ of ∇J from its moments, each a mean over resampling units.

Every function takes E‖ĝ‖² (`m2`), ‖E ĝ‖² (`mean_square`), ⟨E ĝ, ∇J⟩ (`inner`) and ‖∇J‖² (`truth`),
arrays of one shape, and returns one of that shape.
"""

from __future__ import annotations

import numpy as np

from maxk_lab.statistics.units import Array


def variance(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """tr Cov ĝ."""
    return m2 - mean_square


def snr(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """‖E ĝ‖² / tr Cov ĝ."""
    return mean_square / (m2 - mean_square)


def mean_square(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """‖E ĝ‖²."""
    return mean_square


def squared_bias(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """‖E ĝ − ∇J‖²."""
    return mean_square - 2 * inner + truth


def scale(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """The factor on ∇J that E ĝ is nearest to."""
    return inner / truth


def cosine(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """The cosine of the angle between E ĝ and ∇J."""
    found: Array = inner / np.sqrt(np.maximum(mean_square, 1e-300) * np.maximum(truth, 1e-300))
    return found
