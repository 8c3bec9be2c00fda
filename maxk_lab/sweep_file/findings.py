"""Problems of the shape of a sweep file: a message, and the key or value at fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError, shown
from maxk_lab.fields import message, trace, unknown_key
from maxk_lab.removed import removed_key, removed_value
from maxk_lab.sweep_file.text import Location


class Finding(NamedTuple):
    """One problem: its location, its message, and whether the key is at fault, not the value."""

    location: Location
    message: str
    key: bool = False


def findings(
    error: ValidationError, model: type[BaseModel], tree: Any, keys: Iterable[str] = ()
) -> Iterator[Finding]:
    """Yield the problems of a tree that was validated with a model of these keys."""
    for finding in error.errors(include_url=False):
        kind, value = finding["type"], finding["input"]
        location, _ = trace(model, finding["loc"])
        path = tuple(map(str, location))
        if kind == "extra_forbidden":
            _, inside = trace(model, finding["loc"][:-1])
            allowed = inside if path[1:] else keys
            yield Finding(location, removed_key(path) or unknown_key(path[-1], allowed), key=True)
        elif kind.startswith("union_tag") or path == ("policy", "name"):
            yield Finding((path[0], "name"), _name_problem(path[0], tree))
        elif kind == "unexpected_key":
            yield Finding(location, finding["msg"], key=True)
        elif kind != "too_short" or len(value) < finding["ctx"]["min_length"]:
            # pydantic counts valid entries only, and has listed the other problems.
            yield Finding(location, removed_value(path, value) or message(finding))


def _name_problem(block: str, tree: Mapping[str, Any]) -> str:
    """Return the problem of the environment's or policy's name in a sweep."""
    name = tree[block].get("name")
    try:
        if block == "policy":
            ENVIRONMENTS.get(tree["environment"]["name"]).policy_row(tree["policy"])
        if isinstance(name, str):
            ENVIRONMENTS.get(name)
    except LabError as error:
        return str(error)
    names = ", ".join(ENVIRONMENTS.names())
    return f"is missing; one of {names}" if name is None else f"must be a text, got {shown(name)}"
