"""The variants of a sweep: every combination of what it varies of its environment and policy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import PurePath
from typing import Any, Literal

from maxk_lab.catalogue import did_you_mean
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.fields import as_tuple
from maxk_lab.files import resolved_file
from maxk_lab.policies.catalogue import PRETRAINED_FOLDER
from maxk_lab.settings import Setting
from maxk_lab.sweep_file.environment import (
    NAME,
    completed,
    refusal_of,
    settings_by_key,
)
from maxk_lab.sweep_file.source import Source, TreePath

Resolved = tuple[dict[str, Any], dict[str, Any]]
Vary = Mapping[str, Sequence[Any]]
# The key by which a sweep varies the origin of its policies; its values are paths.
CHECKPOINT = "policy.checkpoint"
# Those whose values are paths.
PATHS = (CHECKPOINT, f"policy.{PRETRAINED_FOLDER}")


@dataclass(frozen=True)
class Variant:
    """One combination: the varied values by key, and the environment and policy that they give.

    `refusal` says why these cannot run, if they cannot.
    """

    setting: dict[str, Any]
    environment: dict[str, Any]
    policy: dict[str, Any]
    refusal: str | None = None


def variants(
    environment: Mapping[str, Any], policy: Mapping[str, Any], vary: Vary
) -> Iterator[Variant]:
    """Yield every combination of parsed values, the last key running fastest.

    Where nothing varies, it is the environment as it is.
    """
    # Whatever is refused with nothing varied was sound when the run was made: a reward function
    # that is not at hand where the run is reported. It says nothing of the combinations.
    always = refusal_of(*completed(environment, policy)) if vary else None
    names = {key: short_names(map(_path, vary[key])) for key in PATHS if key in vary}
    for values in product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        blocks = {"environment": dict(environment), "policy": dict(policy)}
        if NAME in chosen:
            named = {**environment, "name": chosen[NAME]}
            blocks["environment"], blocks["policy"] = completed(named, policy)
        for key, value in chosen.items():
            block, _, name = key.partition(".")
            one = settings_by_key(blocks["environment"]["name"], blocks["policy"]).get(key)
            blocks[block] = {**blocks[block], name: value}
            if one is not None and one.later and value == one.default:
                del blocks[block][name]
        refused = refusal_of(**blocks) if vary else None
        # A checkpoint is known by its path; its hash is for the worker.
        setting = {
            key: names[key].get(_path(value), "") if key in names else value
            for key, value in chosen.items()
        }
        yield Variant(setting, **blocks, refusal=None if refused == always else refused)


def _path(value: Any) -> str:
    """The path of a varied file, which may be resolved, or folder."""
    return str(value["path"] if isinstance(value, Mapping) else value)


def resolve_vary(
    source: Source, resolved: Resolved
) -> tuple[dict[str, tuple[Any, ...]], list[Variant]] | None:
    """Return `vary` with every value parsed, and all variants; None for problems, noted."""
    written = source.tree.get("vary", {})
    if not isinstance(written, Mapping):
        return None
    before, environment, policy = len(source.problems), *resolved
    names = _names(written[NAME], resolved, source) if NAME in written else (environment["name"],)
    rows = [settings_by_key(name, policy) for name in names]
    # The settings that environments of all these names have, as each of them declares it.
    shared = {key: [row[key] for row in rows] for key in rows[0] if all(key in row for row in rows)}
    # In the order of the file, the last key running fastest.
    parsed: dict[str, tuple[Any, ...]] = {}
    for key, values in written.items():
        path: TreePath = ("vary", key)
        if key == NAME:
            parsed[key] = names
        elif key == CHECKPOINT:
            parsed[key] = _checkpoints(values, source)
        elif key not in shared:
            keys = [NAME, *shared, CHECKPOINT]
            lacking = [name for name, row in zip(names, rows, strict=True) if key not in row]
            lacks = f"{lacking[0]} has no {key}{did_you_mean(key, keys)}"
            source.add(path, f"{lacks}; known: {', '.join(keys)}", key=True)
        elif shared[key][0].type is list:
            words = f"{shared[key][0].name} is a list; a sweep varies single values"
            source.add(path, words, key=True)
        else:
            parsed[key] = _parsed(shared[key], values, path, source)
    if len(source.problems) > before or not all(parsed.values()):
        return None
    found = list(variants(*resolved, parsed))
    if parsed and all(variant.refusal is not None for variant in found):
        reason = f"none of its {len(found)} combinations can run: {found[0].refusal}"
        source.add(("vary",), reason)
        return None
    return parsed, found


def _names(values: Any, resolved: Resolved, source: Source) -> tuple[str, ...]:
    """The names of varied environments; what is given of their parameters must fit each of them."""
    known = Setting(NAME, Literal[ENVIRONMENTS.names()], "")
    fitting = []
    for name in _parsed([known], values, ("vary", NAME), source):
        try:
            completed({**resolved[0], "name": name}, resolved[1])
            fitting.append(name)
        except LabError as error:
            source.add(("vary", NAME), f"{name} does not take what is given: {error}")
    return tuple(fitting) or (resolved[0]["name"],)


def _at(number: int, values: Any, path: TreePath) -> TreePath:
    """The place of a value, which need not be in a list."""
    return (*path, str(number)) if isinstance(values, list) else path


def _checkpoints(values: Any, source: Source) -> tuple[dict[str, str], ...]:
    """Return the checkpoints of a varied policy, each with its path and hash, none twice."""
    first: dict[str, dict[str, str]] = {}
    for number, value in enumerate(as_tuple(values)):
        with source.noting(_at(number, values, ("vary", CHECKPOINT))):
            file = resolved_file(value, "checkpoint")
            same = first.setdefault(file["sha256"], file)
            if same is not file:
                raise LabError(f"must be distinct, {file['path']} is what {same['path']} is")
    return tuple(first.values())


def _parsed(
    settings: Sequence[Setting], values: Any, path: TreePath, source: Source
) -> tuple[Any, ...]:
    """Distinct values that all of the settings take."""
    parsed: dict[Any, None] = {}
    for number, value in enumerate(as_tuple(values)):
        with source.noting(_at(number, values, path)):
            one, *_ = [setting.parse(value) for setting in settings]
            if one in parsed:
                raise LabError(f"must be distinct, got {one} more than once")
            parsed[one] = None
    return tuple(parsed)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return a distinct short name for each path; no name begins at the root.

    A file of the current folder is named from there. Any other file has its base name, with as
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
