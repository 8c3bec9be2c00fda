"""The row of an environment: its settings and its capabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from maxk_lab.catalogue import Catalogue, Row, did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.policies.catalogue import POLICIES, PolicyRow
from maxk_lab.ranges import ANYWHERE, SHARES, Range
from maxk_lab.settings import Settings

# The most nodes, tokens, arms or coordinates of an instance, a limit of memory.
MOST_NODES, MOST_TOKENS, MOST_ARMS, MOST_COORDINATES = 10**5, 10**6, 10**6, 10**7


@dataclass(frozen=True)
class FileFormat:
    """Files with instances: their suffix, and their name in a list of allowed formats.

    A format may be for one environment of a family `only`; then `holds` describes such a file.
    """

    suffix: str
    name: str
    holds: str = ""
    only: str = ""


@dataclass(frozen=True, kw_only=True)
class EnvironmentRow(Row):
    """An environment: the settings of the environment and its policy, and its capabilities.

    `exact_when` describes when every trajectory can be listed, or J_K integrated. By default,
    trajectories are listed if parameter `size_parameter` is at most `enumerable_up_to`. `small` are
    parameters of an enumerable setting that runs in a moment. `label` are the parts of its name for
    readers, such as "TSP" and "with {num_loc} cities".
    """

    reward: str
    settings: type[Settings]
    # The catalogue policies that it accepts; its own policy, whose name may be omitted, comes
    # first.
    policies: tuple[str, ...]
    exact_when: str
    small: Mapping[str, Any] = field(default_factory=dict)
    size_parameter: str = ""
    label: tuple[str, ...] = ()
    enumerable_up_to: int = 0
    # Whether trajectories can be listed under some parameters.
    listable: bool = True
    # Whether its rewards are real numbers, not only 0 and 1. Otherwise, rewards within [0, 1] are
    # assumed to be 0 or 1.
    graded: bool = False

    # The range of its rewards, if it is the same under all parameters.
    rewards_within: Range = ANYWHERE

    # The optional capabilities of its environment, as in `FullEnvironment`: greedy, multistart,
    # tempered, cuda.
    supports: frozenset[str] = frozenset()
    # The formats of its instance files.
    files: tuple[FileFormat, ...] = ()
    # Whether `optima` solves instances of any size, not only enumerable ones.
    solves_any_size: bool = False
    # Increase it whenever equal policies and seeds give other digits: all cells are then measured
    # again.
    version: int = 1

    def in_words(self, parameters: Mapping[str, Any]) -> str:
        """Return `TSP with 20 cities`: its label; empty without a label.

        Parts that name a parameter outside `parameters` are left out.
        """
        # A user's path stays unchanged.
        texts = {name: str(value) for name, value in parameters.items()}
        words = {name: x if ":" in x else x.replace("_", " ") for name, x in texts.items()}
        return " ".join(
            text.format(**words)
            for text in self.label
            if all(name in words for _, name, *_ in Formatter().parse(text) if name)
        )

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether every trajectory can be listed, so that J_K and its gradient are exact."""
        size = parameters.get(self.size_parameter, math.inf)
        return bool(size <= self.enumerable_up_to)

    def integrable(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether J_K and its gradient are exact by integration."""
        return False

    def other_rewards(self, parameters: Mapping[str, Any]) -> str | None:
        """Why the rewards are not all 0 or 1; None if they are, or if only the run can decide."""
        return f"those of {self.name} are {self.reward}" if self.graded else None

    def reward_range(self, parameters: Mapping[str, Any]) -> Range:
        """Return the range of all rewards, which also bounds the intervals of their means."""
        return self.rewards_within

    def passes(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether every reward is 0 or 1, so that Max@K is pass@K."""
        return self.other_rewards(parameters) is None and self.reward_range(parameters) == SHARES

    def refuses_weight(self, kind: str) -> str | None:
        """Return why there is no trajectory weight of this kind; None if there is.

        Kinds are length, logit_proxy and grad_norm.
        """
        return None

    def named(self, parameters: Mapping[str, Any]) -> Sequence[tuple[Catalogue[Any], str]]:
        """The rows of other catalogues that its parameters name, such as a task or a reward."""
        return ()

    @property
    def policy_settings(self) -> type[Settings]:
        """Return the settings of its own policy."""
        return self.settings_of({})

    def settings_of(self, policy: Mapping[str, Any]) -> type[Settings]:
        """The settings of the policy that `policy` names. Raises `LabError` as `policy_row`."""
        return self.policy_row(policy).settings

    def written(self, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Return a policy with all its parameters in canonical form, for its identity.

        The name is left out if it is the default.
        """
        default = ("name", self.policies[0])
        return {name: value for name, value in policy.items() if (name, value) != default}

    def policy_row(self, policy: Mapping[str, Any]) -> PolicyRow:
        """Return the row of the policy that `policy` names, or of its own policy.

        Raises `LabError` for a policy that cannot act here.
        """
        name, accepted = policy.get("name", self.policies[0]), self.accepted_policies
        if name not in accepted:
            also = did_you_mean(name, accepted)
            raise LabError(
                f"{self.name} takes no policy {shown(name)}{also}; known: {', '.join(accepted)}"
            )
        return POLICIES.get(name)

    @property
    def accepted_policies(self) -> tuple[str, ...]:
        """The policies that can act here, its own first; last, those naming this environment."""
        others = (row.name for row in POLICIES if self.name in row.environments)
        return tuple(dict.fromkeys((*self.policies, *others)))

    def problems(self, parameters: Mapping[str, Any]) -> Iterable[str]:
        """Return why these parameters cannot be run together."""
        return ()

    def refusal(self, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
        """Return why the parameters, or those of the policy, cannot be run together, or None."""
        of_policy = self.policy_row(policy).refusal(policy)
        return "; ".join(filter(None, (*self.problems(parameters), of_policy))) or None
