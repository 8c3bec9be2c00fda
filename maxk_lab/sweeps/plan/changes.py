"""The reasons why records of a sweep are not used any more: the settings and code that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import LONGEST, LabError, shortened
from maxk_lab.policies.catalogue import PRETRAINED_FOLDER
from maxk_lab.sweeps.plan.cells import OUTSIDE_MEANING, Cell
from maxk_lab.sweeps.plan.content import content_of, model_folder
from maxk_lab.sweeps.plan.identity import IDENTITY_VERSION
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.studies import GRID_AXES

if TYPE_CHECKING:
    from maxk_lab.sweeps.spec.schema import SweepSpec

ELSE = "of an earlier spec or version"
KEEP = "to keep both, run this sweep under a name of its own: --set name=..."
_HASH = "sha256"
# A record and a cell of the plan that agree in these stand for the same point of the sweep.
_POINT = ("study", *GRID_AXES, "seed", "stage")
_FOLDERS = f"policy.{PRETRAINED_FOLDER}"
# The most settings that a reason names.
_MOST = 3
_Told = Mapping[str, Any]


def changes(stale: Iterable[_Told], plan: Plan) -> dict[str, str]:
    """Return why each of these cells, of records that are not used, is none of the plan's.

    It names what the nearest planned cell of the same grid point, stage and seed has otherwise.
    """
    reasons: dict[str, str] = {}
    planned: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in plan.cells:
        point = (cell.study, *(getattr(cell, axis) for axis in GRID_AXES), cell.seed, cell.stage)
        planned.setdefault(point, []).append(cell)
    for old in stale:
        point = tuple(old.get(key) for key in _POINT)
        near = planned.get(point, []) if old.get("identity_version") == IDENTITY_VERSION else []
        told = [_differences(old, cell) for cell in near]
        fewest = min(told, key=len, default=[])
        more = [f"and {len(fewest) - _MOST} more"] if len(fewest) > _MOST else []
        reasons[old["id"]] = ", ".join([*fewest[:_MOST], *more]) or ELSE
    return reasons


def changed_since(spec: SweepSpec) -> list[str]:
    """Return what is no more as a resolved spec has it, of what it names and is there to be seen.

    Nobody who reads a run without its code is told anything.
    """
    try:
        now = content_of(spec) if spec.content else {}
    except (LabError, OSError):
        return []
    policies = [spec.policy, *({PRETRAINED_FOLDER: one} for one in spec.vary.get(_FOLDERS, ()))]
    folders = set(map(model_folder, policies))
    told = (
        _of_content(key, key in folders, was, now[key])
        for key, was in spec.content.items()
        if key in now and was != now[key]
    )
    return list(told)


def stale_lines(reasons: Mapping[str, str]) -> list[str]:
    """Return a line for each reason why records are not used, and how both are kept."""
    lines = []
    for reason, count in Counter(reasons.values()).items():
        records = "1 record is" if count == 1 else f"{count} records are"
        lines.append(f"stale: {reason} ({records} not used)")
    return [*lines, KEEP] if lines else []


def _differences(old: _Told, planned: Cell) -> list[str]:
    """Return what a record's cell and a planned one have otherwise: code, files, then settings."""
    new, unit = planned.as_dict(), planned.unit.as_dict()
    told = list(_of_code(old.get("content", {}), new.get("content", {}), unit))
    before, after = dict(_flat(old)), dict(_flat(new))
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key, "unset"), after.get(key, "unset")
        if was == now or (was in ({}, []) and now == "unset"):
            continue
        name = ".".join(key)
        if key[-1] == _HASH:
            told.append(f"{key[-2]} {_named_file(unit, key)} changed")
        elif name.endswith("_version"):
            told.append("measured by another version of maxk-lab")
        else:
            before_and_after = ("none" if one is None else str(one) for one in (was, now))
            told.append(f"{name} {' → '.join(shortened(one, LONGEST) for one in before_and_after)}")
    return told


def _of_code(before: _Told, after: _Told, unit: _Told) -> Iterator[str]:
    for key in dict.fromkeys((*before, *after)):
        if before.get(key) != after.get(key):
            is_model = key == PRETRAINED_FOLDER
            name = unit["policy"].get(key) if is_model else key
            yield _of_content(name, is_model, before.get(key, {}), after.get(key, {}))


def _of_content(name: str, is_model: bool, was: Mapping[str, str], now: Mapping[str, str]) -> str:
    what = f"weights of {name}" if is_model else f"code of {name}"
    if not was or not now:
        return f"{what} {'was not kept with it' if now else 'is not named any more'}"
    if was.get("version") != now.get("version") and was.get("package") == now.get("package"):
        return f"plugin {now['package']} {was['version']} -> {now['version']}"
    return f"{what} changed"


def _flat(cell: _Told) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the settings of a cell by their keys in a sweep file, as far as it has them so."""
    blocks = ("environment", "policy", cell["study"])
    for key, value in cell.items():
        if key not in (*OUTSIDE_MEANING, *_POINT, "content", "identity_version"):
            inside = isinstance(value, Mapping) and key in blocks
            yield from _leaves(value, (key,) if inside else (cell["study"], key))


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for key, inside in value.items():
            yield from _leaves(inside, (*path, str(key)))
    elif path != ("policy", PRETRAINED_FOLDER):  # its files are among the content
        yield path, value


def _named_file(unit: _Told, path: tuple[str, ...]) -> str:
    """The path of a file, of which the record of a cell has the hash alone."""
    steps = path[:-1] if path[0] in unit else path[1:-1]
    named: Any = unit
    for key in steps:
        named = named.get(key, {}) if isinstance(named, Mapping) else {}
    return str(named.get("path", "")) if isinstance(named, Mapping) else ""
