"""The catalogue row of the Gaussian environment: what may be set about it. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from maxk_lab.environments.footprint import Footprint
from maxk_lab.environments.gaussian.rewards import GAUSSIAN_REWARDS
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.environments.scored import ScoredRow
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
class GaussianRow(ScoredRow):
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

    def refuses_weight(self, kind: str) -> str | None:
        return "a Gaussian policy has no logits" if kind == "logit_proxy" else None

    def refusal(self, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
        unknown = self.unknown_rewards(self.reward_names(parameters))
        return unknown[0] if unknown else EnvironmentRow.refusal(self, parameters, policy)


GAUSSIAN = GaussianRow(
    name="gaussian",
    meaning="one draw from a diagonal Gaussian with learnable mean, and learnable scale if wanted; "
    "no context",
    reward="that of the function `reward` of the draw",
    implementation="maxk_lab.environments.gaussian.environment:Gaussian",
    citation="PKPO, arXiv 2505.15201",
    settings=GaussianSettings,
    functions=GAUSSIAN_REWARDS,
    policies=("gaussian",),
    plain=("Gaussian draws", "({reward})"),
    exact_when="dim = 1, by quadrature",
    listable=False,
    small={"dim": 1},
)
