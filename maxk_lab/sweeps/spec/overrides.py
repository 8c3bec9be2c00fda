"""Values of the command line, as in `--set a.b=1`, over those of the file, by OmegaConf's rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from maxk_lab.errors import Problem, shortened, shown
from maxk_lab.sweeps.spec.source import (
    Mark,
    Source,
    TreePath,
    parse_value,
    yaml_reason,
)

FILE = "--set"


def apply_overrides(source: Source, overrides: Sequence[str]) -> Source:
    """Set each `key=value` in the tree of `source`; those of `execution` in a tree of their own.

    That tree is returned, for a profile goes before the file and behind the command line. Problems
    have the file `--set` and the option's number. Mappings merge into mappings, all else replaces;
    `a.0` and `a[0]` are the first entry of the list `a`.
    """
    options = Source(FILE, {})
    for number, text in enumerate(overrides, start=1):
        key = text.partition("=")[0]
        path = _path(key.strip())
        of_execution = path[:1] == ("execution",)
        if of_execution and len(path) > 2:
            _copy_list(source, options, path[1])
        _apply(options if of_execution else source, path, text, number)
    source.problems += options.problems
    return options


def _copy_list(source: Source, options: Source, key: str) -> None:
    """Put a list of `execution` into the options, of which one sets an entry."""
    written, block = _at(source.tree, ("execution", key)), options.tree.setdefault("execution", {})
    if isinstance(written, list) and isinstance(block, dict):
        block.setdefault(key, written)


def _apply(source: Source, path: TreePath, text: str, number: int) -> None:
    # OmegaConf takes a tenth of a second to import, which a plain file need not pay.
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    key, equals, written = text.partition("=")
    key_at, value_at = Mark(FILE, number, 1), Mark(FILE, number, len(key) + 2)
    place = ".".join(path) or "(option)"
    if not equals or not path:
        reason = f"must read key=value, got {shown(text)}"
        source.problems.append(Problem(*key_at, place, reason))
        return
    option = Source(FILE)
    try:
        value = parse_value(option, written)
        source.problems += [Problem(*value_at, place, one.message) for one in option.problems]
        config = OmegaConf.create(source.tree)
        name = path[0] + "".join(f"[{step}]" for step in path[1:])
        into_list = isinstance(_at(source.tree, path), list)
        OmegaConf.update(config, name, value, merge=isinstance(value, dict) and not into_list)
        source.tree = OmegaConf.to_container(config)
    except yaml.YAMLError as error:
        source.problems.append(Problem(*value_at, place, yaml_reason(error)))
        return
    except (OmegaConfBaseException, ValueError, TypeError, LookupError, AssertionError) as error:
        reason = _no_entry(source.tree, path) or _first_line(error)
        source.problems.append(Problem(*key_at, place, f"cannot be set: {reason}"))
        return
    for end in range(1, len(path) + 1):
        if path[:end] not in source.values or end == len(path):
            source.values[path[:end]], source.keys[path[:end]] = value_at, key_at
    if not isinstance(value, dict):
        source.forget(path)
    for inside in list(option.keys):
        source.values[*path, *inside] = source.keys[*path, *inside] = value_at


def _path(key: str) -> TreePath:
    """Return the place that a key such as `gradient.stages[0]` names; keys of `vary` have a dot."""
    path = tuple(part for part in re.split(r"[.\[\]]+", key) if part)
    if path[:1] == ("vary",) and len(path) > 2:
        return ("vary", ".".join(path[1:3]), *path[3:])
    return path


def _at(tree: Any, path: TreePath) -> Any:
    for step in path:
        tree = tree.get(step) if isinstance(tree, dict) else None
    return tree


def _no_entry(tree: Any, path: TreePath) -> str | None:
    """Return the words for a path that leads into a list but names none of its entries."""
    for depth, step in enumerate(path):
        if isinstance(tree, list) and not step.isdigit():
            before, rest = ".".join(path[:depth]), ".".join(path[depth:])
            return f"{before} is a list; say which entry, as in {before}.0.{rest}"
        if isinstance(tree, dict):
            tree = tree.get(step)
        else:
            tree = tree[int(step)] if isinstance(tree, list) and int(step) < len(tree) else None
    return None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return shortened(lines[0], 400) if lines else type(error).__name__
