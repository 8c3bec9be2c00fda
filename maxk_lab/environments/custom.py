"""User environments: a class with the six methods of `Environment`. Does not import torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from maxk_lab.environments.functions import check_function, load_function
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.errors import LabError
from maxk_lab.settings import Settings, setting

METHODS = ("policy", "instances", "rollout", "log_probs", "tokens", "enumerate")


class CustomSettings(Settings):
    """The settings of a user's environment."""

    env: str = setting("", "class package.module:Name with the six methods")
    arguments: dict[str, int | float | str] = setting({}, "arguments of the class, as {size: 4}")
    enumerable: bool = setting(False, "whether its method enumerate lists all trajectories")


@dataclass(frozen=True, kw_only=True)
class CustomRow(EnvironmentRow):
    """A user's class, imported only by the measuring process."""

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        return bool(parameters["enumerable"])

    def problems(self, parameters: Mapping[str, Any]) -> Iterator[str]:
        if not parameters["env"]:
            yield 'env is missing: a class with the six methods, as env: "mine:Env"'
            return
        try:
            check_function(parameters["env"], None, "env")
        except LabError as error:
            yield str(error)


def missing_methods(environment: object) -> list[str]:
    """Return the names of the six methods that an environment or its class lacks."""
    return [name for name in METHODS if not callable(getattr(environment, name, None))]


def custom_environment(
    row: EnvironmentRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
) -> Any:
    """Return the user's environment.

    Raises `LabError` for a class that lacks a method, for any exception of its constructor, and if
    its attribute `enumerable` cannot be set.
    """
    path = parameters["env"]
    kind = load_function(path, None, "with the six methods", "env", classes=True)
    try:
        environment = kind(**parameters.get("arguments", {}))
        environment.enumerable = row.enumerable(parameters)
    except Exception as error:
        raise LabError(f"{path} cannot be made: {type(error).__name__}: {error}") from error
    if missing := missing_methods(environment):
        raise LabError(f"{path} lacks {', '.join(missing)}; an environment needs six methods")
    return environment


CUSTOM = CustomRow(
    name="custom",
    meaning="an environment of your own: a class with six methods (maxk-lab check mine:Env)",
    reward="of the class",
    implementation="maxk_lab.environments.custom:custom_environment",
    exact_when="enumerable: true",
    settings=CustomSettings,
    policies=("own",),
)
