"""Values over those of a sweep file: `--execution FILE`, then `--set key=value`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from maxk_lab.errors import LabError, Problem, shortened, shown
from maxk_lab.fields import unknown_key
from maxk_lab.removed import removed_key
from maxk_lab.sweep_file.backends import BACKENDS, LOCAL, BackendRow
from maxk_lab.sweep_file.blocks import note_problems
from maxk_lab.sweep_file.execution import Execution
from maxk_lab.sweep_file.source import (
    Mark,
    Source,
    TreePath,
    at_path,
    parse_text,
    parse_value,
    read_text,
    yaml_reason,
)

BLOCK, SET = "execution", "--set"


def apply_execution(source: Source, file: Path | None) -> None:
    """Merge the YAML mapping in a file over `execution` in the tree of `source`, key by key.

    Raises `LabError` if the file cannot be read, and `SpecError` if it holds no mapping.
    """
    if file is None:
        return
    settings = Source(str(file))
    parse_text(settings, read_text(file))
    if isinstance(block := source.tree.get(BLOCK, {}), dict):
        source.tree[BLOCK] = block | (settings.tree or {})
    source.problems += settings.problems
    source.values |= {(BLOCK, *path): mark for path, mark in settings.values.items() if path}
    source.keys |= {(BLOCK, *path): mark for path, mark in settings.keys.items()}


def apply_overrides(source: Source, overrides: Iterable[str]) -> None:
    """Set each `key=value` in the tree of `source`.

    Mappings merge into mappings, any other value replaces; `a.0` and `a[0]` are the first entry of
    the list `a`. Problems have the file `--set` and the option's number as line.
    """
    for number, text in enumerate(overrides, start=1):
        key = text.partition("=")[0].strip()
        path = tuple(part for part in re.split(r"[.\[\]]+", key) if part)
        if path[:1] == ("vary",) and len(path) > 2:  # whose keys have a dot
            path = ("vary", ".".join(path[1:3]), *path[3:])
        _apply(source, path, text, number)


def _apply(source: Source, path: TreePath, text: str, number: int) -> None:
    # OmegaConf takes a tenth of a second to import, which a plain file need not pay.
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    key, equals, written = text.partition("=")
    key_at, value_at = Mark(SET, number, 1), Mark(SET, number, len(key) + 2)
    option = Source(SET)

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
    for problem in option.problems:
        note(value_at, problem.message)
    above = [path[:end] for end in range(1, len(path)) if path[:end] not in source.values]
    for place in (*above, path):
        source.values[place], source.keys[place] = value_at, key_at
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


def check_execution(source: Source, file: Path | None) -> None:
    """Check the keys of `execution` in the tree of `source` and parse those of its backend.

    Drops the parameters of a backend that `--set`, or else `file`, replaces by another backend.
    """
    if BLOCK not in source.tree:
        return
    block, source.tree[BLOCK] = source.tree[BLOCK], {}
    if not isinstance(block, dict):
        value = "nothing" if block is None else shown(block)
        source.add((BLOCK,), f"must be a mapping of keys to values, got {value}")
        return
    with source.noting((BLOCK, "backend")):
        row = _backend(block.get("backend", LOCAL))
        source.tree[BLOCK] = _parsed(block, row, source, [source.file, str(file), SET])


def _backend(name: Any) -> BackendRow:
    if not isinstance(name, str):
        raise LabError(f"must be a text, got {shown(name)}")
    return BACKENDS.get(name)


def _parsed(
    block: dict[str, Any], row: BackendRow, source: Source, files: list[str]
) -> dict[str, Any]:
    """Return the block without unknown keys, the parameters of its backend parsed.

    A place in a later one of `files` wins over a place in an earlier one.
    """
    common, parameters = Execution.model_fields, row.settings.model_fields
    owned = [(key, backend.name) for backend in BACKENDS for key in backend.settings.model_fields]
    backend_from = files.index(source.mark((BLOCK, "backend")).file)
    for key in block.keys() - common.keys() - parameters.keys():
        owners = [name for parameter, name in owned if parameter == key]
        words = f"is of backend {' and '.join(owners)}, and this run's is {row.name}"
        if not owners:
            allowed = [*common, *(parameter for parameter, _ in owned)]
            words = removed_key((BLOCK, key)) or unknown_key(key, allowed)
        mark = source.mark((BLOCK, key), key=True)
        if not owners or files.index(mark.file) >= backend_from:
            source.add((BLOCK, key), words, key=True)
    checked = {key: value for key, value in block.items() if key in common}
    settings = {key: value for key, value in block.items() if key in parameters}
    try:
        return checked | row.settings.model_validate(settings).model_dump(include=set(settings))
    except ValidationError as error:
        note_problems(error, source, at=(BLOCK,))
        return checked
