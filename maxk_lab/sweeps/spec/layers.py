"""The layers of `execution`: the user's defaults, the sweep file, a profile, the command line.

A later layer goes before an earlier one, key by key, and a null takes away what earlier ones say of
its key. One that names another backend leaves the parameters of the earlier one behind. Defaults
and profiles are in the configuration of the user, which has what differs between people and
machines, and so does not belong in a sweep file:

    execution: {timeout: 2h}
    profiles:
      cluster: {backend: slurm, partition: gpu, time: 4h}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LONGEST, LabError, Problem, SpecError, shown
from maxk_lab.findings import message, unknown_key
from maxk_lab.sweeps.backends import BACKENDS, LOCAL
from maxk_lab.sweeps.spec.blocks import note_problems
from maxk_lab.sweeps.spec.execution import Execution
from maxk_lab.sweeps.spec.source import (
    Mark,
    Source,
    TreePath,
    decoded,
    parse_text,
    problem_at,
)

BLOCK, PROFILES, OPTION = "execution", "profiles", "--backend"


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


@dataclass(frozen=True)
class _Layer:
    """The block of one source at a place of its tree; `anyone` may name parameters of any backend.

    `backend` is that of the layer, or of those before it.
    """

    source: Source
    path: TreePath
    backend: Any
    anyone: bool

    @property
    def tree(self) -> Mapping[str, Any]:
        return _mapping_at(self.source, self.path)


def resolve_execution(source: Source, options: Source, choice: Choice) -> None:
    """Put all layers together as `execution` in the tree of `source`, for one backend.

    `options` is the block of the command line. Problems are noted where they are written. Raises
    `LabError` for a configuration that cannot be read, and for a profile that is not there.
    """
    for one in (source, options):
        block = one.tree.get(BLOCK, {})
        if not isinstance(block, Mapping):
            source.problems.append(problem_at(one.mark((BLOCK,)), (BLOCK,), _no_mapping(block)))
            source.tree[BLOCK] = {}
            return
    config = Source("") if choice.config is None else read_config(choice.config)
    source.problems += config.problems
    blocks: list[tuple[Source, TreePath]] = [(config, (BLOCK,)), (source, (BLOCK,))]
    if choice.profile is not None:
        blocks.append((config, _profile_path(choice, config)))
    blocks.append((options, (BLOCK,)))
    if choice.backend is not None:
        here = Mark(OPTION, 1, 1)
        options.tree.setdefault(BLOCK, {})["backend"] = choice.backend
        options.values[BLOCK, "backend"] = options.keys[BLOCK, "backend"] = here
    layers, at, backend = [], Mark(source.file, 1, 1), None
    for number, (one, path) in enumerate(blocks):
        if "backend" in _mapping_at(one, path):
            backend, at = _mapping_at(one, path)["backend"], one.mark((*path, "backend"))
        layers.append(_Layer(one, path, backend or LOCAL, anyone=number == 0))
    if backend is not None and (reason := _unknown_backend(backend)) is not None:
        source.problems.append(problem_at(at, (BLOCK, "backend"), reason))
        source.tree[BLOCK] = {}
        return
    merged = _merged(layers, backend or LOCAL, source)
    source.tree[BLOCK] = _parsed(merged, backend or LOCAL, source)


def _unknown_backend(name: Any) -> str | None:
    if not isinstance(name, str):
        return f"must be a text, got {shown(name)}"
    try:
        BACKENDS.get(name)
    except LabError as error:
        return str(error)
    return None


def _merged(layers: Sequence[_Layer], backend: str, source: Source) -> dict[str, Any]:
    """Return all layers as one block, without what is null; the marks of `source` become its own.

    Parameters that other backends have are left behind or, where their layer is meant for this one,
    noted.
    """
    trees, values, keys = [], dict[TreePath, Mark](), dict[TreePath, Mark]()
    for layer in layers:
        tree = {
            key: one for key, one in layer.tree.items() if _is_read(key, layer, backend, source)
        }
        trees.append(tree)
        for marks, of_layer in ((values, layer.source.values), (keys, layer.source.keys)):
            for path, mark in of_layer.items():
                key = path[len(layer.path) :]
                if path[: len(layer.path)] == layer.path and key[:1] and key[0] in tree:
                    marks[BLOCK, *key] = mark
    block = source.values.get((BLOCK,))
    source.forget((BLOCK,))
    source.values |= values | ({} if block is None else {(BLOCK,): block})
    source.keys |= keys
    if sum(map(bool, trees)) <= 1:
        merged: Any = next(filter(None, trees), {})
    else:
        from omegaconf import OmegaConf

        merged = OmegaConf.to_container(OmegaConf.merge(*trees))
    return dict(_without_nulls(merged))


def _is_read(key: str, layer: _Layer, backend: str, source: Source) -> bool:
    """Return whether a key of a layer counts for a backend; it is noted where nothing reads it."""
    common = tuple(Execution.model_fields)
    readers = [row.name for row in BACKENDS if key in row.settings.model_fields]
    if key in common or backend in readers:
        return True
    if readers and (layer.anyone or layer.backend in readers):
        return False
    if readers:
        message = f"is of backend {' and '.join(readers)}, and this run's is {backend}"
    else:
        near = [*common, *BACKENDS.get(backend).settings.model_fields]
        others = [name for row in BACKENDS for name in row.settings.model_fields]
        is_others = not did_you_mean(key, near) and bool(did_you_mean(key, others))
        message = unknown_key(key, others if is_others else near)
    at = layer.source.mark((*layer.path, key), key=True)
    name = key if key.isprintable() and len(key) <= LONGEST else shown(key)
    source.problems.append(problem_at(at, (BLOCK, name), message))
    return False


def _without_nulls(block: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in block.items()
        if value is not None
    }


def _parsed(block: Mapping[str, Any], backend: str, source: Source) -> dict[str, Any]:
    """Return the block with the parameters of its backend parsed."""
    row = BACKENDS.get(backend)
    own = {key: value for key, value in block.items() if key in row.settings.model_fields}
    common = {key: value for key, value in block.items() if key not in own}
    try:
        read = row.settings.model_validate(own).model_dump()
    except ValidationError as error:
        for finding in error.errors(include_url=False):
            source.add((BLOCK, *map(str, finding["loc"])), message(finding))
        return common
    if (clash := row.clash(read)) is not None:
        keys, reason = clash
        source.add((BLOCK, next((key for key in keys if key in block), keys[0])), reason)
    return common | {key: read[key] for key in own}


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
    blocks: list[TreePath] = [(key,) for key in (BLOCK, PROFILES) if key in config.tree]
    blocks += [(PROFILES, name) for name in _mapping_at(config, (PROFILES,))]
    for block in blocks:
        value: Any = config.tree
        for step in block:
            value = value[step]
        if not isinstance(value, Mapping):
            config.add(block, _no_mapping(value))
    return config


def _no_mapping(value: Any) -> str:
    return (
        f"must be a mapping of keys to values, got {'nothing' if value is None else shown(value)}"
    )


def _mapping_at(source: Source, path: TreePath) -> Mapping[str, Any]:
    """The mapping at a place of a source, empty where there is none."""
    value = source.tree
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
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
        also = did_you_mean(name, profiles)
        listed = (one if one.isprintable() and len(one) <= 40 else shown(one) for one in profiles)
        names = f"known: {', '.join(listed)}" if profiles else "it has none"
        raise LabError(f"{config.file} has no profile {shown(name)}{also}; {names}")
    return (PROFILES, name)


def profiles(path: Path) -> dict[str, dict[str, Any]]:
    """Return what each profile of a configuration sets, over its defaults, by name.

    Raises `LabError` and `SpecError` where anything in it is wrong.
    """
    settings, problems = {}, dict[Problem, None]()
    config = read_config(path)
    for name in [None, *_mapping_at(config, (PROFILES,))]:
        source = Source(config.file, {})
        resolve_execution(source, Source("", {}), Choice(path, name))
        try:
            execution = Execution.model_validate(source.tree[BLOCK])
            if name is not None:
                settings[name] = execution.model_dump(exclude_defaults=True)
        except ValidationError as error:
            note_problems(error, source, (BLOCK,))
        problems |= dict.fromkeys(source.problems)
    if problems:
        raise SpecError(sorted(problems, key=lambda one: (one.line, one.column)))
    return settings
