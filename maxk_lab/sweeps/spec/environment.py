"""The environment of a sweep file and its policy: known parameters, allowed values, defaults filled in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from maxk_lab.catalogue import Parameter
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.findings import unknown_key
from maxk_lab.sweeps.spec.named_files import resolved_file
from maxk_lab.sweeps.spec.source import Source, TreePath

# The key by which a sweep varies the environment itself.
NAME = "environment.name"


def resolve_environment(source: Source) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """(environment, policy) with all parameters parsed or defaulted, optional ones only where they are not at their default.

    Where the sweep varies the environment's name, only those that are given: `completed` adds the rest, which depend on the
    name. `checkpoint` of the policy is its path and hash. None if there are problems.
    """
    environment, policy = source.tree.get("environment"), source.tree.get("policy", {})
    if not isinstance(environment, dict) or not isinstance(policy, dict):
        return None
    path: TreePath = ("environment", "name")
    name = environment.get("name")
    if name is None:
        source.add(path, f"is missing; one of {', '.join(ENVIRONMENTS.names())}")
        return None
    if not isinstance(name, str):
        source.add(path, f"must be a text, got {name!r}")
        return None
    try:
        row = ENVIRONMENTS.get(name)
    except LabError as error:
        source.add(path, str(error))
        return None
    before = len(source.problems)
    given = {key: value for key, value in environment.items() if key != "name"}
    parameters = _parse(given, row.parameters, ("environment",), source)
    own = {key: value for key, value in policy.items() if key != "checkpoint"}
    policy_parameters = _parse(
        own, row.policy_parameters, ("policy",), source, also=("checkpoint",)
    )
    checkpoint = _checkpoint(policy, source)
    if len(source.problems) > before:
        return None
    vary = source.tree.get("vary")
    if isinstance(vary, Mapping) and NAME in vary:
        parameters = {key: value for key, value in parameters.items() if key in given}
        policy_parameters = {key: value for key, value in policy_parameters.items() if key in own}
        return {"name": name, **parameters}, policy_parameters | checkpoint
    reason = row.refusal(parameters, policy_parameters)
    if reason is not None:
        source.add(_culprit(reason, parameters, policy_parameters), reason)
        return None
    return {"name": name, **parameters}, policy_parameters | checkpoint


def _checkpoint(policy: Mapping[str, Any], source: Source) -> dict[str, Any]:
    if policy.get("checkpoint") is None:
        return {}
    try:
        return {"checkpoint": resolved_file(policy["checkpoint"], "checkpoint")}
    except LabError as error:
        source.add(("policy", "checkpoint"), str(error))
        return {}


def completed(
    environment: Mapping[str, Any], policy: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """An environment and policy with the defaults of what is not given; as they are where the catalogue lacks the name.

    Raises `LabError` for a value that the environment of this name does not take.
    """
    if environment["name"] not in ENVIRONMENTS:
        return dict(environment), dict(policy)
    row = ENVIRONMENTS.get(environment["name"])

    def filled(given: Mapping[str, Any], known: Iterable[Parameter]) -> dict[str, Any]:
        parsed = {p.name: (p, p.parse(given.get(p.name, p.default))) for p in known}
        return dict(given) | {
            name: value
            for name, (p, value) in parsed.items()
            if not p.optional or value != p.parse(p.default)
        }

    return filled(environment, row.parameters), filled(policy, row.policy_parameters)


def moved(
    environment: Mapping[str, Any], policy: Mapping[str, Any], key: str, value: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A resolved environment and policy with one parameter, such as `policy.mean`, at another value.

    Raises `LabError` for a value that the parameter or the environment refuses, and for the default of an optional parameter, which
    stands for a setting of another kind than its other values.
    """
    row = ENVIRONMENTS.get(environment["name"])
    block, _, name = key.partition(".")
    blocks = {"environment": dict(environment), "policy": dict(policy)}
    known = {"environment": row.parameters, "policy": row.policy_parameters}
    parameter = next((p for p in known.get(block, ()) if p.name == name), None)
    if parameter is None:
        raise LabError(f"{row.name} has no {key}")
    parsed = parameter.parse(value)
    if parameter.optional and parsed == parameter.parse(parameter.default):
        raise LabError(f"{name} = {value} stands for none being given: {parameter.meaning}")
    blocks[block][name] = parsed
    reason = row.refusal(
        {k: v for k, v in blocks["environment"].items() if k != "name"}, blocks["policy"]
    )
    if reason is not None:
        raise LabError(reason)
    return blocks["environment"], blocks["policy"]


def telling_parameters(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that tell a resolved environment from others of its name, by name.

    Those that are empty or as the catalogue has them by default stay out, but for its size and its task. Of an
    environment that the catalogue does not know, all that are not empty.
    """
    given = {name: value for name, value in sorted(environment.items()) if name != "name"}
    filled = {name: value for name, value in given.items() if value not in ([], "", None)}
    if environment["name"] not in ENVIRONMENTS:
        return filled
    row = ENVIRONMENTS.get(environment["name"])
    defaults = {parameter.name: parameter.parse(parameter.default) for parameter in row.parameters}
    return {
        name: value
        for name, value in filled.items()
        if name in (row.size_parameter, "task") or name not in defaults or value != defaults[name]
    }


def _culprit(reason: str, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> TreePath:
    """Where to point for a refusal: at the value that it quotes, or else at the first parameter that it names."""
    blocks = {"environment": parameters, "policy": policy}
    for block, given in blocks.items():
        for name, value in given.items():
            if isinstance(value, str) and value and repr(value) in reason:
                return (block, name)
            if isinstance(value, list):
                for number, item in enumerate(value):
                    if repr(item) in reason:
                        return (block, name, str(number))
    for word in re.findall(r"\w+", reason):
        for block, given in blocks.items():
            if word in given:
                return (block, word)
    return ("environment",)


def _parse(
    given: Mapping[str, Any],
    known: Iterable[Parameter],
    path: TreePath,
    source: Source,
    also: Iterable[str] = (),
) -> dict[str, Any]:
    """All parameters, parsed or defaulted; problems name the keys that are `also` there as known."""
    parameters = {parameter.name: parameter for parameter in known}
    for key in given:
        if key not in parameters:
            source.add((*path, key), unknown_key(key, [*parameters, *also]), key=True)
    parsed: dict[str, Any] = {}
    for name, parameter in parameters.items():
        try:
            value = parameter.parse(given.get(name, parameter.default))
        except LabError as error:
            source.add((*path, name), str(error))
            continue
        if not parameter.optional or value != parameter.parse(parameter.default):
            parsed[name] = value
    return parsed
