"""The reward functions of the Gaussian environment, each with its row: x [..., dim] → [...].

Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.lookup import load_function
from maxk_lab.environments.scored import FunctionRow, listed
from maxk_lab.errors import LabError, shown
from maxk_lab.ranges import NOT_NEGATIVE, NOT_POSITIVE, SHARES

if TYPE_CHECKING:
    from torch import Tensor

HILL_HEIGHT, HILL_WIDTH = 0.6, 0.5
PEAK_AT, PEAK_WIDTH = 1.0, 0.05


@dataclass(frozen=True, kw_only=True)
class GaussianRewardRow(FunctionRow):
    """A reward function of actions x [..., dim] → [...].

    `breakpoints` are where it jumps in dim = 1, or ends a stretch that a coarse grid would miss.
    """

    breakpoints: tuple[float, ...] = ()


_ROWS: list[GaussianRewardRow] = []
reward = listed(_ROWS, GaussianRewardRow)


@reward(
    "x² on [0, 1], else 0: the closer to the edge the better, until it falls off",
    citation="PKPO, arXiv 2505.15201, Figure 1",
    breakpoints=(0.0, 1.0),
    within=SHARES,
)
def square_on_unit(x: Tensor) -> Tensor:
    """The mean over coordinates."""
    return (x.square() * _inside(x)).mean(-1)


@reward(
    "1 where every coordinate is in [0, 1], else 0: Max@K is pass@K",
    breakpoints=(0.0, 1.0),
    binary=True,
)
def inside_unit(x: Tensor) -> Tensor:
    return _inside(x).all(-1).to(x)


@reward(
    "a broad hill of height .6 at 0 plus a narrow one of height 1 at 1: mean and Max@K disagree",
    breakpoints=(0.75, 1.25),
    within=NOT_NEGATIVE,
)
def two_peaks(x: Tensor) -> Tensor:
    """The mean over coordinates."""
    hill = HILL_HEIGHT * (-0.5 * (x / HILL_WIDTH).square()).exp()
    peak = (-0.5 * ((x - PEAK_AT) / PEAK_WIDTH).square()).exp()
    return (hill + peak).mean(-1)


@reward(
    "−x²: every Max@K agrees that the mean should be 0, and disagrees about the scale",
    within=NOT_POSITIVE,
)
def bowl(x: Tensor) -> Tensor:
    """The mean over coordinates."""
    return -x.square().mean(-1)


@reward("x: the gradient with respect to the mean is the same for every K, and its variance is not")
def slope(x: Tensor) -> Tensor:
    """The mean over coordinates."""
    return x.mean(-1)


GAUSSIAN_REWARDS: Catalogue[GaussianRewardRow] = Catalogue(
    "Gaussian reward", _ROWS, "maxk_lab.gaussian_rewards"
)


def load_gaussian_reward(name: str) -> tuple[Any, tuple[float, ...]]:
    """The function behind a catalogue name or a path `package.module:name`, and its breakpoints.

    A function of the user's own says where it jumps in an attribute `breakpoints`. Raises
    `LabError` for what is not there, is no function, or has breakpoints that are no numbers.
    """
    function = load_function(name, GAUSSIAN_REWARDS, "of x [..., dim] → [...]")
    if ":" not in name:
        return function, GAUSSIAN_REWARDS.get(name).breakpoints
    points = getattr(function, "breakpoints", ())
    try:
        return function, tuple(sorted(float(point) for point in points))
    except (TypeError, ValueError):
        raise LabError(
            f"the breakpoints of the reward function {shown(name)} must be numbers, "
            f"got {shown(points)}"
        ) from None


def _inside(x: Tensor) -> Tensor:
    return (x >= 0) & (x <= 1)
