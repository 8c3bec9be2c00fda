"""A resolved environment in words, for tables and charts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

from maxk_lab.environments.catalogue import ENVIRONMENTS


def distinguishing_parameters(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that distinguish an environment from others of its name, by name.

    Parameters that are empty or at their default are left out, except the size and the task. For an
    environment outside the catalogue, all parameters that are not empty are returned.
    """
    parameters = {name: value for name, value in sorted(environment.items()) if name != "name"}
    short = {
        name: short_value(value)
        for name, value in parameters.items()
        if value not in ([], {}, "", None)
    }
    if environment["name"] not in ENVIRONMENTS:
        return short
    row = ENVIRONMENTS.get(environment["name"])
    defaults, always = row.settings.defaults(), (row.size_parameter, "task")
    return {
        name: value
        for name, value in short.items()
        if name in always or name not in defaults or value != defaults[name]
    }


def short_value(value: Any) -> Any:
    """Return a file as its name, or as the first digits of its hash; a mapping as a text."""
    if not isinstance(value, Mapping):
        return value
    if "sha256" not in value:
        return " ".join(f"{key}={entry}" for key, entry in value.items())
    return PurePath(value["path"]).name if "path" in value else value["sha256"][:8]


def describe_environment(environment: Mapping[str, Any], *, without: Collection[str] = ()) -> str:
    """Return an environment in the words of its row, `without` some of its parameters.

    Without such words it is the name with distinguishing parameters: `knapsack (items 5)`.
    """
    name, parameters = str(environment["name"]), distinguishing_parameters(environment)
    parameters = {key: value for key, value in parameters.items() if key not in without}
    words = ENVIRONMENTS.get(name).in_words(parameters) if name in ENVIRONMENTS else ""
    inside = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in parameters.items())
    return words or (f"{name} ({inside})" if inside else name)
