"""The layers of `execution`: the user's defaults, the sweep file, a profile, the command line.

A later layer goes before an earlier one, key by key, and a null takes away what earlier ones say of
its key. One that names another backend leaves the parameters of the earlier one behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LONGEST, LabError, Problem, SpecError, shortened, shown
from maxk_lab.findings import unknown_key
from maxk_lab.sweeps.backends import BACKENDS, LOCAL
from maxk_lab.sweeps.spec.execution import Execution
from maxk_lab.sweeps.spec.problems import note_problems
from maxk_lab.sweeps.spec.source import LONGEST_MESSAGE, Mark, Source, TreePath
from maxk_lab.sweeps.spec.text.config import BLOCK, profile_path, profiles_of, read_config
from maxk_lab.sweeps.spec.text.overrides import FILE

OPTION = "--backend"
_COMMON = tuple(Execution.model_fields)
_BACKEND = ("backend",)


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
class _Entry:
    """A value of a layer, and where it and its key are written."""

    value: Any
    at: Mark
    key_at: Mark


# By key; the entries of a value that is a mapping by both keys.
_Layer = dict[TreePath, _Entry]


def resolve_execution(source: Source, choice: Choice) -> None:
    """Put all layers together as `execution` in the tree of `source`, for one backend.

    Problems are noted where they are written. Raises `LabError` for a configuration that cannot be
    read, and for a profile that is not there.
    """
    if not isinstance(source.tree.get(BLOCK, {}), Mapping):
        return  # as the model will say
    config = None if choice.config is None else read_config(choice.config)
    if config is not None:
        source.problems += config.problems
    profile = None if choice.profile is None else profile_path(config, choice.profile)
    defaults, said = _layer(config, (BLOCK,)), _layer(source, (BLOCK,), of_options=True)
    # Then nothing is left of the backend that the file may have named.
    hidden = _BACKEND in said
    if choice.backend is not None:
        here = Mark(OPTION, 1, 1)
        said[_BACKEND] = _Entry(choice.backend, here, here)
    own = [_layer(source, (BLOCK,), of_options=False), _layer(config, profile), said]
    backend = next(
        (layer[_BACKEND] for layer in reversed([defaults, *own]) if _BACKEND in layer), None
    )
    if backend is not None and backend.value is None:
        backend = None
    if backend is not None and not _is_known(backend, source):
        source.tree[BLOCK] = {}
        return
    name = LOCAL if backend is None else backend.value
    merged: _Layer = {}
    every = BACKENDS.names()
    _add(defaults, merged, source, of=name, also=every)
    named = defaults[_BACKEND].value if _BACKEND in defaults else None
    for layer in own:
        named = layer[_BACKEND].value if _BACKEND in layer else named
        _add(
            layer,
            merged,
            source,
            of=name,
            also=every if hidden and layer is own[0] else [named or LOCAL],
        )
    source.tree[BLOCK] = dict(_written(merged, name, source))


def _layer(
    source: Source | None, path: TreePath | None, *, of_options: bool | None = None
) -> _Layer:
    """Return what stands at a place of a source; of a sweep that of the file, or of its options."""
    tree = None if source is None or path is None else source.tree
    for step in path or ():
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    found: _Layer = {}
    if source is None or path is None or not isinstance(tree, Mapping):
        return found
    for key, value in tree.items():
        inside: dict[TreePath, Any] = {(key,): value}
        if isinstance(value, Mapping) and value:
            inside = {(key, name): one for name, one in value.items()}
        for place, one in inside.items():
            marks = [source.mark((*path, *place), key=is_key) for is_key in (False, True)]
            if of_options is None or (marks[0].file == FILE) == of_options:
                found[place] = _Entry(one, *marks)
    return found


def _is_known(backend: _Entry, source: Source) -> bool:
    """Return whether there is a backend of this name; it is noted where there is none."""
    try:
        if not isinstance(backend.value, str):
            raise LabError(f"must be a text, got {shown(backend.value)}")
        BACKENDS.get(backend.value)
    except LabError as error:
        _note(backend.at, "backend", str(error), source)
        return False
    return True


def _add(layer: _Layer, merged: _Layer, source: Source, *, of: str, also: Iterable[str]) -> None:
    """Put a layer before those that are merged, for the backend `of`.

    Parameters of the backends `also` may stand in it, and are left behind; all others are noted.
    """
    for path, entry in layer.items():
        key = path[0]
        readers = [row.name for row in BACKENDS if row.parameter(key) is not None]
        if key in _COMMON or of in readers:
            # A value takes the place of a mapping, and a mapping that of a value.
            for other in [one for one in merged if one[0] == key and len(one) != len(path)]:
                del merged[other]
            merged[path] = entry
        elif readers and not set(readers) & set(also):
            listed = " and ".join(readers)
            _note(entry.key_at, key, f"is of backend {listed}, and this run's is {of}", source)
        elif not readers:
            known = [*_COMMON, *(one.name for one in BACKENDS.get(of).parameters)]
            others = [one.name for row in BACKENDS for one in row.parameters]
            near = known if did_you_mean(key, known) else [*known, *others]
            told = near if did_you_mean(key, near) else known
            _note(entry.key_at, key, unknown_key(key, told), source)


def _written(merged: _Layer, backend: str, source: Source) -> Iterator[tuple[str, Any]]:
    """Yield the keys of the block with their values, those of the backend parsed."""
    source.forget((BLOCK,))
    tree: dict[str, Any] = {}
    for (key, *inside), entry in merged.items():
        source.values.setdefault((BLOCK, key), entry.at)
        source.keys.setdefault((BLOCK, key), entry.key_at)
        if inside:
            under = tree.setdefault(key, {})
            if entry.value is not None:
                under[inside[0]] = entry.value
        elif entry.value is not None:
            tree[key] = entry.value
    row = BACKENDS.get(backend)
    read = {one.name: one.default for one in row.parameters}
    for key, value in tree.items():
        parameter = row.parameter(key)
        if parameter is None or key in _COMMON:
            yield key, value
        else:
            try:
                read[key] = parameter.parse(value)
                yield key, read[key]
            except LabError as error:
                source.add((BLOCK, key), str(error))
    if (clash := row.clash(read)) is not None:
        keys, message = clash
        source.add((BLOCK, next((key for key in keys if key in tree), keys[0])), message)


def _note(at: Mark, key: str, message: str, source: Source) -> None:
    name = key if key.isprintable() and len(key) <= LONGEST else shown(key)
    source.problems.append(Problem(*at, f"{BLOCK}.{name}", shortened(message, LONGEST_MESSAGE)))


def profiles(path: Path) -> dict[str, dict[str, Any]]:
    """Return what each profile of a configuration sets, over its defaults, by name.

    Raises `LabError` and `SpecError` where anything in it is wrong.
    """
    found, problems = {}, dict[Problem, None]()
    config = read_config(path)
    for name in [None, *profiles_of(config)]:
        source = Source(config.file, {})
        resolve_execution(source, Choice(path, name))
        try:
            execution = Execution.model_validate(source.tree[BLOCK])
            if name is not None:
                found[name] = execution.model_dump(exclude_defaults=True)
        except ValidationError as error:
            note_problems(error, source, (BLOCK,))
        problems |= dict.fromkeys(source.problems)
    if problems:
        raise SpecError(sorted(problems, key=lambda one: (one.line, one.column)))
    return found
