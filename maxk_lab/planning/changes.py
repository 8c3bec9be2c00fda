"""The reasons why records of a sweep are not used any more: the settings and code that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import LONGEST, LabError, shortened
from maxk_lab.planning.cells import OUTSIDE_MEANING, Cell
from maxk_lab.planning.content import content_of, model_folder
from maxk_lab.planning.identity import IDENTITY_VERSION
from maxk_lab.planning.plan import Plan
from maxk_lab.policies.catalogue import PRETRAINED_FOLDER
from maxk_lab.sweep_file.studies import GRID_AXES

if TYPE_CHECKING:
    from maxk_lab.sweep_file.schema import SweepSpec

ELSE = "of an earlier spec or version"
KEEP = "to keep both, run this sweep under a name of its own: --set name=..."
# A record and a cell of the plan that agree in these stand for the same point of the sweep.
_POINT = ("study", *GRID_AXES, "seed", "stage")
_BESIDE = (*OUTSIDE_MEANING, *_POINT, "content", "identity_version")
_FOLDERS = f"policy.{PRETRAINED_FOLDER}"
# The most settings that a reason names.
_MOST = 3


def changes(stale: Iterable[Mapping[str, Any]], plan: Plan) -> dict[str, str]:
    """Return why each of these cells, of records that are not used, is none of the plan's.

    It names what the nearest planned cell of the same grid point, stage and seed has otherwise.
    """
    planned: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in plan.cells:
        planned.setdefault(tuple(getattr(cell, key) for key in _POINT), []).append(cell)

    def reason(old: Mapping[str, Any]) -> str:
        comparable = old.get("identity_version") == IDENTITY_VERSION
        near = planned.get(tuple(old.get(key) for key in _POINT), []) if comparable else []
        fewest = min((_differences(old, one) for one in near), key=len, default=[])
        more = [f"and {len(fewest) - _MOST} more"] if len(fewest) > _MOST else []
        return ", ".join([*fewest[:_MOST], *more]) or ELSE

    return {old["id"]: reason(old) for old in stale}


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
    return [
        _of_content(key, key in folders, was, now[key])
        for key, was in spec.content.items()
        if key in now and was != now[key]
    ]


def stale_lines(reasons: Mapping[str, str]) -> list[str]:
    """Return a line for each reason why records are not used, and how both are kept."""
    lines = []
    for reason, count in Counter(reasons.values()).items():
        records = "1 record is" if count == 1 else f"{count} records are"
        lines.append(f"stale: {reason} ({records} not used)")
    return [*lines, KEEP] if lines else []


def _differences(old: Mapping[str, Any], planned: Cell) -> list[str]:
    """Return what a record's cell and a planned one have otherwise: code, files, then settings."""
    new, unit = planned.as_dict(), planned.unit.as_dict()
    lines = []
    was, now = old.get("content", {}), new.get("content", {})
    for key in dict.fromkeys((*was, *now)):
        if was.get(key) != now.get(key):
            is_model = key == PRETRAINED_FOLDER
            name = unit["policy"].get(key) if is_model else key
            lines.append(_of_content(name, is_model, was.get(key, {}), now.get(key, {})))
    # Of a file the record of a cell has the hash alone; the unit has its path, too.
    before, after, named = (_flat(one, planned.study) for one in (old, new, unit))
    for path in dict.fromkeys((*before, *after)):
        sides = before.get(path, "unset"), after.get(path, "unset")
        if sides[0] == sides[1] or (sides[0] in ({}, []) and sides[1] == "unset"):
            continue
        block, _, key = path.rpartition(".")
        if key == "sha256":
            lines.append(f"{block.rpartition('.')[2]} {named.get(f'{block}.path', '')} changed")
        elif key.endswith("_version"):
            lines.append("measured by another version of maxk-lab")
        else:
            texts = (shortened("none" if one is None else str(one), LONGEST) for one in sides)
            lines.append(f"{path} {' → '.join(texts)}")
    return lines


def _of_content(name: str, is_model: bool, was: Mapping[str, str], now: Mapping[str, str]) -> str:
    what = f"weights of {name}" if is_model else f"code of {name}"
    if not was or not now:
        return f"{what} {'was not kept with it' if now else 'is not named any more'}"
    if was.get("version") != now.get("version") and was.get("package") == now.get("package"):
        return f"plugin {now['package']} {was['version']} -> {now['version']}"
    return f"{what} changed"


def _flat(cell: Mapping[str, Any], study: str) -> dict[str, Any]:
    """Return the settings of a cell, or of a unit, by their keys in a sweep file."""
    blocks = ("environment", "policy", study)
    leaves: dict[str, Any] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, Mapping) and value:
            for key, inside in value.items():
                walk(f"{path}.{key}", inside)
        elif path != _FOLDERS:  # its files are among the content
            leaves[path] = value

    for key, value in cell.items():
        if key not in _BESIDE:
            inside = isinstance(value, Mapping) and key in blocks
            walk(key if inside else f"{study}.{key}", value)
    return leaves
