"""YAML as a tree of plain values, with the line and column of every key and value in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from maxk_lab.errors import LabError, Problem, SpecError, shortened, shown
from maxk_lab.files import named_in_sweep

# The most characters of a message, which may list all allowed values, and of a path.
LONGEST_MESSAGE = 1200
LONGEST_PATH = 200
# The deepest nesting of a sweep file.
DEEPEST = 40
# The keys and list indices that lead to a value; a single value may replace a list of one.
Location = Iterable[int | str]
KeyPath = tuple[str, ...]
EXECUTION, SET = "execution", "--set"
_NO_INTERPOLATION = (
    "a text may not hold ${: a sweep file is read as it is written and means the same everywhere; "
    "write the value itself, or give it with --set"
)
# Plain scalars that are not texts, by tag: YAML 1.2 with 1_000, and 010 is a text.
_SCALARS = {
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)",
    "float": r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
_TAG = "tag:yaml.org,2002:"


class Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number, and a date, 4:00:00, 010, on, off, yes and no are texts."""


Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] in (f"{_TAG}null", f"{_TAG}merge")]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _name, _form in _SCALARS.items():
    Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"^(?:{_form})$"), None)


class InvalidError(yaml.MarkedYAMLError):
    """YAML that cannot be a value of a sweep file."""


class Mark(NamedTuple):
    """The place of a key or value; lines and columns count from 1."""

    file: str
    line: int
    column: int


