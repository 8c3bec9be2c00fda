"""The combinations of the values that a sweep varies, each with its environment and policy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from maxk_lab.catalogue import did_you_mean
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import POLICIES, PRETRAINED_FOLDER
from maxk_lab.settings import Setting
from maxk_lab.sweep_file.findings import Finding, findings
from maxk_lab.sweep_file.place import (
    Block,
    Place,
    place_model,
    read_place,
    refusal,
    settings_by_key,
)

NAME = "environment.name"
CHECKPOINT = "policy.checkpoint"
# The keys whose values are paths.
PATHS = (CHECKPOINT, f"policy.{PRETRAINED_FOLDER}")
Vary = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Variant:
    """One combination: the varied values by key, and the environment and policy with them.

    `refusal` is the reason why it cannot run; None if it can.
    """

    setting: dict[str, Any]
    environment: dict[str, Any]
    policy: dict[str, Any]
    refusal: str | None = None


def variants(place: Place, vary: Vary) -> Iterator[Variant]:
    """Yield every combination of validated values, the last key fastest.

    Without varied values, it is the place itself. A combination that is refused for the same reason
    as the place itself counts as runnable: the place was valid when the run was made, with rewards
    that are not installed here.
    """
    if not vary:
        yield Variant({}, dict(place.environment), dict(place.policy))
        return
    always = refusal(*_with_defaults(place.environment, place.policy, complete=True))
    names = {key: short_names(map(_path, vary[key])) for key in PATHS if key in vary}
    for values in product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        blocks = _with_values(place.environment, place.policy, chosen)
        environment, policy = _with_defaults(*blocks, complete=NAME in chosen)
        refused = refusal(environment, policy)
        # A checkpoint has its path as its name; the worker gets its hash.
        setting = {
            key: names[key].get(_path(value), "") if key in names else value
            for key, value in chosen.items()
        }
        yield Variant(setting, environment, policy, None if refused == always else refused)


def _path(value: Any) -> str:
    return str(value["path"] if isinstance(value, Mapping) else value)


def _with_values(environment: Block, policy: Block, chosen: Block) -> tuple[Block, Block]:
    blocks = {"environment": dict(environment), "policy": dict(policy)}
    for key, value in chosen.items():
        block, _, name = key.partition(".")
        blocks[block][name] = value
    return blocks["environment"], blocks["policy"]


def _with_defaults(environment: Block, policy: Block, *, complete: bool) -> tuple[Any, Any]:
    """Return both without later settings at their defaults, `complete` with all other defaults.

    Rows that are not installed stay unchanged.
    """
    name = environment["name"]
    if name not in ENVIRONMENTS or policy.get("name", "") not in ("", *POLICIES.names()):
        return dict(environment), dict(policy)
    row = ENVIRONMENTS.get(name)
    settings, policy_settings = row.settings, row.settings_of(policy)
    if complete:
        environment = {**environment, **settings.defaults(), **environment}
        policy = row.written({**policy_settings.defaults(), **policy})
    return settings.without_later(environment), policy_settings.without_later(policy)


def read_vary(
    environment: Block, policy: Block, written: Vary
) -> tuple[dict[str, tuple[Any, ...]], list[Finding]]:
    """Return the validated values of every key of `vary`, and their problems.

    `environment` and `policy` are those of the file. Each combination is validated once.
    """
    problems = [*_key_problems(environment, policy, written)]
    parsed: dict[str, dict[int, Any]] = {key: {} for key in written}
    for numbers in [] if problems else product(*(range(len(each)) for each in written.values())):
        places = dict(zip(written, numbers, strict=True))
        chosen = {key: written[key][number] for key, number in places.items()}
        blocks = _with_values(environment, policy, chosen)
        try:
            place = read_place(*blocks)
        except ValidationError as error:
            problems += _value_problems(error, places, *blocks)
            continue
        settings = settings_by_key(place.environment["name"], place.policy)
        for key, number in places.items():
            block, _, name = key.partition(".")
            default = settings[key].default if key in settings else None
            parsed[key][number] = getattr(place, block).get(name, default)
    for key, values in parsed.items():
        first: dict[Any, int] = {}
        for number, value in values.items():
            same = value["sha256"] if isinstance(value, Mapping) else value
            if first.setdefault(same, number) != number:
                text = f"must be distinct, got {_path(value)} more than once"
                problems.append(Finding(("vary", key, number), text))
    return {key: tuple(values.values()) for key, values in parsed.items()}, problems


def _key_problems(environment: Block, policy: Block, written: Vary) -> Iterator[Finding]:
    """Yield names that are not environments, and keys that are not settings of all of them."""
    settings: dict[str, Mapping[str, Setting]] = {}
    for number, name in enumerate(map(str, written.get(NAME, (environment["name"],)))):
        try:
            settings[name] = settings_by_key(ENVIRONMENTS.get(name).name, policy)
        except LabError as error:
            unfit = f"{name} does not take the settings of this sweep: " * (name in ENVIRONMENTS)
            yield Finding(("vary", NAME, number), f"{unfit}{error}")
    shared = [key for each in settings.values() for key in each]
    shared = [key for key in dict.fromkeys(shared) if shared.count(key) == len(settings)]
    for key in written.keys() - {NAME, CHECKPOINT, *shared} if settings else ():
        lacking = next(name for name, each in settings.items() if key not in each)
        keys = [NAME, *shared, CHECKPOINT]
        text = f"{lacking} has no {key}{did_you_mean(key, keys)}; known: {', '.join(keys)}"
        if key.startswith("training."):
            name = key.removeprefix("training.")
            text = f"vary is for environment and policy; write {name} into entries of the grid of "
            text += f"training, as in {{estimator: …, with: {{{name}: …}}}}"
        yield Finding(("vary", key), text, key=True)
    for key in written.keys() & {*shared}:
        if (kind := next(iter(settings.values()))[key].type) in (list, dict):
            what = f"{key.partition('.')[2]} is a {'list' if kind is list else 'mapping'}"
            text = f"{what}; a sweep varies single values"
            yield Finding(("vary", key), text, key=True)


def _value_problems(
    error: ValidationError, places: Mapping[str, int], environment: Block, policy: Block
) -> Iterator[Finding]:
    tree = {"environment": environment, "policy": policy}
    for finding in findings(error, place_model(environment["name"]), tree):
        key = ".".join(map(str, [*finding.location][:2]))
        if key in places:
            yield Finding(("vary", key, places[key]), finding.message)
        else:
            name = "" if finding.key else f"{key} "
            text = _refuses(environment["name"], f"{name}{finding.message}")
            yield Finding(("vary", NAME, places.get(NAME, 0)), text)


def _refuses(environment: str, reason: str) -> str:
    return f"{environment} does not take the settings of this sweep: {reason}"


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return a distinct short name for each path; no name begins at the root.

    A file in the current folder has its path from there. Any other file has its base name, with as
    many of its folders as make the name unique.
    """
    distinct = list(dict.fromkeys(paths))
    names = {path: _from_here(path) for path in distinct if path}
    for path in [path for path, name in names.items() if os.path.isabs(name)]:
        parts = PurePath(path).parts[1:]
        rest = [PurePath(each).parts for each in distinct if each != path]
        for length in range(1, len(parts) + 1):
            tail = parts[-length:]
            if all(each[-length:] != tail for each in rest):
                break
        names[path] = "/".join(tail) if parts else path
    return names


def _from_here(path: str) -> str:
    """Return a path from the current folder if it lies inside, else the path."""
    try:
        here = os.getcwd()
    except OSError:
        return path
    if not os.path.isabs(path):
        return path
    inside = os.path.relpath(path, here)
    return path if inside.split(os.sep)[0] == os.pardir else inside
