"""Values over those of a sweep file: `--set a.b=1`, and the layers of `execution`.

The layers are the user's defaults, the sweep file, a profile and the command line. A later one goes
before an earlier one, key by key, and a null takes away what earlier ones say of its key. One that
names another backend leaves the parameters of the earlier one behind. Defaults and profiles are in
the configuration of the user, which has what differs between people and machines, and so does not
belong in a sweep file:

    execution: {timeout: 2h}
    profiles:
      cluster: {backend: slurm, partition: gpu, time: 4h}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, Problem, SpecError, shortened, shown
from maxk_lab.fields import unknown_key
from maxk_lab.sweep_file.backends import BACKENDS, LOCAL, BackendRow
from maxk_lab.sweep_file.blocks import note_problems
from maxk_lab.sweep_file.execution import Execution
from maxk_lab.sweep_file.source import (
    Mark,
    Source,
    TreePath,
    at_path,
    decoded,
    parse_text,
    parse_value,
    problem_at,
    yaml_reason,
)

BLOCK, PROFILES = "execution", "profiles"
FILE = "--set"


def apply_overrides(source: Source, overrides: Sequence[str]) -> Source:
    """Set each `key=value` in the tree of `source`; those of `execution` in a tree of their own.

    That tree is returned, for a profile goes before the file and behind the command line. Problems
    have the file `--set` and the option's number. Mappings merge into mappings, all else replaces;
    `a.0` and `a[0]` are the first entry of the list `a`.
    """
    options = Source(FILE, {}, problems=source.problems)
    for number, text in enumerate(overrides, start=1):
        key = text.partition("=")[0].strip()
        path = tuple(part for part in re.split(r"[.\[\]]+", key) if part)
        if path[:1] == ("vary",) and len(path) > 2:  # whose keys have a dot
            path = ("vary", ".".join(path[1:3]), *path[3:])
        if path[:1] == (BLOCK,):
            # An option may set one entry of a list of the file.
            written, block = at_path(source.tree, path[:2]), options.tree.setdefault(BLOCK, {})
            if isinstance(written, list) and isinstance(block, dict) and len(path) > 2:
                block.setdefault(path[1], written)
        _apply(options if path[:1] == (BLOCK,) else source, path, text, number)
    return options


def _apply(source: Source, path: TreePath, text: str, number: int) -> None:
    # OmegaConf takes a tenth of a second to import, which a plain file need not pay.
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    key, equals, written = text.partition("=")
    key_at, value_at = Mark(FILE, number, 1), Mark(FILE, number, len(key) + 2)
    option = Source(FILE)

    def note(mark: Mark, reason: str) -> None:
        source.problems.append(Problem(*mark, ".".join(path) or "(option)", reason))

    if not equals or not path:
        note(key_at, f"must read key=value, got {shown(text)}")
        return
    try:
        value = parse_value(option, written)
        config = OmegaConf.create(source.tree)
        name = path[0] + "".join(f"[{step}]" for step in path[1:])
        into_list = isinstance(at_path(source.tree, path), list)
        OmegaConf.update(config, name, value, merge=isinstance(value, dict) and not into_list)
    except yaml.YAMLError as error:
        note(value_at, yaml_reason(error))
        return
    except (OmegaConfBaseException, ValueError, TypeError, LookupError, AssertionError) as error:
        reason = _no_entry(source.tree, path) or shortened(str(error).partition("\n")[0], 400)
        note(key_at, f"cannot be set: {reason}")
        return
    source.tree = OmegaConf.to_container(config)
    for one in option.problems:
        note(value_at, one.message)
    above = [path[:end] for end in range(1, len(path)) if path[:end] not in source.values]
    for at in (*above, path):
        source.values[at], source.keys[at] = value_at, key_at
    for inside in option.keys:
        source.values[*path, *inside] = source.keys[*path, *inside] = value_at


def _no_entry(tree: Any, path: TreePath) -> str | None:
    """Return the words for a path that leads into a list but names none of its entries."""
    for depth, step in enumerate(path):
        if isinstance(tree, list) and not step.isdigit():
            before, rest = ".".join(path[:depth]), ".".join(path[depth:])
            return f"{before} is a list; say which entry, as in {before}.0.{rest}"
        tree = tree.get(step) if isinstance(tree, dict) else None
    return None


@dataclass(frozen=True)
class Choice:
    """All that is said of the execution outside of the sweep file.

    `config` is the configuration of the user, if there is one, `profile` the name of one of its
    profiles, and `backend` that of the command line.
    """

    config: Path | None = None
    profile: str | None = None
    backend: str | None = None


NO_CHOICE = Choice()


def resolve_execution(source: Source, options: Source, choice: Choice) -> None:
    """Put all layers together as `execution` in the tree of `source`, for one backend.

    `options` is the block of the command line. Problems are noted where they are written. Raises
    `LabError` for a configuration that cannot be read, and for a profile that is not there.
    """
    for one in (source, options):
        if not isinstance(block := one.tree.get(BLOCK, {}), Mapping):
            source.problems.append(problem_at(one.mark((BLOCK,)), (BLOCK,), _no_mapping(block)))
            source.tree[BLOCK] = {}
            return
    config = Source("") if choice.config is None else read_config(choice.config)
    source.problems += config.problems
    layers: list[tuple[Source, TreePath]] = [(config, (BLOCK,)), (source, (BLOCK,))]
    if choice.profile is not None:
        layers.append((config, _profile_path(choice, config)))
    if choice.backend is not None:
        options.tree.setdefault(BLOCK, {})["backend"] = choice.backend
        options.values[BLOCK, "backend"] = Mark("--backend", 1, 1)
    block, meant_for = _merged([*layers, (options, (BLOCK,))], source)
    backend, row = block.setdefault("backend", LOCAL), None
    with source.noting((BLOCK, "backend")):
        if not isinstance(backend, str):
            raise LabError(f"must be a text, got {shown(backend)}")
        row = BACKENDS.get(backend)
    source.tree[BLOCK] = {} if row is None else _parsed(block, meant_for, row, source)


def _merged(
    layers: Sequence[tuple[Source, TreePath]], source: Source
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all layers, blocks at a place of their source, as one, without what is null.

    With it comes, for every key, the backend that the last layer which has it is meant for; None
    for the first layer, whose parameters may be of any. The marks of `source` become the block's.
    """
    blocks, backend = [], LOCAL
    meant_for: dict[str, Any] = {}
    values, keys = dict[TreePath, Mark](), dict[TreePath, Mark]()
    for number, (one, path) in enumerate(layers):
        block = _mapping_at(one, path)
        backend = block.get("backend", backend) or LOCAL
        meant_for |= dict.fromkeys(block, backend if number else None)
        blocks += [block] if block else []
        for marks, of_layer in ((values, one.values), (keys, one.keys)):
            inside = {at: mark for at, mark in of_layer.items() if at[: len(path)] == path}
            marks |= {(BLOCK, *at[len(path) :]): mark for at, mark in inside.items()}
    source.values |= values
    source.keys |= keys
    merged: Any = next(iter(blocks), {})
    if len(blocks) > 1:
        from omegaconf import OmegaConf

        merged = OmegaConf.to_container(OmegaConf.merge(*blocks))
    return _without_nulls(merged), meant_for


