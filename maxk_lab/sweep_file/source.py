"""A sweep file as a tree of YAML and `--set` values that knows where each value was written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from maxk_lab.errors import LabError, Problem, SpecError, shortened, shown
from maxk_lab.files import named_in_sweep

# The letters of a message, which may list all that is allowed, and of a place.
LONGEST_MESSAGE = 1200
LONGEST_PLACE = 200
# A place in the tree: keys, and indexes of lists as text, as in `--set gradient.stages.0=1`.
TreePath = tuple[str, ...]
# No sweep file is nested deeper.
_DEEPEST = 40
_NO_INTERPOLATION = (
    "a text may not hold ${: a sweep file is read as it is written and means the same everywhere; "
    "write the value itself, or give it with --set"
)
# The plain scalars that are no texts, by their tags: as in YAML 1.2, but for 017 and 1_000.
_SCALARS = {
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)",
    "float": r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
_ABOVE = "tag:yaml.org,2002:"


class Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number, and a date, 4:00:00, on, off, yes and no are texts."""


Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] in (f"{_ABOVE}null", f"{_ABOVE}merge")]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _form in _SCALARS.items():
    Loader.add_implicit_resolver(f"{_ABOVE}{_tag}", re.compile(f"^(?:{_form})$"), None)


class Mark(NamedTuple):
    """The place where something is written; lines and columns count from 1."""

    file: str
    line: int
    column: int