@dataclass
class Source:
    """A sweep file: its tree, the marks of its values and keys, and the problems in it."""

    file: str
    tree: Any = None
    values: dict[KeyPath, Mark] = field(default_factory=dict)
    keys: dict[KeyPath, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def path(self, location: Location) -> KeyPath:
        """Return a location as written, without the index of a value outside a list."""
        path: list[str] = []
        tree = self.tree
        for step in location:
            if isinstance(step, int) and not isinstance(tree, list):
                continue
            path.append(str(step))
            inside = isinstance(step, int) or (isinstance(tree, dict) and step in tree)
            tree = tree[step] if inside else None
        return tuple(path)

    def add(self, location: Location, message: str, key: bool = False) -> None:
        """Add a problem at a value (or its key), or at the nearest enclosing value."""
        path = self.path(location)
        mark = self.keys.get(path) if key else None
        for end in range(len(path), -1, -1):
            mark = mark or self.values.get(path[:end])
        self.problems.append(make_problem(mark or Mark(self.file, 1, 1), path, message))

    def refuse(self, findings: Iterable[tuple[Location, str, bool]]) -> NoReturn:
        """Add findings, at least one, and raise a `SpecError`."""
        for finding in findings:
            self.add(*finding)
        self.raise_problems()
        raise AssertionError("an invalid sweep has problems")

    def raise_problems(self) -> None:
        """Raise a `SpecError` if there are problems: problems of the sweep file come first."""

        def place(problem: Problem) -> tuple[Any, ...]:
            outside = problem.file.startswith("--"), problem.file != self.file
            return *outside, problem.line, problem.column, problem.path, problem.message

        if self.problems:
            raise SpecError(sorted(set(self.problems), key=place))


def make_problem(mark: Mark, path: KeyPath, message: str) -> Problem:
    """Return a problem that prints on one line, also if its keys contain newlines."""
    steps = (step if step.isprintable() else shown(step) for step in path)
    place = shortened(".".join(steps), LONGEST_PATH)
    return Problem(*mark, place or "(file)", shortened(message, LONGEST_MESSAGE))


def read_source(path: str | Path) -> Source:
    """Read a sweep file. Raises `LabError` if it is unreadable, `SpecError` for a non-mapping."""
    return parse_sweep(read_text(Path(path)), str(path))


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8. Raises `LabError` if it cannot be read."""
    if path.is_dir():
        raise LabError(f"{path} is a folder; give the file itself")
    with named_in_sweep(path):
        data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LabError(f"{path} is not a text file in UTF-8 (byte {error.start + 1})") from None


def parse_sweep(text: str, file: str) -> Source:
    """Parse the text of a sweep file. Raises `SpecError` if it is not a mapping."""
    source = parse_mapping(text, file)
    if source.tree is None:
        source.add((), "is empty; a sweep needs name, seeds, environment and a study")
        source.raise_problems()
    return source


def parse_mapping(text: str, file: str) -> Source:
    """Parse a YAML mapping; the tree of an empty text is None. Raises `SpecError`."""
    source = Source(file)
    try:
        source.tree = parse_value(source, text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        if isinstance(error, yaml.reader.ReaderError):
            line = text.count("\n", 0, error.position) + 1
        problem = make_problem(Mark(file, line, column), (), yaml_reason(error))
        raise SpecError([problem]) from None
    if not isinstance(source.tree, dict | None):
        source.add((), f"must be a mapping of keys to values, got {shown(source.tree)}")
        source.raise_problems()
    return source


def source_of_mapping(mapping: Mapping[str, Any]) -> Source:
    """Return a sweep in Python as a source without lines, read by the rules of a file.

    Raises as `parse_sweep`, and `LabError` for values that no file can hold.
    """
    source = parse_sweep(as_json(mapping, "a sweep is made of"), "(sweep)")
    for marks in (source.values, source.keys):
        marks |= dict.fromkeys(marks, Mark(source.file, 0, 0))
    return source


def as_json(value: Any, what: str) -> str:
    """Return a value as JSON, which is YAML; arrays and sets become lists. Raises `LabError`."""

    def as_builtin(value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        # An array or a number of NumPy or torch; else a set or a range.
        return value.tolist() if hasattr(value, "tolist") else sorted(value)

    try:
        return json.dumps(value, default=as_builtin, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LabError(f"{what} plain values: {error}") from None


def parse_value(source: Source, text: str) -> Any:
    """Return the value of a YAML text; `source` gets its marks and repeated keys.

    Raises `yaml.YAMLError` for invalid YAML and for values that a sweep file may not hold.
    """
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _build(loader, node, (), source)
    except RecursionError:
        raise InvalidError(problem="is nested too deeply") from None
    finally:
        loader.dispose()


def yaml_reason(error: yaml.YAMLError) -> str:
    """Return the reason of a YAML error in one line."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"not YAML: character {chr(error.character)!r} is not allowed"
    phrases = (getattr(error, name, None) for name in ("context", "problem"))
    reason = ", ".join(filter(None, phrases)) or " ".join(str(error).split())
    return f"{'' if isinstance(error, InvalidError) else 'not YAML: '}{shortened(reason, 400)}"


def _build(loader: Loader, node: yaml.Node, path: KeyPath, source: Source) -> Any:
    source.values[path] = _mark(source, node)
    if len(path) > DEEPEST:  # also an alias of an enclosing value
        raise InvalidError(problem="is nested too deeply", problem_mark=node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        items = enumerate(node.value)
        return [_build(loader, item, (*path, str(i)), source) for i, item in items]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(loader, node)
    first: dict[str, Mark] = {}
    for key_node, _ in node.value:
        if key_node.tag == f"{_TAG}merge":
            continue
        key, mark = _key(loader, key_node), _mark(source, key_node)
        if key in first:
            message = f"key {shown(key)} is given twice, first on line {first[key].line}"
            source.problems.append(make_problem(mark, (*path, key), message))
        first.setdefault(key, mark)
    loader.flatten_mapping(node)
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _key(loader, key_node)
        source.keys[*path, key] = _mark(source, key_node)
        mapping[key] = _build(loader, value_node, (*path, key), source)
    return mapping


def _scalar(loader: Loader, node: yaml.Node) -> Any:
    try:
        value = loader.construct_object(node)
        if isinstance(value, str):
            value.encode()  # a lone surrogate, as in "\ud800", cannot be written
    except (ValueError, KeyError, AttributeError):
        message = f"cannot be read as {node.tag.rpartition(':')[2]}"
        raise InvalidError(problem=message, problem_mark=node.start_mark) from None
    if isinstance(value, str) and "${" in value:
        raise InvalidError(problem=_NO_INTERPOLATION, problem_mark=node.start_mark)
    return value


def _mark(source: Source, node: yaml.Node) -> Mark:
    return Mark(source.file, node.start_mark.line + 1, node.start_mark.column + 1)


def _key(loader: Loader, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise yaml.MarkedYAMLError(
            problem="a key must be a plain text", problem_mark=node.start_mark
        )
    return str(_scalar(loader, node))


def merge_execution(source: Source, path: Path) -> None:
    """Merge the YAML mapping in a file over `execution`, key by key.

    Raises `LabError` if the file cannot be read, `SpecError` if it is not a mapping.
    """
    settings = parse_mapping(read_text(path), str(path))
    if isinstance(block := source.tree.get(EXECUTION, {}), dict):
        source.tree[EXECUTION] = block | (settings.tree or {})
    source.problems += settings.problems
    source.values |= {
        (EXECUTION, *inside): mark for inside, mark in settings.values.items() if inside
    }
    source.keys |= {(EXECUTION, *inside): mark for inside, mark in settings.keys.items()}


def set_values(source: Source, overrides: Iterable[str]) -> None:
    """Set each `key=value` in the tree; mappings merge, any other value replaces.

    `a.0` and `a[0]` are the first entry of the list `a`. Problems have the file `--set` and the
    number of the option as their line.
    """
    for number, text in enumerate(overrides, start=1):
        key, equals, written = text.partition("=")
        path = tuple(step for step in re.split(r"[.\[\]]+", key.strip()) if step)
        if path[:1] == ("vary",) and len(path) > 2:  # keys of `vary` have a dot
            path = ("vary", ".".join(path[1:3]), *path[3:])
        key_mark, value_mark = Mark(SET, number, 1), Mark(SET, number, len(key) + 2)
        inside = Source(SET)
        try:
            if not equals or not path:
                raise LabError(f"must read key=value, got {shown(text)}")
            inside.tree = parse_value(inside, written)
            source.tree = _with_value(source.tree, path, inside.tree)
        except (LabError, yaml.YAMLError) as error:
            mark, reason = key_mark, str(error)
            if isinstance(error, yaml.YAMLError):
                mark, reason = value_mark, yaml_reason(error)
            source.problems.append(make_problem(mark, path or ("(option)",), reason))
            continue
        for each in inside.problems:
            source.problems.append(make_problem(value_mark, path, each.message))
        for end in range(1, len(path) + 1):
            if end == len(path) or path[:end] not in source.values:
                source.values[path[:end]], source.keys[path[:end]] = value_mark, key_mark
        for below in inside.keys:
            source.values[*path, *below] = source.keys[*path, *below] = value_mark


def _with_value(tree: Any, path: KeyPath, value: Any) -> Any:
    """Return a tree with a value set. Raises `LabError` for a path that no tree can have."""
    # OmegaConf takes a tenth of a second to import, so only --set pays.
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        config = OmegaConf.create(tree)
        name = path[0] + "".join(f"[{step}]" for step in path[1:])
        merge = isinstance(value, dict) and not OmegaConf.is_list(OmegaConf.select(config, name))
        OmegaConf.update(config, name, value, merge=merge)
        return OmegaConf.to_container(config)
    except (OmegaConfBaseException, ValueError, TypeError, LookupError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        for depth, step in enumerate(path):
            if isinstance(tree, list) and not step.isdigit():
                before, rest = ".".join(path[:depth]), ".".join(path[depth:])
                reason = f"{before} is a list; say which entry, as in {before}.0.{rest}"
            tree = tree.get(step) if isinstance(tree, dict) else None
        raise LabError(f"cannot be set: {shortened(reason, 400)}") from None
