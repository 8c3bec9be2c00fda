"""The changes between two runs in words: settings, code, versions, what cells mean."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxk_lab.errors import shortened
from maxk_lab.execution.record import Record
from maxk_lab.planning.cells import OUTSIDE_MEANING
from maxk_lab.sweep_file.load import spec_to_yaml
from maxk_lab.sweep_file.model import Sweep

# The keys of a sweep file that change no number; claims are told for themselves.
_BESIDE = ("name", "description", "execution", "tracking", "figures", "claims")
# Of the provenance, what is another in every record.
_ALWAYS_OTHER = ("started",)
_ABSENT = object()
# The hash of what a sweep names, by its place in a spec or in a cell.
_CONTENT = re.compile(r"content\.(.+)\.sha256")
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_OF_A_HASH = 12
_LETTERS = 60
# So many lines on what cells mean.
_MEANINGS = 20


def settings(spec: Sweep) -> dict[str, Any]:
    """Return all of a sweep that may change a number."""
    import yaml

    tree = yaml.safe_load(spec_to_yaml(spec))
    return {key: value for key, value in tree.items() if key not in _BESIDE}


def origins(records: Mapping[str, Record]) -> dict[str, Any]:
    """Every value that the provenance of some record has, by its keys; several are a list."""
    found: dict[str, dict[str, Any]] = {}
    for record in records.values():
        for key, value in _flat(record.provenance):
            if key not in _ALWAYS_OTHER and value is not None:
                found.setdefault(key, {})[json.dumps(value, default=str)] = value
    return {
        key: next(iter(values.values())) if len(values) == 1 else sorted(values)
        for key, values in found.items()
    }


def meanings(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> tuple[str, ...]:
    """The lines on what cells of B mean otherwise than those of A that they stand for."""
    told = [
        {key: value for key, value in cell.items() if key not in OUTSIDE_MEANING}
        for pair in pairs
        for cell in pair
    ]
    counts = Counter(
        line for a, b in zip(told[::2], told[1::2], strict=True) for line in differences(a, b)
    ).most_common()
    lines = [f"{line} ({count} of {len(pairs)} cells)" for line, count in counts[:_MEANINGS]]
    more = len(counts) - len(lines)
    return (*lines, *([f"and {more} more"] if more else []))


def differences(a: Any, b: Any, path: str = "") -> Iterator[str]:
    """A line for each place where two trees differ, e.g. `training.steps 300 -> 400`."""
    if a == b:
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys((*a, *b)):
            below = f"{path}.{key}" if path else str(key)
            yield from differences(a.get(key, _ABSENT), b.get(key, _ABSENT), below)
    elif a is _ABSENT or b is _ABSENT:
        yield (
            f"{path}: "
            + (f"{_spelled(b)} in B" if a is _ABSENT else f"{_spelled(a)} in A")
            + (" alone")
        )
    elif _is_flat(a) and _is_flat(b):
        more = {
            "added": [_spelled(one) for one in b if one not in a],
            "removed": [_spelled(one) for one in a if one not in b],
        }
        parts = [f"{word} {', '.join(values)}" for word, values in more.items() if values]
        yield f"{path}: {'; '.join(parts) or 'in another order'}"
    else:
        named = _CONTENT.fullmatch(path)
        change = f"{_spelled(a)} -> {_spelled(b)}"
        yield (
            f"code or files of {named[1]} changed (sha256 {change})"
            if named
            else (f"{path} {change}")
        )


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _is_flat(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(one, Mapping | list) for one in value)


def _spelled(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text[:_OF_A_HASH] if _HASH.fullmatch(text) else shortened(text, _LETTERS)