@dataclass
class Source:
    """The tree, and for each path of it where the value and its key are written.

    `entries` has the numbers of the sound entries of a study's grid, where others are not.
    """

    file: str
    tree: Any = None
    values: dict[TreePath, Mark] = field(default_factory=dict)
    keys: dict[TreePath, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    entries: dict[str, list[int]] = field(default_factory=dict)

    def mark(self, path: TreePath, *, key: bool = False) -> Mark:
        """Return where the value at `path` (or its key) is written, or the nearest around it."""
        mark = self.keys.get(path) if key else None
        for end in range(len(path), -1, -1):
            mark = mark or self.values.get(path[:end])
        return mark or Mark(self.file, 1, 1)

    def add(self, path: TreePath, message: str, *, key: bool = False) -> None:
        """Note a problem at the value at `path` (or its key), or at the nearest around it."""
        self.problems.append(problem_at(self.mark(path, key=key), path, message))

    @contextmanager
    def noting(self, path: TreePath) -> Iterator[None]:
        """Note a `LabError` of what is done in this context as a problem at `path`."""
        try:
            yield
        except LabError as error:
            self.add(path, str(error))


def at_path(tree: Any, path: TreePath) -> Any:
    """Return what is at a place of mappings; None where nothing is."""
    for step in path:
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return tree


def problem_at(mark: Mark, path: TreePath, message: str) -> Problem:
    """Return a problem as it is reported: on one line, however strange the keys of its path are."""
    steps = (step if step.isprintable() else shown(step) for step in path)
    place = shortened(".".join(steps), LONGEST_PLACE)
    return Problem(*mark, place or "(file)", shortened(message, LONGEST_MESSAGE))


def entries_of(source: Source, kind: str, grid: Sequence[Any]) -> Iterator[tuple[TreePath, Any]]:
    """Yield the sound entries of a study's grid, each with its place; one need not be in a list."""
    alone = not isinstance(source.tree[kind]["grid"], list)
    numbers = source.entries.get(kind, range(len(grid)))
    for number, entry in zip(numbers, grid, strict=True):
        yield (kind, "grid") if alone else (kind, "grid", str(number)), entry


def read_source(path: str | Path) -> Source:
    """The tree of a YAML file. `LabError` if it cannot be read, `SpecError` if it is no mapping."""
    return source_of(read_text(Path(path)), str(path))


def read_text(path: Path) -> str:
    """Return the text of a YAML file. Raises `LabError` if it cannot be read."""
    if path.is_dir():
        raise LabError(f"{path} is a folder; give the file itself")
    with named_in_sweep(path):
        written = path.read_bytes()
    return decoded(written, path)


def decoded(written: bytes, path: Path) -> str:
    """Return the text of a file in UTF-8. Raises `LabError` where it is none."""
    try:
        return written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LabError(f"{path} is not a text file in UTF-8 (byte {error.start + 1})") from None


def source_of(text: str, file: str) -> Source:
    """The tree of the text of a file. Raises `SpecError` where it is no mapping."""
    source = Source(file)
    parse_text(source, text)
    if source.tree is None:
        source.add((), "is empty; a sweep needs name, seeds, environment and a study")
        raise SpecError(source.problems)
    return source


def source_of_mapping(mapping: Mapping[str, Any]) -> Source:
    """The tree of a sweep in Python, by the rules of a file; it has no lines.

    Raises as `read_source`, and `LabError` for values that no file can hold.
    """
    try:
        # As JSON, which is YAML, every text is in quotation marks and stays one.
        text = json.dumps(mapping, default=_as_plain, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LabError(f"a sweep is made of plain values: {error}") from None
    source = source_of(text, "(sweep)")
    for marks in (source.values, source.keys):
        marks |= dict.fromkeys(marks, Mark(source.file, 0, 0))
    return source


def _as_plain(value: Any) -> Any:
    """Return a value that JSON does not know as one that it does."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    # An array or a number of NumPy or torch; else a set or a range.
    return value.tolist() if hasattr(value, "tolist") else sorted(value)


def parse_text(source: Source, text: str) -> None:
    """Fill in the tree of `source`; it stays None where nothing is in the text.

    Raises `SpecError` where it is no mapping.
    """
    try:
        source.tree = parse_value(source, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Mark(source.file, *((mark.line + 1, mark.column + 1) if mark else (1, 1)))
        raise SpecError([problem_at(place, (), yaml_reason(error))]) from None
    except yaml.reader.ReaderError as error:
        place = Mark(source.file, text.count("\n", 0, error.position) + 1, 1)
        reason = f"not YAML: character {chr(error.character)!r} is not allowed"
        raise SpecError([problem_at(place, (), reason)]) from None
    if source.tree is not None and not isinstance(source.tree, dict):
        source.add((), f"must be a mapping of keys to values, got {shown(source.tree)}")
        raise SpecError(source.problems)


def parse_value(source: Source, text: str) -> Any:
    """Return the value of a text, its marks and what is wrong inside noted in `source`.

    Raises `yaml.YAMLError` where it is no YAML, or no value of a sweep file.
    """
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _built(loader, node, (), source)
    except RecursionError:
        raise WrittenError(problem="is nested too deeply") from None
    finally:
        loader.dispose()


class WrittenError(yaml.MarkedYAMLError):
    """YAML that is no value of a sweep file."""


def yaml_reason(error: yaml.YAMLError) -> str:
    """Return what is wrong with a text, in one line."""
    parts = (getattr(error, name, None) for name in ("context", "problem"))
    reason = ", ".join(filter(None, parts)) or " ".join(str(error).split())
    return f"{'' if isinstance(error, WrittenError) else 'not YAML: '}{shortened(reason, 400)}"


def _built(loader: Loader, node: yaml.Node, path: TreePath, source: Source) -> Any:
    """Return the value of `node`; its marks and its repeated keys are noted in `source`."""
    source.values[path] = _mark(source, node)
    if len(path) > _DEEPEST:  # as where an alias names what it is in
        raise WrittenError(problem="is nested too deeply", problem_mark=node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        items = enumerate(node.value)
        return [_built(loader, item, (*path, str(i)), source) for i, item in items]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(loader, node)
    own = [one for one, _ in node.value if one.tag != "tag:yaml.org,2002:merge"]
    first: dict[str, Mark] = {}
    for key, mark in ((_key(loader, one), _mark(source, one)) for one in own):
        if key in first:
            message = f"key {shown(key)} is given twice, first on line {first[key].line}"
            source.problems.append(problem_at(mark, (*path, key), message))
        first.setdefault(key, mark)
    loader.flatten_mapping(node)
    built: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _key(loader, key_node)
        source.keys[*path, key] = _mark(source, key_node)
        built[key] = _built(loader, value_node, (*path, key), source)
    return built


def _scalar(loader: Loader, node: yaml.Node) -> Any:
    try:
        value = loader.construct_object(node)
        if isinstance(value, str):
            value.encode()  # half a character, as in "\ud800", can be written nowhere
    except (ValueError, KeyError, AttributeError):
        words = f"cannot be read as {node.tag.rpartition(':')[2]}"
        raise WrittenError(problem=words, problem_mark=node.start_mark) from None
    if isinstance(value, str) and "${" in value:
        raise WrittenError(problem=_NO_INTERPOLATION, problem_mark=node.start_mark)
    return value


def _mark(source: Source, node: yaml.Node) -> Mark:
    return Mark(source.file, node.start_mark.line + 1, node.start_mark.column + 1)


def _key(loader: Loader, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise yaml.MarkedYAMLError(
            problem="a key must be a plain text", problem_mark=node.start_mark
        )
    return str(_scalar(loader, node))
