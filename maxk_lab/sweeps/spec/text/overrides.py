"""Values of the command line, as in `--set a.b=1`, over those of the file, by OmegaConf's rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from maxk_lab.errors import Problem, shortened, shown
from maxk_lab.sweeps.spec.source import Mark, Source, TreePath
from maxk_lab.sweeps.spec.text.interpolations import (
    OPENING,
    check_interpolations,
    holds_interpolation,
    interpolation_problem,
)
from maxk_lab.sweeps.spec.text.loader import MOST_LEVELS, BoundError, check_bounds

FILE = "--set"


def apply_overrides(source: Source, overrides: Sequence[str]) -> None:
    """Set each `key=value` in the tree of `source`.

    Problems have the file `--set` and the option's number. Mappings merge into mappings, all else
    replaces; `a.0` and `a[0]` are the first entry of the list `a`.
    """
    interpolated = holds_interpolation(source.tree)
    if interpolated:
        check_interpolations(source)
    if not overrides and not interpolated:
        return
    # OmegaConf takes a tenth of a second to import, which a plain file need not pay.
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        config = OmegaConf.create(source.tree)
        for number, text in enumerate(overrides, start=1):
            _apply(config, source, text, number)
            interpolated = interpolated or OPENING in text
            if interpolated:
                source.tree = OmegaConf.to_container(config)
                check_interpolations(source)
        source.tree = OmegaConf.to_container(config, resolve=True)
    except (OmegaConfBaseException, ValueError) as error:
        source.add(_path(getattr(error, "full_key", None) or ""), _first_line(error))


def _apply(config: Any, source: Source, text: str, number: int) -> None:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    key, equals, written = text.partition("=")
    path = _path(key.strip())
    here, value_here = Mark(FILE, number, 1), Mark(FILE, number, len(key) + 2)

    def note(mark: Mark, message: str) -> None:
        source.problems.append(Problem(*mark, ".".join(path) or "(option)", message))

    if not equals or not path:
        return note(here, f"must read key=value, got {shown(text)}")
    if len(path) > MOST_LEVELS:
        deep = f"its key has {len(path):,} parts, and at most {MOST_LEVELS} are read"
        source.problems.append(Problem(*here, shown(key), deep))
        return None
    if OPENING in written and (problem := interpolation_problem(written)) is not None:
        return note(value_here, problem)
    try:
        check_bounds(written)
        value = OmegaConf.from_dotlist([f"value={written}"])._get_node("value")
        if path[0] == "vary" and len(path) > 1:
            # OmegaConf takes the dot in the keys of `vary` for a step down.
            if not OmegaConf.is_dict(config.get("vary")):
                config["vary"] = {}
            if len(path) == 2:
                config["vary"][path[1]] = value
            else:
                OmegaConf.update(config["vary"][path[1]], ".".join(path[2:]), value, merge=True)
        else:
            key_path = ".".join(path)
            before = OmegaConf.select(config, key_path, throw_on_resolution_failure=False)
            both = OmegaConf.is_dict(value) and not OmegaConf.is_list(before)
            OmegaConf.update(config, key_path, value, merge=both)
    except yaml.YAMLError as error:
        reason = shortened(str(getattr(error, "problem", None) or error), 400)
        words = reason if isinstance(error, BoundError) else f"not YAML: {reason}"
        return note(value_here, words)
    except (
        OmegaConfBaseException,
        ValueError,
        TypeError,
        IndexError,
        AttributeError,
        AssertionError,
    ) as error:
        reason = _no_entry(source.tree, path) or _first_line(error)
        return note(here, f"cannot be set: {reason}")
    for end in range(1, len(path) + 1):
        if path[:end] not in source.values or end == len(path):
            source.values[path[:end]] = value_here
            source.keys[path[:end]] = here
    given = OmegaConf.to_container(value) if OmegaConf.is_config(value) else None
    _mark_under(source, path, given, value_here)


def _path(key: str) -> TreePath:
    """Return the place that a key such as `gradient.stages[0]` names; keys of `vary` have a dot."""
    path = tuple(part for part in re.split(r"[.\[\]]+", key) if part)
    if path[:1] == ("vary",) and len(path) > 2:
        return ("vary", ".".join(path[1:3]), *path[3:])
    return path


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


def _mark_under(source: Source, path: TreePath, value: Any, mark: Mark) -> None:
    """Mark what the option itself says; what a mapping leaves as it was keeps its place."""
    if not isinstance(value, dict):
        source.forget(path)
        return
    for key, item in value.items():
        source.values[*path, str(key)] = source.keys[*path, str(key)] = mark
        _mark_under(source, (*path, str(key)), item, mark)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return shortened(lines[0], 400) if lines else type(error).__name__
