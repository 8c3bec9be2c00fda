"""The environment of a sweep file and its policy: parameters parsed, defaults filled in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from maxk_lab.environments.catalogue import ENVIRONMENTS, EnvironmentRow
from maxk_lab.errors import LabError, shown
from maxk_lab.policies.catalogue import POLICIES
from maxk_lab.settings import Setting, Settings
from maxk_lab.sweeps.spec.blocks import note_problems
from maxk_lab.sweeps.spec.named_files import resolved_file
from maxk_lab.sweeps.spec.source import Source, TreePath

# The key by which a sweep varies the environment itself, and the one that names the policy.
NAME = "environment.name"
POLICY_NAME = "policy.name"


def resolve_environment(source: Source) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return (environment, policy), all parameters parsed or defaulted; None if there are problems.

    Optional parameters are there only where they are not at their default, and the policy's name
    only where it is not the environment's own. `checkpoint` of the policy is its path and hash.
    Where the sweep varies the environment's name, only what is given is there: `completed` adds the
    rest, which depends on the name.
    """
    environment, policy = source.tree.get("environment"), source.tree.get("policy", {})
    if not isinstance(environment, dict) or not isinstance(policy, dict):
        return None
    name, before = environment.get("name"), len(source.problems)
    try:
        if not isinstance(name, str):
            missing = f"is missing; one of {', '.join(ENVIRONMENTS.names())}"
            raise LabError(missing if name is None else f"must be a text, got {shown(name)}")
        row = ENVIRONMENTS.get(name)
    except LabError as error:
        source.add(("environment", "name"), str(error))
        return None
    given = {key: value for key, value in environment.items() if key != "name"}
    own = {key: value for key, value in policy.items() if key != "checkpoint"}
    parameters = _read(row.settings, given, "environment", source)
    policy_parameters = _policy(own, row, source)
    if policy.get("checkpoint") is not None:
        policy = policy | _checkpoint(policy["checkpoint"], source)
    if len(source.problems) > before:
        return None
    reason = row.refusal(parameters, policy_parameters)
    if reason is not None:
        source.add(_culprit(reason, parameters, policy_parameters), reason)
        return None
    vary = source.tree.get("vary")
    if isinstance(vary, Mapping) and NAME in vary:
        parameters = {key: value for key, value in parameters.items() if key in given}
        policy_parameters = {key: value for key, value in policy_parameters.items() if key in own}
        # Its own policy may be another environment's second choice.
        policy_parameters |= {key: value for key, value in own.items() if key == "name"}
    if policy.get("checkpoint") is not None:
        policy_parameters["checkpoint"] = policy["checkpoint"]
    return {"name": row.name, **parameters}, policy_parameters


def _policy(given: Mapping[str, Any], row: EnvironmentRow, source: Source) -> dict[str, Any]:
    """Return the policy's parameters, parsed or defaulted, and its name if not the row's own."""
    try:
        settings = row.settings_of(given)
    except LabError as error:
        source.add(("policy", "name"), str(error))
        return {}
    own = {key: value for key, value in given.items() if key != "name"}
    name = {key: value for key, value in given.items() if key == "name"}
    parsed = _read(settings, own, "policy", source, also=("name", "checkpoint"))
    return row.written(name | parsed)


def _checkpoint(written: Any, source: Source) -> dict[str, Any]:
    try:
        return {"checkpoint": resolved_file(written, "checkpoint")}
    except LabError as error:
        source.add(("policy", "checkpoint"), str(error))
        return {}


def is_known(environment: str, policy: Mapping[str, Any]) -> bool:
    """Return whether the catalogues have both; where a run is only reported, they may not."""
    return environment in ENVIRONMENTS and ("name" not in policy or policy["name"] in POLICIES)


