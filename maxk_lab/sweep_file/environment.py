"""The environment of a sweep file and its policy, and files that it names: read and resolved."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from maxk_lab.catalogue import load
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.errors import LabError, shown
from maxk_lab.files import resolved_file
from maxk_lab.policies.catalogue import POLICIES
from maxk_lab.settings import Setting, Settings
from maxk_lab.sweep_file.blocks import note_problems
from maxk_lab.sweep_file.source import Source, TreePath, at_path
from maxk_lab.sweep_file.studies import STUDIES

# The key by which a sweep varies the environment itself.
NAME = "environment.name"
Block = Mapping[str, Any]


def resolve_files(source: Source) -> None:
    """Resolve the files that settings of studies name; a missing one is noted and left out."""
    name = str(at_path(source.tree, ("environment", "name")))
    for row in STUDIES:
        for setting, hashed in row.files.items():
            *above, key = path = (row.name, *setting.split("."))
            block = at_path(source.tree, tuple(above))
            if not isinstance(block, dict) or block.get(key) is None:
                continue
            written = block.pop(key)
            with source.noting(path):
                block[key] = resolved_file(written, key, partial(load(hashed), environment=name))


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
    before = len(source.problems)
    row = None
    with source.noting(("environment", "name")):
        row = _row(environment.get("name"))
    if row is None:
        return None
    given = {key: value for key, value in environment.items() if key != "name"}
    own = {key: value for key, value in policy.items() if key not in ("name", "checkpoint")}
    name = {"name": policy["name"]} if "name" in policy else {}
    parameters, settings, checkpoint = _read(row.settings, given, "environment", source), {}, {}
    with source.noting(("policy", "name")):
        model = row.settings_of(name | own)
        settings = row.written(name | _read(model, own, "policy", source, "name", "checkpoint"))
    if policy.get("checkpoint") is not None:
        with source.noting(("policy", "checkpoint")):
            checkpoint = {"checkpoint": resolved_file(policy["checkpoint"], "checkpoint")}
    if len(source.problems) == before and (reason := row.refusal(parameters, settings)) is not None:
        source.add(_culprit(reason, parameters, settings), reason)
    if len(source.problems) > before:
        return None
    vary = source.tree.get("vary")
    if isinstance(vary, Mapping) and NAME in vary:
        parameters = {key: value for key, value in parameters.items() if key in given}
        # Its own policy may be another environment's second choice.
        settings = {key: value for key, value in settings.items() if key in own} | name
    return {"name": row.name, **parameters}, settings | checkpoint


def _row(name: Any) -> EnvironmentRow:
    if not isinstance(name, str):
        missing = f"is missing; one of {', '.join(ENVIRONMENTS.names())}"
        raise LabError(missing if name is None else f"must be a text, got {shown(name)}")
    return ENVIRONMENTS.get(name)


def _read(
    settings: type[Settings], given: Block, block: str, source: Source, *also: str
) -> dict[str, Any]:
    """Return all settings of a block, read or defaulted; unknown keys are told with those known."""
    try:
        return settings.without_later(settings.model_validate(given).model_dump())
    except ValidationError as error:
        note_problems(error, source, lambda _: [*settings.model_fields, *also], at=(block,))
        return {}


def _culprit(reason: str, parameters: Block, policy: Block) -> TreePath:
    """Return the place of a refusal: the value that it quotes, or the first parameter it names."""
    places: dict[TreePath, Any] = {}
    for block, given in (("environment", parameters), ("policy", policy)):
        for name, value in given.items():
            inside = enumerate(value) if isinstance(value, list) else ()
            places |= {(block, name): value}
            places |= {(block, name, str(number)): one for number, one in inside}
    for path, value in places.items():
        quoted = repr(value) if value and (isinstance(value, str) or len(path) > 2) else ""
        if quoted and quoted in reason:
            return path
    names = {path[1]: path for path in reversed(places) if len(path) == 2}
    words = (word for word in re.findall(r"\w+", reason) if word in names)
    return names.get(next(words, ""), ("environment",))


def is_known(environment: str, policy: Block) -> bool:
    """Return whether the catalogues have both; where a run is only reported, they may not."""
    return environment in ENVIRONMENTS and ("name" not in policy or policy["name"] in POLICIES)


def completed(environment: Block, policy: Block) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an environment and policy with the defaults of what is not given.

    They stay as they are where they are not known. Raises `LabError` for a value, a key or a policy
    that the environment of this name does not take.
    """
    if not is_known(environment["name"], policy):
        return dict(environment), dict(policy)

    def filled(given: Block, settings: type[Settings]) -> dict[str, Any]:
        own = {key: value for key, value in given.items() if key not in ("name", "checkpoint")}
        return dict(given) | settings.without_later(settings.from_mapping(own).model_dump())

    row = ENVIRONMENTS.get(environment["name"])
    return filled(environment, row.settings), row.written(filled(policy, row.settings_of(policy)))


