"""The reasons why records of a sweep are not used any more: what has changed since, by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import PRETRAINED_FOLDER
from maxk_lab.sweeps.plan.cells import OUTSIDE_MEANING
from maxk_lab.sweeps.plan.content import content_of, model_folders
from maxk_lab.sweeps.plan.identity import IDENTITY_VERSION, canonical_json
from maxk_lab.sweeps.plan.plan import Plan

if TYPE_CHECKING:
    from maxk_lab.sweeps.spec.schema import SweepSpec

ELSE = "of an earlier spec or version"
_HASH = "sha256"
# Keys that do not tell which cell of the plan a record was of.
_ASIDE = (*OUTSIDE_MEANING, "content", "identity_version")
_Cell = Mapping[str, Any]


def changes(stale: Iterable[_Cell], plan: Plan) -> dict[str, str]:
    """Return why each of these cells, of records that are not used, is none of the plan's.

    One that the plan has but for the hashes of what it names is told by what has another hash.
    """
    found: dict[str, str] = {}
    open_: dict[str, list[_Cell]] = {}
    for cell in stale:
        found[cell["id"]] = ELSE
        same = cell.get("identity_version") == IDENTITY_VERSION
        if same and (_hashed(cell) or plan.spec.content):
            open_.setdefault(_place(cell), []).append(cell)
    for planned in plan.cells if open_ else ():
        told = planned.as_dict()
        for cell in open_.pop(_place(told), ()):
            sentences = dict.fromkeys(_told(cell, told, planned.unit.as_dict()))
            found[cell["id"]] = ", ".join(sentences) or ELSE
        if not open_:
            break
    return found


def changed_since(spec: SweepSpec) -> list[str]:
    """Return what is no more as a resolved spec has it, of what it names and is there to be seen.

    Nobody who reads a run without its code is told anything.
    """
    try:
        now = content_of(spec) if spec.content else {}
    except (LabError, OSError):
        return []
    folders = model_folders(spec)
    told = (
        _of_content(_what(key, key in folders), was, now[key])
        for key, was in spec.content.items()
        if key in now
    )
    return [sentence for sentence in told if sentence is not None]


def stale_lines(reasons: Mapping[str, str]) -> list[str]:
    """Return a line for each reason why records are not used: `stale: code of x changed`."""
    counts = Counter(reasons.values())
    lines = []
    for reason, count in counts.items():
        records = "1 record is" if count == 1 else f"{count} records are"
        lines.append(f"stale: {reason} ({records} not used)")
    return lines


def _hashed(cell: _Cell) -> bool:
    return "content" in cell or any(True for _ in _files(cell))


def _files(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """The hashes of files within a cell, by the keys that lead to them."""
    for key, inside in value.items() if isinstance(value, Mapping) else ():
        if isinstance(inside, Mapping) and set(inside) == {_HASH} and path != ("content",):
            yield (*path, key), inside[_HASH]
        else:
            yield from _files(inside, (*path, key))


def _place(cell: _Cell) -> str:
    """The cell without any hash, and without the folder that names a model."""
    told = {key: _blank(value) for key, value in cell.items() if key not in _ASIDE}
    return canonical_json(told)


def _blank(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {
        key: None if key == _HASH else _blank(inside)
        for key, inside in value.items()
        if key != PRETRAINED_FOLDER.name or not inside
    }


def _what(name: str, is_model: bool) -> str:
    return f"weights of {name}" if is_model else f"code of {name}"


def _of_content(what: str, was: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return what has changed between two entries of the content; None if nothing."""
    if was == now:
        return None
    if not was:
        return f"{what} was not kept with it"
    if was.get("version") != now.get("version") and was.get("package") == now.get("package"):
        return f"plugin {now['package']} {was['version']} -> {now['version']}"
    return f"{what} changed"


def _told(old: _Cell, new: _Cell, unit: Mapping[str, Any]) -> Iterator[str]:
    """Yield what has changed between a record's cell and that of the plan, of this unit."""
    before, after = old.get("content", {}), new.get("content", {})
    for key in dict.fromkeys((*before, *after)):
        is_model = key == PRETRAINED_FOLDER.name
        what = _what(unit["policy"].get(key) if is_model else key, is_model)
        sentence = _of_content(what, before.get(key, {}), after.get(key, {}))
        if sentence is not None:
            yield sentence
    files = dict(_files(new))
    for path, was_hash in _files(old):
        if files.get(path) != was_hash:
            named: Any = unit
            for key in path:
                named = named.get(key, {}) if isinstance(named, Mapping) else {}
            yield f"{path[-1]} {named.get('path', '')} changed"
