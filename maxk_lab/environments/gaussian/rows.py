"""The catalogue of the Gaussian environment: its reward functions, and what may be set about it.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.environments.footprint import Footprint
from maxk_lab.environments.named_functions import check_function, load_function
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.errors import LabError, shown
from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, NOT_POSITIVE, SHARES, Range
from maxk_lab.settings import Settings, number, setting

_TAKES = "of x [..., dim] → [...]"


@dataclass(frozen=True, kw_only=True)
class GaussianRewardRow(Row):
    """A reward function of actions x [..., dim] → [...], and the range of its values.

    `breakpoints` are where it jumps in dim = 1, or ends a stretch that a coarse grid would miss.
    """

    breakpoints: tuple[float, ...] = ()
    binary: bool = False
    within: Range = ANYWHERE

    @property
    def range(self) -> Range:
        """The range that its values do not leave."""
        return SHARES if self.binary else self.within


def _reward(name: str, meaning: str, **settings: Any) -> GaussianRewardRow:
    home = "maxk_lab.environments.gaussian.rewards"
    return GaussianRewardRow(
        name=name, meaning=meaning, implementation=f"{home}:{name}", **settings
    )


GAUSSIAN_REWARDS: Catalogue[GaussianRewardRow] = Catalogue(
    "Gaussian reward",
    [
        _reward(
            "square_on_unit",
            "x² on [0, 1], else 0: the closer to the edge the better, until it falls off",
            citation="PKPO, arXiv 2505.15201, Figure 1",
            breakpoints=(0.0, 1.0),
            within=SHARES,
        ),
        _reward(
            "inside_unit",
            "1 where every coordinate is in [0, 1], else 0: Max@K is pass@K",
            breakpoints=(0.0, 1.0),
            binary=True,
        ),
        _reward(
            "two_peaks",
            "a broad hill of height .6 at 0 plus a narrow one of height 1 at 1: mean and Max@K "
            "disagree",
            breakpoints=(0.75, 1.25),
            within=NOT_NEGATIVE,
        ),
        _reward(
            "bowl",
            "−x²: every Max@K agrees that the mean should be 0, and disagrees about the scale",
            within=NOT_POSITIVE,
        ),
        _reward(
            "slope",
            "x: the gradient with respect to the mean is the same for every K, and its variance "
            "is not",
        ),
    ],
    "maxk_lab.gaussian_rewards",
)


def load_gaussian_reward(name: str) -> tuple[Any, tuple[float, ...]]:
    """The function behind a catalogue name or a path `package.module:name`, and its breakpoints.

    A function of the user's own says where it jumps in an attribute `breakpoints`. Raises
    `LabError` for what is not there, is no function, or has breakpoints that are no numbers.
    """
    found = load_function(name, GAUSSIAN_REWARDS, _TAKES)
    if ":" not in name:
        return found, GAUSSIAN_REWARDS.get(name).breakpoints
    given = getattr(found, "breakpoints", ())
    try:
        return found, tuple(sorted(float(point) for point in given))
    except (TypeError, ValueError):
        raise LabError(
            f"the breakpoints of the reward function {shown(name)} must be numbers, "
            f"got {shown(given)}"
        ) from None


class GaussianSettings(Settings):
    """The settings of draws from a Gaussian."""

    dim: int = number(1, "number of coordinates", low=1)
    reward: str = setting(
        "square_on_unit",
        "a name (see: maxk-lab list gaussian_rewards) or a dotted path package.module:name of a "
        "function of x [..., dim] → [...]",
    )


@dataclass(frozen=True, kw_only=True)
class GaussianRow(EnvironmentRow):
    """The Gaussian environment: its actions are real numbers, integrated over and never listed."""

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        return False

    def integrable(self, parameters: Mapping[str, Any]) -> bool:
        return bool(parameters["dim"] == 1)

    def decisions(self, parameters: Mapping[str, Any]) -> float:
        return 0.05

    def footprint(self, settings: Mapping[str, Any]) -> Footprint:
        # A draw and its noise, in float64.
        draw = 8.0 * settings["dim"]
        return Footprint(sampled=2 * draw, taught=2 * draw, policy=draw)

    def other_rewards(self, parameters: Mapping[str, Any]) -> str | None:
        name = parameters["reward"]
        graded = name in GAUSSIAN_REWARDS and not GAUSSIAN_REWARDS.get(name).binary
        return f"{name} gives others" if graded else None

    def reward_range(self, parameters: Mapping[str, Any]) -> Range:
        name = parameters["reward"]
        return GAUSSIAN_REWARDS.get(name).range if name in GAUSSIAN_REWARDS else ANYWHERE

    def named(self, parameters: Mapping[str, Any]) -> Sequence[tuple[Catalogue[Any], str]]:
        name = parameters["reward"]
        return [(GAUSSIAN_REWARDS, name)] if name in GAUSSIAN_REWARDS else []

    def refuses_weight(self, kind: str) -> str | None:
        return "a Gaussian policy has no logits" if kind == "logit_proxy" else None

    def refusal(self, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
        name = parameters["reward"]
        try:
            check_function(name, GAUSSIAN_REWARDS, _TAKES)
        except LabError as error:
            return str(error)
        return EnvironmentRow.refusal(self, parameters, policy)


GAUSSIAN = GaussianRow(
    name="gaussian",
    meaning="one draw from a diagonal Gaussian with learnable mean, and learnable scale if wanted; "
    "no context",
    reward="that of the function `reward` of the draw",
    implementation="maxk_lab.environments.gaussian.environment:Gaussian",
    citation="PKPO, arXiv 2505.15201",
    settings=GaussianSettings,
    policies=("gaussian",),
    plain=("Gaussian draws", "({reward})"),
    exact_when="dim = 1, by quadrature",
    listable=False,
    small={"dim": 1},
)