def moved(
    environment: Block, policy: Block, key: str, value: Any
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
    blocks[block][name] = parsed = setting.parse(value)
    if setting.later and parsed == setting.default:
        raise LabError(f"{name} = {value} stands for none being given: {setting.meaning}")
    if (reason := refusal_of(**blocks)) is not None:
        raise LabError(reason)
    return blocks["environment"], blocks["policy"]


def settings_by_key(environment: str, policy: Block) -> dict[str, Setting]:
    """Return the settings of an environment and of the policy named, by keys as `policy.mean`.

    There are none where either is unknown. Raises `LabError` for a policy that does not fit.
    """
    if not is_known(environment, policy):
        return {}
    row = ENVIRONMENTS.get(environment)
    blocks = {"environment": row.settings, "policy": row.settings_of(policy)}
    return {f"{block}.{one.name}": one for block, model in blocks.items() for one in model.each()}


def refusal_of(environment: Block, policy: Block) -> str | None:
    """Return why a resolved environment and policy cannot run; None where they are not known."""
    if not is_known(environment["name"], policy):
        return None
    parameters = {name: value for name, value in environment.items() if name != "name"}
    own = {name: value for name, value in policy.items() if name != "checkpoint"}
    return ENVIRONMENTS.get(environment["name"]).refusal(parameters, own)


def telling_parameters(environment: Block) -> dict[str, Any]:
    """Return the parameters that tell a resolved environment from others of its name, by name.

    Those that are empty or as the catalogue has them by default stay out, but for its size and its
    task. For an environment that the catalogue does not know, all that are not empty are there.
    """
    given = {name: value for name, value in sorted(environment.items()) if name != "name"}
    filled = {
        name: plain_value(value) for name, value in given.items() if value not in ([], {}, "", None)
    }
    if environment["name"] not in ENVIRONMENTS:
        return filled
    row = ENVIRONMENTS.get(environment["name"])
    defaults, always = row.settings.defaults(), (row.size_parameter, "task")
    return {
        name: value
        for name, value in filled.items()
        if name in always or name not in defaults or value != defaults[name]
    }


def plain_value(value: Any) -> Any:
    """Return a file by its name alone, or by the beginning of its hash; a mapping as a text."""
    if not isinstance(value, Mapping):
        return value
    if "sha256" not in value:
        return " ".join(f"{key}={one}" for key, one in value.items())
    return PurePath(value["path"]).name if "path" in value else value["sha256"][:8]


def plain_words(environment: Block, *, without: Collection[str] = ()) -> str:
    """Return a resolved environment in the words of its row, `without` some of its parameters.

    Without such words it is its name with the parameters that tell it: `knapsack (items 5)`.
    """
    name, telling = str(environment["name"]), telling_parameters(environment)
    telling = {key: value for key, value in telling.items() if key not in without}
    plain = ENVIRONMENTS.get(name).in_words(telling) if name in ENVIRONMENTS else ""
    inside = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in telling.items())
    return plain or (f"{name} ({inside})" if inside else name)
