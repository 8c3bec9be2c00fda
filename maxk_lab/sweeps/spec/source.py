"""A sweep file as a tree of YAML and `--set` values that knows where each value was written."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from maxk_lab.errors import LabError, Problem, SpecError, shortened, shown
from maxk_lab.sweeps.spec.text.loader import MOST_BYTES, BoundError, Loader

# The letters of a message, which may list all that is allowed, and of a place.
LONGEST_MESSAGE = 1200
LONGEST_PLACE = 200
# A place in the tree: keys, and indexes of lists as text, as in `--set gradient.stages.0=1`.
TreePath = tuple[str, ...]


class Mark(NamedTuple):
    """The place where something is written; lines and columns count from 1."""

    file: str
    line: int
    column: int


@dataclass
class Source:
    """The tree, and for each path of it where the value and its key are written."""

    file: str
    tree: Any = None
    values: dict[TreePath, Mark] = field(default_factory=dict)
    keys: dict[TreePath, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def mark(self, path: TreePath, *, key: bool = False) -> Mark:
        """Return where the value at `path` (or its key) is written, or the nearest around it."""
        mark = self.keys.get(path) if key else None
        for end in range(len(path), -1, -1):
            mark = mark or self.values.get(path[:end])
        return mark or Mark(self.file, 1, 1)

    def problem(self, path: TreePath, message: str, *, key: bool = False) -> Problem:
        """Return a problem at the value at `path` (or its key), or at the nearest around it."""
        where = self.mark(path, key=key)
        return Problem(*where, _written(path) or "(file)", shortened(message, LONGEST_MESSAGE))

    def add(self, path: TreePath, message: str, *, key: bool = False) -> None:
        """Note a problem; see `problem`."""
        self.problems.append(self.problem(path, message, key=key))

    def forget(self, path: TreePath) -> None:
        """Drop the marks under `path`, whose value is replaced."""
        for marks in (self.values, self.keys):
            for known in [k for k in marks if len(k) > len(path) and k[: len(path)] == path]:
                del marks[known]


def _written(path: TreePath) -> str:
    """Return a place as text, on one line however strange its keys are."""
    steps = (step if step.isprintable() else shown(step) for step in path)
    return shortened(".".join(steps), LONGEST_PLACE)


def entry_path(source: Source, study: str, number: int) -> TreePath:
    """Return the place of an entry of a study's grid; a grid of one entry need not be a list."""
    grid = source.tree[study]["grid"]
    return (study, "grid", str(number)) if isinstance(grid, list) else (study, "grid")


def read_source(path: str | Path) -> Source:
    """The tree of a YAML file. `LabError` if it cannot be read, `SpecError` if it is no mapping."""
    return source_of(_read_text(Path(path)), str(path))


def source_of(text: str, file: str) -> Source:
    """The tree of the text of a file. Raises `SpecError` where it is no mapping."""
    source = Source(file)
    parse_text(source, text)
    if source.tree is None:
        raise SpecError(
            [source.problem((), "is empty; a sweep needs name, seeds, environment and a study")]
        )
    return source


def source_of_mapping(given: Mapping[str, Any]) -> Source:
    """The tree of a sweep that is given as a mapping, by the rules of a file; it has no lines.

    Raises as `read_source`, and `LabError` for values that no file can hold.
    """
    try:
        # As JSON, which is YAML, every text is in quotation marks and stays one.
        text = json.dumps(given, default=_as_plain, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LabError(f"a sweep is made of plain values: {error}") from None
    source = Source("(sweep)")
    parse_text(source, text)
    nowhere = Mark(source.file, 0, 0)
    source.values = dict.fromkeys(source.values, nowhere)
    source.keys = dict.fromkeys(source.keys, nowhere)
    return source


def _as_plain(value: Any) -> Any:
    """Return a value that JSON does not know as one that it does."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, range | Set):
        return sorted(value)
    if hasattr(value, "tolist"):  # an array or a number of NumPy or torch
        return value.tolist()
    raise TypeError(f"{shown(value)} is none")


def parse_text(source: Source, text: str) -> None:
    """Fill in the tree of `source`; it stays None where nothing is in the text.

    Raises `SpecError` where it is no mapping.
    """
    loader = Loader("")
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        if node is None:
            return
        source.tree = _build(loader, node, (), source)
    except yaml.MarkedYAMLError as error:
        raise SpecError([_syntax_problem(error, source.file)]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"not YAML: character {chr(error.character)!r} is not allowed"
        raise SpecError([Problem(source.file, line, 1, "(file)", message)]) from None
    except yaml.YAMLError as error:
        raise SpecError([source.problem((), f"not YAML: {error}")]) from None
    finally:
        loader.dispose()
    if not isinstance(source.tree, dict):
        raise SpecError(
            [source.problem((), f"must be a mapping of keys to values, got {shown(source.tree)}")]
        )


def _read_text(path: Path) -> str:
    if path.is_dir():
        raise LabError(f"{path} is a folder; give the sweep file itself")
    try:
        with path.open("rb") as file:
            written = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise LabError(f"{path} does not exist") from None
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None
    if len(written) > MOST_BYTES:
        raise LabError(f"{path} is no sweep file: it has more than {MOST_BYTES:,} bytes")
    return decoded(written, path)


def decoded(written: bytes, path: Path) -> str:
    """Return the text of a file in UTF-8. Raises `LabError` where it is none."""
    try:
        return written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LabError(f"{path} is not a text file in UTF-8 (byte {error.start + 1})") from None


def _syntax_problem(error: yaml.MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    message = shortened(", ".join(part for part in (error.context, error.problem) if part), 400)
    words = message if isinstance(error, BoundError) else f"not YAML: {message}"
    return Problem(file, line, column, "(file)", words)


def _build(loader: Loader, node: yaml.Node, path: TreePath, source: Source) -> Any:
    """The value of `node`, its marks and its repeated keys noted in `source`."""
    source.values[path] = _mark(source, node)
    if isinstance(node, yaml.SequenceNode):
        return [_build(loader, item, (*path, str(i)), source) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node, deep=True)
    _note_repeated_keys(loader, node, path, source)
    loader.flatten_mapping(node)
    built: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(_key(loader, key_node))
        source.keys[*path, key] = _mark(source, key_node)
        built[key] = _build(loader, value_node, (*path, key), source)
    return built


def _note_repeated_keys(
    loader: Loader, node: yaml.MappingNode, path: TreePath, source: Source
) -> None:
    first: dict[str, Mark] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key, mark = str(_key(loader, key_node)), _mark(source, key_node)
        if key in first:
            message = f"key {shown(key)} is given twice, first on line {first[key].line}"
            source.problems.append(Problem(*mark, _written((*path, key)), message))
        first.setdefault(key, mark)


def _mark(source: Source, node: yaml.Node) -> Mark:
    return Mark(source.file, node.start_mark.line + 1, node.start_mark.column + 1)


def _key(loader: Loader, node: yaml.Node) -> Any:
    key = loader.construct_object(node, deep=True)
    if not isinstance(key, Hashable):
        raise yaml.constructor.ConstructorError(
            None, None, "a key must be a plain text", node.start_mark
        )
    return key
