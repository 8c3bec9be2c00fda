"""The reward functions of the Gaussian environment: actions x [..., dim] → rewards [...]."""

from __future__ import annotations

from torch import Tensor

HILL_HEIGHT, HILL_WIDTH = 0.6, 0.5
PEAK_AT, PEAK_WIDTH = 1.0, 0.05


def square_on_unit(x: Tensor) -> Tensor:
    """x² for a coordinate in [0, 1], 0 outside; the mean over coordinates."""
    return (x.square() * _inside(x)).mean(-1)


def inside_unit(x: Tensor) -> Tensor:
    """1 where every coordinate is in [0, 1], else 0."""
    return _inside(x).all(-1).to(x)


def two_peaks(x: Tensor) -> Tensor:
    """A broad hill at 0 plus a narrow, higher peak at 1, the mean over coordinates."""
    hill = HILL_HEIGHT * (-0.5 * (x / HILL_WIDTH).square()).exp()
    peak = (-0.5 * ((x - PEAK_AT) / PEAK_WIDTH).square()).exp()
    return (hill + peak).mean(-1)


def bowl(x: Tensor) -> Tensor:
    """−x², the mean over coordinates."""
    return -x.square().mean(-1)


def slope(x: Tensor) -> Tensor:
    """x, the mean over coordinates."""
    return x.mean(-1)


def _inside(x: Tensor) -> Tensor:
    return (x >= 0) & (x <= 1)
