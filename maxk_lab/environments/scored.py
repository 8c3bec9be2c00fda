"""Reward functions by name, and the rows of environments whose rewards they give. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.environments.lookup import check_function
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.errors import LabError
from maxk_lab.ranges import ANYWHERE, SHARES, Range

Function = TypeVar("Function", bound=Callable[..., Any])
RowType = TypeVar("RowType", bound=Row)


@dataclass(frozen=True, kw_only=True)
class FunctionRow(Row):
    """A reward function, whose values lie `within` a range, or are 0 and 1 alone."""

    binary: bool = False
    within: Range = ANYWHERE

    @property
    def range(self) -> Range:
        """The range that its values do not leave."""
        return SHARES if self.binary else self.within


def listed(
    rows: list[RowType], kind: type[RowType], **common: Any
) -> Callable[..., Callable[[Function], Function]]:
    """Make a decorator that adds a row of this kind for a function, under the function's name."""

    def decorator(meaning: str, **said: Any) -> Callable[[Function], Function]:
        def add(function: Function) -> Function:
            name = function.__name__
            path = f"{function.__module__}:{name}"
            rows.append(kind(name=name, meaning=meaning, implementation=path, **common | said))
            return function

        return add

    return decorator


@dataclass(frozen=True, kw_only=True)
class ScoredRow(EnvironmentRow):
    """An environment whose rewards are a weighted sum of functions that its parameters name."""

    functions: Catalogue[Any]

    def reward_names(self, parameters: Mapping[str, Any]) -> list[str]:
        """The functions that score its trajectories: names of the catalogue, or dotted paths."""
        return [parameters["reward"]]

    def reward_weights(self, parameters: Mapping[str, Any]) -> list[float]:
        """One weight per function, all 1 unless given."""
        names = self.reward_names(parameters)
        return list(parameters.get("reward_weights", ())) or [1.0] * len(names)

    def other_rewards(self, parameters: Mapping[str, Any]) -> str | None:
        names, weights = self.reward_names(parameters), self.reward_weights(parameters)
        if len(names) > 1:
            return f"{' and '.join(names)} are added up"
        if weights != [1.0]:
            return f"{names[0]} has the weight {weights[0]:g}"
        if names[0] in self.functions and not self.functions.get(names[0]).binary:
            return f"{names[0]} gives others"
        return None

    def reward_range(self, parameters: Mapping[str, Any]) -> Range:
        names, weights = self.reward_names(parameters), self.reward_weights(parameters)
        ranges = [
            self.functions.get(name).range if name in self.functions else ANYWHERE for name in names
        ]
        if weights == [1.0]:
            return ranges[0]
        if not all(each.bounded for each in ranges):
            return ANYWHERE
        ends = [
            sorted((weight * each.low, weight * each.high))
            for weight, each in zip(weights, ranges, strict=True)
        ]
        return Range(sum(low for low, _ in ends), sum(high for _, high in ends))

    def named(self, parameters: Mapping[str, Any]) -> Sequence[tuple[Catalogue[Any], str]]:
        names = self.reward_names(parameters)
        return [(self.functions, name) for name in names if name in self.functions]

    def unknown_rewards(self, names: Sequence[str]) -> list[str]:
        """Why functions of these names cannot be loaded, one by one."""
        problems = []
        for name in names:
            try:
                check_function(name, self.functions)
            except LabError as error:
                problems.append(str(error))
        return problems
