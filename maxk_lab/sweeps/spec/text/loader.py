"""YAML as a sweep file may be written: nothing in it is expanded before its size is known."""

from __future__ import annotations

import re
from typing import Any

import yaml

# A sweep file, and a value of `--set`, has at most so many bytes, values and levels of nesting,
# with every alias written out.
MOST_BYTES = 2**20
MOST_VALUES = 40_000
MOST_LEVELS = 40
# The longest text that is read as a whole number, which no setting comes near.
_LONGEST_INTEGER = 40
_INTEGER = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_TEXT = "tag:yaml.org,2002:str"
_NUMBER = re.compile(
    r"[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?(?:[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)"
    r"|[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


class BoundError(yaml.MarkedYAMLError):
    """YAML that is larger, deeper or stranger than any sweep file."""

    def __init__(self, message: str, mark: yaml.Mark) -> None:
        super().__init__(problem=message, problem_mark=mark)


class Loader(yaml.SafeLoader):
    """YAML 1.1 as OmegaConf reads it: 1e-3 is a number, and a date is only text.

    Raises `BoundError` where a text exceeds the bounds above, before anything is built.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = self._levels = 0
        # The values in each finished node, aliases written out.
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark: yaml.Mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._sizes:
                raise BoundError("an alias may not contain itself", mark)
            self._count(self._sizes[id(node)], mark)
            return node
        before = self._values
        self._count(1, mark)
        self._levels += 1
        if self._levels > MOST_LEVELS:
            raise BoundError(f"is nested in more than {MOST_LEVELS} levels", mark)
        node = super().compose_node(parent, index)
        self._levels -= 1
        self._sizes[id(node)] = self._values - before
        return node

    def _count(self, values: int, mark: yaml.Mark) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            raise BoundError(
                f"has more than {MOST_VALUES:,} values, aliases written out; split the sweep", mark
            )

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag == _INTEGER and len(node.value) > _LONGEST_INTEGER:
            raise BoundError(
                f"a whole number of {len(node.value):,} characters is no setting", node.start_mark
            )
        try:
            built = super().construct_object(node, deep=deep)
        except (ValueError, KeyError, AttributeError):
            tag = node.tag.rpartition(":")[2]
            raise BoundError(f"cannot be read as {tag}", node.start_mark) from None
        if isinstance(built, str) and not _is_text(built):
            raise BoundError("a text may not hold half a character (a surrogate)", node.start_mark)
        return built


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", _FLOAT)
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(_FLOAT, re.compile(f"^(?:{_NUMBER.pattern})$"), list("-+0123456789."))


def check_bounds(text: str) -> None:
    """Raise `yaml.MarkedYAMLError` where a text is no YAML or exceeds the bounds."""
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        if node is not None:
            _construct_scalars(loader, node, set())
    finally:
        loader.dispose()


def _construct_scalars(loader: Loader, node: yaml.Node, seen: set[int]) -> None:
    """Read every scalar once, for what is wrong with it."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        loader.construct_object(node)
        return
    for entry in node.value:
        for part in entry if isinstance(entry, tuple) else (entry,):
            _construct_scalars(loader, part, seen)
