"""The catalogue row of the bandit: its reward tables, its policy, and what may be set about them.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from maxk_lab.environments.footprint import Footprint
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.ranges import ANYWHERE, Range
from maxk_lab.settings import Settings, number, setting

BANDIT_LIMIT = 2_000
EXPONENTIAL_RATE = 5.0

# The rewards of a table. All but the Gaussian ones are the same for every instance and
# ascend with the arm.
REWARD_TABLES = {
    "gaussian": "N(0, 1) per arm and instance",
    "linear": "spaced evenly over [0, 1], by arm",
    "exponential": f"(e^({EXPONENTIAL_RATE:g}x) − 1) / (e^{EXPONENTIAL_RATE:g} − 1) of x spaced "
    "evenly over [0, 1], by arm",
    "binary": "1 for the last arm, 0 for the others",
}


class BanditSettings(Settings):
    """The settings of a bandit."""

    arms: int = number(10, "number of arms", low=2)
    reward_shift: float = number(0.0, "constant added to every reward")
    rewards: Literal["gaussian", "linear", "exponential", "binary"] = setting(
        "gaussian",
        "; ".join(f"{name}: {meaning}" for name, meaning in REWARD_TABLES.items()),
        later=True,
    )


@dataclass(frozen=True, kw_only=True)
class BanditRow(EnvironmentRow):
    """A bandit: one decision without a network, whatever the number of arms."""

    def decisions(self, parameters: Mapping[str, Any]) -> float:
        return 0.05

    def footprint(self, settings: Mapping[str, Any]) -> Footprint:
        # A table in float64, and the probabilities of all arms for every trajectory.
        table = 8.0 * settings["arms"]
        return Footprint(
            instance=table, sampled=table, taught=table, policy=table, different=settings["arms"]
        )

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
    implementation="maxk_lab.environments.bandit.environment:Bandit",
    settings=BanditSettings,
    policies=("tabular",),
    exact_when=f"arms ≤ {BANDIT_LIMIT}",
    small={"arms": 6},
    size_parameter="arms",
    plain=("bandit", "with {arms} arms", "({rewards} rewards)"),
    enumerable_up_to=BANDIT_LIMIT,
    graded=True,
)