def completed(
    environment: Mapping[str, Any], policy: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an environment and policy with the defaults of what is not given.

    They stay as they are where they are not known. Raises `LabError` for a value or a
    policy that the environment of this name does not take.
    """
    if not is_known(environment["name"], policy):
        return dict(environment), dict(policy)
    row = ENVIRONMENTS.get(environment["name"])

    def filled(given: Mapping[str, Any], settings: type[Settings]) -> dict[str, Any]:
        parsed = {one.name: one.parse(given.get(one.name, one.default)) for one in settings.each()}
        return dict(given) | settings.without_later(parsed)

    settings = row.settings_of(policy)
    return filled(environment, row.settings), row.written(filled(policy, settings))


def moved(
    environment: Mapping[str, Any], policy: Mapping[str, Any], key: str, value: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a resolved environment and policy with one setting, by its key, at another value.

    Raises `LabError` for a value that the setting or the environment refuses, and for the default
    of one that came later, which stands for a setting of another kind than its other values.
    """
    block, _, name = key.partition(".")
    blocks = {"environment": dict(environment), "policy": dict(policy)}
    setting = settings_by_key(environment["name"], policy).get(key)
    if setting is None:
        raise LabError(f"{environment['name']} has no {key}")
    parsed = setting.parse(value)
    if setting.later and parsed == setting.default:
        raise LabError(f"{name} = {value} stands for none being given: {setting.meaning}")
    blocks[block][name] = parsed
    if (reason := refusal_of(**blocks)) is not None:
        raise LabError(reason)
    return blocks["environment"], blocks["policy"]


def settings_by_key(environment: str, policy: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the settings of an environment and of the policy named, by keys as `policy.mean`.

    There are none where either is unknown. Raises `LabError` for a policy that does not fit.
    """
    if not is_known(environment, policy):
        return {}
    row = ENVIRONMENTS.get(environment)
    blocks = {"environment": row.settings, "policy": row.settings_of(policy)}
    return {f"{block}.{one.name}": one for block, model in blocks.items() for one in model.each()}


def refusal_of(environment: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
    """Return why a resolved environment and policy cannot run; None where they are not known."""
    if not is_known(environment["name"], policy):
        return None
    parameters = {name: value for name, value in environment.items() if name != "name"}
    own = {name: value for name, value in policy.items() if name != "checkpoint"}
    return ENVIRONMENTS.get(environment["name"]).refusal(parameters, own)


def telling_parameters(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that tell a resolved environment from others of its name, by name.

    Those that are empty or as the catalogue has them by default stay out, but for its size and its
    task. For an environment that the catalogue does not know, all that are not empty are there.
    """
    given = {name: value for name, value in sorted(environment.items()) if name != "name"}
    filled = {name: value for name, value in given.items() if value not in ([], "", None)}
    if environment["name"] not in ENVIRONMENTS:
        return filled
    row = ENVIRONMENTS.get(environment["name"])
    defaults = row.settings.defaults()
    return {
        name: value
        for name, value in filled.items()
        if name in (row.size_parameter, "task") or name not in defaults or value != defaults[name]
    }


def plain_words(environment: Mapping[str, Any], *, without: Collection[str] = ()) -> str:
    """Return a resolved environment in the words of its row, `without` some of its parameters.

    Without such words it is its name with the parameters that tell it: `knapsack (items 5)`.
    """
    name, told = str(environment["name"]), telling_parameters(environment)
    told = {parameter: value for parameter, value in told.items() if parameter not in without}
    plain = ENVIRONMENTS.get(name).in_words(told) if name in ENVIRONMENTS else ""
    if plain:
        return plain
    inside = ", ".join(
        f"{parameter.replace('_', ' ')} {value}" for parameter, value in told.items()
    )
    return f"{name} ({inside})" if inside else name


def _culprit(reason: str, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> TreePath:
    """Return the place of a refusal: the value that it quotes, or the first parameter it names."""
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


def _read(
    settings: type[Settings],
    given: Mapping[str, Any],
    block: str,
    source: Source,
    also: Iterable[str] = (),
) -> dict[str, Any]:
    """Return all settings of a block, read or defaulted; unknown keys are told with those known."""
    try:
        return settings.without_later(settings.model_validate(given).model_dump())
    except ValidationError as error:
        note_problems(error, source, lambda _: [*settings.model_fields, *also], at=(block,))
        return {}
