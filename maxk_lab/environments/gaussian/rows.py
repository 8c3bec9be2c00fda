"""The catalogue row of the Gaussian environment: what may be set about it. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.footprint import Footprint
from maxk_lab.environments.gaussian.rewards import GAUSSIAN_REWARDS
from maxk_lab.environments.lookup import check_function
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.errors import LabError
from maxk_lab.ranges import ANYWHERE, Range
from maxk_lab.settings import Settings, number, setting


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
        try:
            check_function(parameters["reward"], GAUSSIAN_REWARDS)
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
