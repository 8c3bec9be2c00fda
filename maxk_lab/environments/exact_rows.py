"""The rows of the bandit and of the Gaussian environment, and the Gaussian's reward functions.

This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.functions import FunctionRow, ScoredRow, listed, load_function
from maxk_lab.environments.rows import MOST_ARMS, MOST_COORDINATES, EnvironmentRow
from maxk_lab.errors import LabError, shown
from maxk_lab.ranges import ANYWHERE, SHARES, Range
from maxk_lab.settings import Settings, number, setting

if TYPE_CHECKING:
    from torch import Tensor

BANDIT_LIMIT = 2_000
EXPONENTIAL_RATE = 5.0

# The rewards of a table. All tables but the Gaussian ones are equal for every instance and ascend
# with the arm.
REWARD_TABLES = {
    "gaussian": "N(0, 1) per arm and instance",
    "linear": "spaced evenly over [0, 1], by arm",
    "exponential": f"(e^({EXPONENTIAL_RATE:g}x) − 1) / (e^{EXPONENTIAL_RATE:g} − 1) of x spaced "
    "evenly over [0, 1], by arm",
    "binary": "1 for the last arm, 0 for the others",
}


class BanditSettings(Settings):
    """The settings of a bandit."""

    arms: int = number(10, "number of arms", low=2, high=MOST_ARMS)
    reward_shift: float = number(0.0, "constant added to every reward")
    rewards: Literal["gaussian", "linear", "exponential", "binary"] = setting(
        "gaussian",
        "; ".join(f"{name}: {meaning}" for name, meaning in REWARD_TABLES.items()),
        later=True,
    )


@dataclass(frozen=True, kw_only=True)
class BanditRow(EnvironmentRow):
    """A bandit: one decision without a network, for any number of arms."""

    def other_rewards(self, parameters: Mapping[str, Any]) -> str | None:
        table = parameters.get("rewards", "gaussian")
        if table == "binary" and parameters["reward_shift"] == 0:
            return None
        return f"those of {self.name} are {REWARD_TABLES[table]}, plus reward_shift"

    def reward_range(self, parameters: Mapping[str, Any]) -> Range:
        if parameters.get("rewards", "gaussian") == "gaussian":
            return ANYWHERE
        shift = float(parameters["reward_shift"])
        return Range(shift, 1 + shift)


BANDIT = BanditRow(
    name="bandit",
    meaning="tabular softmax bandit: one logit per arm, a fixed reward per arm and instance",
    reward="that of the table `rewards`, N(0, 1) per arm and instance unless another is chosen, "
    "plus reward_shift",
    implementation="maxk_lab.environments.exact:Bandit",
    settings=BanditSettings,
    policies=("tabular",),
    exact_when=f"arms ≤ {BANDIT_LIMIT}",
    small={"arms": 6},
    size_parameter="arms",
    label=("bandit", "with {arms} arms", "({rewards} rewards)"),
    enumerable_up_to=BANDIT_LIMIT,
    graded=True,
)


@dataclass(frozen=True, kw_only=True)
class GaussianRewardRow(FunctionRow):
    """A reward function of actions x [..., dim] → [...].

    `breakpoints` are its jumps in dim = 1, and the ends of stretches that a coarse grid would miss.
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
    """Return the reward, a mean over coordinates."""
    return (x.square() * ((x >= 0) & (x <= 1))).mean(-1)


@reward("x: the gradient with respect to the mean is the same for every K, and its variance is not")
def slope(x: Tensor) -> Tensor:
    """Return the reward, a mean over coordinates."""
    return x.mean(-1)


GAUSSIAN_REWARDS: Catalogue[GaussianRewardRow] = Catalogue(
    "Gaussian reward", _ROWS, "maxk_lab.gaussian_rewards"
)


def load_gaussian_reward(name: str) -> tuple[Any, tuple[float, ...]]:
    """The function with a catalogue name or a path `package.module:name`, and its breakpoints.

    A user's function declares its jumps in an attribute `breakpoints`. Raises `LabError` for a
    missing function, and for breakpoints that are not numbers.
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


class GaussianSettings(Settings):
    """The settings of draws from a Gaussian."""

    dim: int = number(1, "number of coordinates", low=1, high=MOST_COORDINATES)
    reward: str = setting(
        "square_on_unit",
        "a name (see: maxk-lab list gaussian_rewards) or a dotted path package.module:name of a "
        "function of x [..., dim] → [...]",
    )


@dataclass(frozen=True, kw_only=True)
class GaussianRow(ScoredRow):
    """The Gaussian environment: its actions are real numbers, which are integrated, not listed."""

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        return False

    def integrable(self, parameters: Mapping[str, Any]) -> bool:
        return bool(parameters["dim"] == 1)

    def refuses_weight(self, kind: str) -> str | None:
        return "a Gaussian policy has no logits" if kind == "logit_proxy" else None


GAUSSIAN = GaussianRow(
    name="gaussian",
    meaning="one draw from a diagonal Gaussian with learnable mean, and learnable scale if wanted; "
    "no context",
    reward="that of the function `reward` of the draw",
    implementation="maxk_lab.environments.exact:Gaussian",
    citation="PKPO, arXiv 2505.15201",
    settings=GaussianSettings,
    functions=GAUSSIAN_REWARDS,
    policies=("gaussian",),
    label=("Gaussian draws", "({reward})"),
    exact_when="dim = 1, by quadrature",
    listable=False,
    small={"dim": 1},
)
