"""The changes between two runs in words: settings, code, versions, what cells mean."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from maxk_lab.errors import shortened
from maxk_lab.sweeps.plan.cells import OUTSIDE_MEANING
from maxk_lab.sweeps.spec.load import spec_to_yaml
from maxk_lab.sweeps.spec.schema import SweepSpec

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


def settings_changed(a: SweepSpec, b: SweepSpec) -> tuple[str, ...]:
    """The settings of B's sweep that are others than A's, e.g. `training.steps 300 -> 400`."""
    return tuple(_differences(_tree(a), _tree(b)))


def claims_redefined(a: SweepSpec, b: SweepSpec) -> dict[str, tuple[str, ...]]:
    """The lines on what claims of the same name say otherwise in B, by that name."""
    mine, theirs = (
        {claim.name: claim.model_dump(mode="json") for claim in spec.claims} for spec in (a, b)
    )
    both = {name: tuple(_differences(mine[name], theirs[name])) for name in mine if name in theirs}
    return {name: lines for name, lines in both.items() if lines}


def origins_changed(
    a: Iterable[Mapping[str, Any]], b: Iterable[Mapping[str, Any]]
) -> tuple[str, ...]:
    """The lines on where the records of both are from: other commits, versions, hashes."""
    return tuple(_differences(_origins(a), _origins(b)))


def meanings_changed(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> tuple[str, ...]:
    """The lines on what cells of B mean otherwise than those of A that they stand for."""
    counts = Counter(
        line for one, other in pairs for line in _differences(_meaning(one), _meaning(other))
    ).most_common()
    lines = [f"{line} ({count} of {len(pairs)} cells)" for line, count in counts[:_MEANINGS]]
    more = len(counts) - len(lines)
    return (*lines, *([f"and {more} more"] if more else []))


def _tree(spec: SweepSpec) -> dict[str, Any]:
    import yaml

    tree = yaml.safe_load(spec_to_yaml(spec))
    return {key: value for key, value in tree.items() if key not in _BESIDE}


def _meaning(cell: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in cell.items() if key not in OUTSIDE_MEANING}


def _origins(provenances: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Every value that some record has, by its key; several are a list."""
    found: dict[str, dict[str, Any]] = {}
    for provenance in provenances:
        for key, value in _flat(provenance):
            if key not in _ALWAYS_OTHER and value is not None:
                found.setdefault(key, {})[json.dumps(value, default=str)] = value
    return {
        key: next(iter(values.values())) if len(values) == 1 else sorted(values)
        for key, values in found.items()
    }


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _differences(a: Any, b: Any, path: str = "") -> Iterator[str]:
    """A line for each place where two trees differ."""
    if a == b:
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys((*a, *b)):
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(a.get(key, _ABSENT), b.get(key, _ABSENT), below)
    elif a is _ABSENT:
        yield f"{path}: {_spelled(b)} in B alone"
    elif b is _ABSENT:
        yield f"{path}: {_spelled(a)} in A alone"
    elif isinstance(a, list) and isinstance(b, list) and _of_values(a) and _of_values(b):
        parts = [
            f"{word} {', '.join(map(_spelled, values))}"
            for word, values in (
                ("added", [one for one in b if one not in a]),
                ("removed", [one for one in a if one not in b]),
            )
            if values
        ]
        yield f"{path}: {'; '.join(parts) or 'in another order'}"
    elif (named := _CONTENT.fullmatch(path)) is not None:
        yield f"code or files of {named[1]} changed (sha256 {_spelled(a)} -> {_spelled(b)})"
    else:
        yield f"{path} {_spelled(a)} -> {_spelled(b)}"


def _of_values(values: Sequence[Any]) -> bool:
    return not any(isinstance(value, Mapping | list) for value in values)


def _spelled(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text[:_OF_A_HASH] if _HASH.fullmatch(text) else shortened(text, _LETTERS)