def _no_mapping(value: Any) -> str:
    given = "nothing" if value is None else shown(value)
    return f"must be a mapping of keys to values, got {given}"


def _without_nulls(block: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in block.items()
        if value is not None
    }


def _parsed(
    block: Mapping[str, Any], meant_for: Mapping[str, Any], row: BackendRow, source: Source
) -> dict[str, Any]:
    """Return the block with the parameters of its backend parsed, without those of others.

    Those that a layer gives for another backend are left behind with that, else noted.
    """
    common, own = Execution.model_fields, row.settings.model_fields
    others = [(key, other.name) for other in BACKENDS for key in other.settings.model_fields]
    for key in [key for key in block if key not in common and key not in own]:
        readers = [name for other, name in others if other == key]
        if not readers:
            words = unknown_key(key, [*common, *(other for other, _ in others)])
            source.add((BLOCK, key), words, key=True)
        elif not {None, *readers} & {meant_for[key]}:
            of_others = f"is of backend {' and '.join(readers)}, and this run's is {row.name}"
            source.add((BLOCK, key), of_others, key=True)
    kept = {key: value for key, value in block.items() if key in common}
    given = {key: value for key, value in block.items() if key in own}
    try:
        read = row.settings.model_validate(given).model_dump()
    except ValidationError as error:
        note_problems(error, source, at=(BLOCK,))
        return kept
    return kept | {key: read[key] for key in given}


def read_config(path: Path) -> Source:
    """Return a configuration as a tree, empty where nothing is in the file.

    What is wrong with it as a whole is noted; what it says is checked where it is used. Raises
    `LabError` where it cannot be read, and `SpecError` where it is no mapping in YAML.
    """
    try:
        written = path.read_bytes()
    except OSError as error:
        raise LabError(f"your configuration {path} cannot be read: {error.strerror}") from None
    config = Source(str(path))
    parse_text(config, decoded(written, path))
    config.tree = config.tree or {}
    for key in config.tree:
        if key not in (BLOCK, PROFILES):
            config.add((key,), unknown_key(key, (BLOCK, PROFILES)), key=True)
    named = _mapping_at(config, (PROFILES,))
    for block in ((BLOCK,), (PROFILES,), *((PROFILES, name) for name in named)):
        value = at_path(config.tree, block)
        if block[-1] in _mapping_at(config, block[:-1]) and not isinstance(value, Mapping):
            config.add(block, _no_mapping(value))
    return config


def _mapping_at(source: Source, path: TreePath) -> Mapping[str, Any]:
    """Return the mapping at a place of a source, empty where there is none."""
    value = at_path(source.tree, path)
    return value if isinstance(value, Mapping) else {}


def _profile_path(choice: Choice, config: Source) -> TreePath:
    """Return the place of a profile. Raises `LabError` where there is none of this name."""
    name = choice.profile or ""
    if choice.config is None:
        raise LabError(
            f"there is no profile {shown(name)}: you have no configuration "
            "(maxk-lab list profiles says where it would be)"
        )
    profiles = _mapping_at(config, (PROFILES,))
    if name not in profiles:
        names = f"known: {', '.join(profiles)}" if profiles else "it has none"
        also = did_you_mean(name, profiles)
        raise LabError(f"{config.file} has no profile {shown(name)}{also}; {names}")
    return (PROFILES, name)


def profiles(path: Path) -> dict[str, dict[str, Any]]:
    """Return what each profile of a configuration sets, over its defaults, by name.

    Raises `LabError` and `SpecError` where anything in it is wrong.
    """
    settings, problems = {}, set[Problem]()
    for name in [None, *_mapping_at(read_config(path), (PROFILES,))]:
        source = Source(str(path), {})
        resolve_execution(source, Source("", {}), Choice(path, name))
        try:
            execution = Execution.model_validate(source.tree[BLOCK])
            if name is not None:
                settings[name] = execution.model_dump(exclude_defaults=True)
        except ValidationError as error:
            note_problems(error, source, at=(BLOCK,))
        problems |= set(source.problems)
    if problems:
        raise SpecError(sorted(problems, key=lambda one: (one.line, one.column)))
    return settings
