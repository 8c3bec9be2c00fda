"""The row by which an environment declares what may be set about it and what it can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from maxk_lab.catalogue import Catalogue, Row, did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.policies.catalogue import POLICIES, PolicyRow
from maxk_lab.ranges import ANYWHERE, SHARES, Range
from maxk_lab.settings import Settings

# The most nodes, tokens, arms or coordinates of an instance: no machine holds a larger instance.
MOST_NODES, MOST_TOKENS, MOST_ARMS, MOST_COORDINATES = 10**5, 10**6, 10**6, 10**7


@dataclass(frozen=True)
class FileFormat:
    """Files that hold instances: their suffix, and their name in a list of what is allowed.

    The files of a family of environments may be for one of them `only`; then `holds` says what
    such a file is.
    """

    suffix: str
    name: str
    holds: str = ""
    only: str = ""


@dataclass(frozen=True, kw_only=True)
class EnvironmentRow(Row):
    """An environment: what a sweep may set about it and its policy, and what it can do.

    `exact_when` says in words when every trajectory can be listed, or J_K integrated; by default
    the former is when parameter `size_parameter` is at most `enumerable_up_to`. `small` are
    parameters of such a setting that runs in a moment. `label` are the parts of its name for
    readers, such as "TSP" and "with {num_loc} cities".
    """

    reward: str
    settings: type[Settings]
    # The policies of the catalogue that it takes; its own, which need not be named, first.
    policies: tuple[str, ...]
    exact_when: str
    small: Mapping[str, Any] = field(default_factory=dict)
    size_parameter: str = ""
    label: tuple[str, ...] = ()
    enumerable_up_to: int = 0
    # Whether trajectories can be listed under any parameters.
    listable: bool = True
    # Whether its rewards are known to be real numbers, never only 0 and 1. Where they are not, and
    # lie within [0, 1], they are taken to be 0 or 1 alone.
    graded: bool = False

    # The range of its rewards, where it is the same under all parameters.
    rewards_within: Range = ANYWHERE

    # What its environment can do besides, as `FullEnvironment` says: greedy, multistart, tempered,
    # cuda.
    supports: frozenset[str] = frozenset()
    # Formats of files of instances that it reads.
    files: tuple[FileFormat, ...] = ()
    # Whether `optima` solves instances of any size, not only those that can be enumerated.
    solves_any_size: bool = False
    # Raised whenever the same policy and seed give other digits: all cells are then measured again.
    version: int = 1

    def in_words(self, parameters: Mapping[str, Any]) -> str:
        """`TSP with 20 cities`: its label, empty without one.

        Parts that name a parameter that is not among these are left out.
        """
        # A path of the user's own is left as it is.
        texts = {name: str(value) for name, value in parameters.items()}
        words = {name: x if ":" in x else x.replace("_", " ") for name, x in texts.items()}
        return " ".join(
            text.format(**words)
            for text in self.label
            if all(name in words for _, name, *_ in Formatter().parse(text) if name)
        )

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        """Whether every trajectory can be listed: J_K and its gradient are then known exactly."""
        return bool(parameters[self.size_parameter] <= self.enumerable_up_to)

    def integrable(self, parameters: Mapping[str, Any]) -> bool:
        """Whether J_K and its gradient are known exactly although trajectories cannot be listed."""
        return False

    def other_rewards(self, parameters: Mapping[str, Any]) -> str | None:
        """Why the rewards are not all 0 or 1; None if they are, or if only the run can tell."""
        return f"those of {self.name} are {self.reward}" if self.graded else None

    def reward_range(self, parameters: Mapping[str, Any]) -> Range:
        """Return the range that no reward leaves; intervals of their means keep to it."""
        return self.rewards_within

    def passes(self, parameters: Mapping[str, Any]) -> bool:
        """Whether every reward is known to be 0 or 1, so that Max@K is what is called pass@K."""
        return self.other_rewards(parameters) is None and self.reward_range(parameters) == SHARES

    def refuses_weight(self, kind: str) -> str | None:
        """Why there is no trajectory weight of this kind here; None where there is.

        Kinds are length, logit_proxy and grad_norm.
        """
        return None

    def named(self, parameters: Mapping[str, Any]) -> Sequence[tuple[Catalogue[Any], str]]:
        """The rows of other catalogues that its parameters name, such as a task or a reward."""
        return ()

    @property
    def policy_settings(self) -> type[Settings]:
        """The settings of its own policy."""
        return self.settings_of({})

    def settings_of(self, policy: Mapping[str, Any]) -> type[Settings]:
        """The settings of the policy that `policy` names. Raises `LabError` as `policy_row`."""
        return self.policy_row(policy).settings

    def written(self, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Return the one way to write a policy with all its parameters, for its identity.

        The name that it has anyway is left out.
        """
        default = ("name", self.policies[0])
        return {name: value for name, value in policy.items() if (name, value) != default}

    def policy_row(self, policy: Mapping[str, Any]) -> PolicyRow:
        """Return the row of the policy that `policy` names, or of its own.

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
        """The policies that can act here, its own first, those that name this environment last."""
        others = (row.name for row in POLICIES if self.name in row.environments)
        return tuple(dict.fromkeys((*self.policies, *others)))

    def problems(self, parameters: Mapping[str, Any]) -> Iterable[str]:
        """Why these parameters cannot be run together."""
        return ()

    def refusal(self, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
        """Why these parameters, or those of the policy, cannot be run together, or None."""
        of_policy = self.policy_row(policy).refusal(policy)
        return "; ".join(filter(None, (*self.problems(parameters), of_policy))) or None
