"""The variants of a sweep: every combination of what it varies of its environment and policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from maxk_lab.catalogue import did_you_mean
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.fields import as_tuple
from maxk_lab.policies.catalogue import PRETRAINED_FOLDER
from maxk_lab.settings import Setting
from maxk_lab.sweeps.places import short_names
from maxk_lab.sweeps.spec.environment import (
    NAME,
    POLICY_NAME,
    completed,
    refusal_of,
    settings_by_key,
)
from maxk_lab.sweeps.spec.named_files import resolved_file
from maxk_lab.sweeps.spec.source import Source, TreePath

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
    named = {key: short_names(map(_path, vary[key])) for key in PATHS if key in vary}
    for values in product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        blocks = {"environment": dict(environment), "policy": dict(policy)}
        if NAME in chosen:
            blocks["environment"], blocks["policy"] = completed(
                {**environment, "name": chosen[NAME]}, policy
            )
        for key, value in chosen.items():
            block, _, name = key.partition(".")
            one = settings_by_key(blocks["environment"]["name"], blocks["policy"]).get(key)
            blocks[block] = {**blocks[block], name: value}
            if one is not None and one.later and value == one.default:
                del blocks[block][name]
        refused = refusal_of(**blocks) if vary else None
        # A checkpoint is known by its path; its hash is for the worker.
        setting = {
            key: named[key].get(_path(value), "") if key in named else value
            for key, value in chosen.items()
        }
        yield Variant(
            setting, blocks["environment"], blocks["policy"], None if refused == always else refused
        )


def _path(value: Any) -> str:
    """The path of a varied file, which may be resolved, or folder."""
    return str(value["path"] if isinstance(value, Mapping) else value)


def resolve_vary(source: Source, resolved: Resolved) -> dict[str, tuple[Any, ...]] | None:
    """Return `vary` with every value parsed; None if it has problems, which are noted."""
    written = source.tree.get("vary", {})
    if not isinstance(written, Mapping):
        return None
    before = len(source.problems)
    names: tuple[str, ...] = (resolved[0]["name"],)
    if NAME in written:
        names = _names(written[NAME], resolved, source)
    known = _shared(names, resolved[1])
    # In the order of the file, the last key running fastest.
    parsed: dict[str, tuple[Any, ...]] = {}
    for key, values in written.items():
        path: TreePath = ("vary", key)
        if key == NAME:
            parsed[key] = names
        elif key == CHECKPOINT:
            parsed[key] = _checkpoints(values, source)
        elif key not in known:
            keys = [NAME, *known, CHECKPOINT]
            lacking = [one for one in names if key not in settings_by_key(one, resolved[1])]
            lacks = f"{[*lacking, resolved[0]['name']][0]} has no {key}{did_you_mean(key, keys)}"
            source.add(path, f"{lacks}; known: {', '.join(keys)}", key=True)
        elif known[key][0].type is list:
            words = f"{known[key][0].name} is a list; a sweep varies single values"
            source.add(path, words, key=True)
        else:
            parsed[key] = _parse(known[key], values, path, source)
    if len(source.problems) > before or not all(parsed.values()):
        return None
    found = list(variants(*resolved, parsed))
    if parsed and all(variant.refusal is not None for variant in found):
        reason = next(variant.refusal for variant in found)
        source.add(("vary",), f"none of its {len(found)} combinations can run: {reason}")
        return None
    return parsed


def _shared(names: Sequence[str], policy: Mapping[str, Any]) -> dict[str, list[Setting]]:
    """The settings that environments of all these names have, as each of them declares it."""
    rows = [settings_by_key(name, policy) for name in names]
    return {key: [row[key] for row in rows] for key in rows[0] if all(key in row for row in rows)}


def _names(values: Any, resolved: Resolved, source: Source) -> tuple[str, ...]:
    """The names of varied environments; what is given of their parameters must fit each of them."""
    choice = Setting(NAME, Literal[ENVIRONMENTS.names()], "")
    names = _parse([choice], values, ("vary", NAME), source)
    fitting = []
    for name in names:
        try:
            known = settings_by_key(name, resolved[1])
        except LabError as error:
            source.add(("policy", "name"), f"{error}, and {NAME} takes {name} too")
            continue
        fitting.append(name)
        for block, given in zip(("environment", "policy"), resolved, strict=True):
            for key, value in given.items():
                setting = known.get(f"{block}.{key}")
                if f"{block}.{key}" in (NAME, POLICY_NAME, CHECKPOINT):
                    continue
                if setting is None:
                    source.add(
                        (block, key), f"{name}, which {NAME} takes too, has no {key}", key=True
                    )
                    continue
                try:
                    setting.parse(value)
                except LabError as error:
                    source.add((block, key), f"{name}, which {NAME} takes too: {error}")
    return tuple(fitting) or (resolved[0]["name"],)


def _checkpoints(values: Any, source: Source) -> tuple[dict[str, str], ...]:
    """Return the checkpoints of a varied policy, each with its path and hash, none twice."""
    parsed: list[dict[str, str]] = []
    for number, value in enumerate(as_tuple(values)):
        at = ("vary", CHECKPOINT, *([str(number)] if isinstance(values, list) else []))
        try:
            found = resolved_file(value, "checkpoint")
        except LabError as error:
            source.add(at, str(error))
            continue
        same = next((one["path"] for one in parsed if one["sha256"] == found["sha256"]), None)
        if same is not None:
            source.add(at, f"must be distinct, {found['path']} is what {same} is")
        parsed.append(found)
    return tuple(parsed)


def _parse(
    settings: Sequence[Setting], values: Any, path: TreePath, source: Source
) -> tuple[Any, ...]:
    """Distinct values that all of the settings take."""
    parsed: dict[Any, None] = {}
    for number, value in enumerate(as_tuple(values)):
        at = (*path, str(number)) if isinstance(values, list) else path
        try:
            found, *_ = [setting.parse(value) for setting in settings]
        except LabError as error:
            source.add(at, str(error))
            continue
        if found in parsed:
            source.add(at, f"must be distinct, got {found} more than once")
        parsed[found] = None
    return tuple(parsed)
