"""Values that name other values of a sweep file, as `${gradient.pool}`: what they may say.

OmegaConf fills them in. It can do more, such as read environment variables, which a sweep file may
not, and it writes out whatever it is given: both are refused before it is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from maxk_lab.errors import SpecError, shown
from maxk_lab.sweeps.spec.source import Source, TreePath
from maxk_lab.sweeps.spec.text.loader import MOST_BYTES

OPENING = "${"
_NAMED = re.compile(r"\$\{ *(\.*)([\w-]+(?:[.\[\]]+[\w-]+)*\]?) *\}")
# Letters that a value takes besides its own, where all values are written out.
_PER_VALUE = 30


def holds_interpolation(tree: Any) -> bool:
    """Return whether any text in the tree names another value."""
    return any(isinstance(value, str) and OPENING in value for _, value in _leaves(tree, ()))


def interpolation_problem(text: str) -> str | None:
    """Return why a text with `${` in it says more than which values it stands for, or None."""
    for place in re.finditer(re.escape(OPENING), text):
        if _NAMED.match(text, place.start()):
            continue
        body = text[place.end() : place.end() + 100].partition("}")[0]
        if ":" in body:
            name = body.partition(":")[0].strip()
            return (
                f"{shown(OPENING + name + ':')} asks for more than a value of the file: a sweep "
                "file means the same everywhere, so it reads no environment variables and calls "
                "nothing; write the value, or give it with --set"
            )
        return f"an interpolation must read ${{key}} or ${{key.key}}, got {shown(OPENING + body)}"
    return None


def check_interpolations(source: Source) -> None:
    """Raise `SpecError` for interpolations that are none, name nothing, or make the file huge.

    What else is wrong with the file is only known once they are filled in.
    """
    before = len(source.problems)
    sizes = _Sizes(source.tree)
    for path, text in _leaves(source.tree, ()):
        if not isinstance(text, str) or OPENING not in text:
            continue
        problem = interpolation_problem(text)
        if problem is None:
            problem = sizes.problem(path, text)
        if problem is not None:
            source.add(path, problem)
    if len(source.problems) == before and sizes.of(()) > MOST_BYTES:
        source.add(max(sizes.interpolated, key=sizes.of), _TOO_LONG)
    if len(source.problems) > before:
        raise SpecError(source.problems)


_TOO_LONG = f"its interpolations make the file longer than {MOST_BYTES:,} letters"


class _Sizes:
    """The letters of every value of a tree with its interpolations filled in, by its place.

    None is filled in for that: what several values name is looked at once.
    """

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._known: dict[TreePath, int] = {}
        self._open: set[TreePath] = set()
        self.interpolated: list[TreePath] = []

    def problem(self, path: TreePath, text: str) -> str | None:
        """Return why the values that a text names cannot be filled in, or None."""
        for name, named in _named(path, text):
            if _at(self._tree, named) is _NOTHING:
                return f"{shown(name)} names no value of the file"
            if path[: len(named)] == named:
                return f"{shown(name)} contains itself"
        try:
            size = self.of(path)
        except _CircleError:
            return f"{shown(text)} is filled in with itself"
        self.interpolated.append(path)
        return _TOO_LONG if size > MOST_BYTES else None

    def of(self, path: TreePath) -> int:
        """Return the letters of the value at `path`. Raises `_CircleError` where it has no end."""
        if path in self._known:
            return self._known[path]
        if path in self._open:
            raise _CircleError
        self._open.add(path)
        value = _at(self._tree, path)
        size = _PER_VALUE
        if isinstance(value, Mapping):
            size += sum(len(key) + self.of((*path, key)) for key in value)
        elif isinstance(value, list):
            size += sum(self.of((*path, str(i))) for i in range(len(value)))
        elif isinstance(value, str):
            size += len(value)
            size += sum(
                self.of(named)
                for _, named in _named(path, value)
                if _at(self._tree, named) is not _NOTHING
            )
        self._open.discard(path)
        self._known[path] = size
        return size


class _CircleError(Exception):
    """A value is filled in with itself."""


_NOTHING = object()


def _at(tree: Any, path: TreePath) -> Any:
    for step in path:
        if isinstance(tree, list) and step.isdigit() and int(step) < len(tree):
            tree = tree[int(step)]
        elif isinstance(tree, Mapping) and step in tree:
            tree = tree[step]
        else:
            return _NOTHING
    return tree


def _named(path: TreePath, text: str) -> Iterator[tuple[str, TreePath]]:
    """Yield the interpolations of the text at `path`, and the place that each of them names."""
    for found in _NAMED.finditer(text):
        dots, key = found.groups()
        # One dot is the mapping that the value is in, and each further one the mapping around it.
        around = path[: len(path) - len(dots)] if dots else ()
        yield found.group(), (*around, *(step for step in re.split(r"[.\[\]]+", key) if step))


def _leaves(tree: Any, path: TreePath) -> Iterator[tuple[TreePath, Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            yield from _leaves(value, (*path, str(i)))
    else:
        yield path, tree
