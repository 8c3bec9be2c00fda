"""Differences between two runs in words: sweep, seeds, versions and code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import shortened

if TYPE_CHECKING:
    from maxk_lab.reports.report import Origin
    from maxk_lab.sweep_file.model import Sweep

# The keys of a sweep file that change no number; and claims, which are compared separately.
BESIDE = {"name", "description", "execution", "tracking", "claims"}
_HASH = re.compile(r"\b[0-9a-f]{40,64}\b")
_MOST_LETTERS = 60


def changes(sweeps: Sequence[Sweep], origins: Sequence[Origin]) -> tuple[str, ...]:
    """Return the differences of two runs, one per line: sweep, commits and versions."""
    sides = [
        sweep.model_dump(mode="json", exclude=BESIDE)
        | {"git commit": origin.commits, "project commit": origin.projects, **origin.versions}
        for sweep, origin in zip(sweeps, origins, strict=True)
    ]
    return tuple(differences(sides[0], sides[1]))


def differences(a: Any, b: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each difference of two trees, as in `training.steps 300 -> 400`."""
    if isinstance(a, Mapping) and isinstance(b, Mapping) and "sha256" not in a:
        for key in dict.fromkeys((*a, *b)):
            yield from differences(a.get(key), b.get(key), f"{path}.{key}" if path else str(key))
    elif _are_blocks(a) and _are_blocks(b) and len(a) == len(b):
        for number, pair in enumerate(zip(a, b, strict=True)):
            yield from differences(*pair, path if len(a) == 1 else f"{path}[{number}]")
    elif a != b:
        yield f"{path} {_spelled(a)} -> {_spelled(b)}"


def _are_blocks(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _spelled(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if isinstance(value, list | tuple):
        text = ", ".join(map(_spelled, value))
    return shortened(_HASH.sub(lambda match: match[0][:10], text), _MOST_LETTERS)
