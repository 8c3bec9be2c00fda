"""`maxk-lab list`: the names that a sweep can use, with formulas and conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from maxk_lab.catalogue import Catalogue, did_you_mean
from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_fields, print_line
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.exact_rows import GAUSSIAN_REWARDS
from maxk_lab.environments.language.tasks import REWARDS, TASKS
from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.estimators.rows import BaselineRow
from maxk_lab.installed import package_of
from maxk_lab.policies.catalogue import POLICIES
from maxk_lab.settings import Setting, Settings
from maxk_lab.visible import visible_line

_CATALOGUES: dict[str, Catalogue[Any]] = {
    "estimators": ESTIMATORS,
    "baselines": BASELINES,
    "environments": ENVIRONMENTS,
    "policies": POLICIES,
    "tasks": TASKS,
    "rewards": REWARDS,
    "gaussian_rewards": GAUSSIAN_REWARDS,
}
_LISTS = (*_CATALOGUES, "schema")
# The listed fields of a catalogue; a catalogue without an entry lists all fields.
_METHOD = "name meaning formula estimand objective unbiased condition shift_invariant constraint"
_FIELDS = {
    "estimators": _METHOD,
    "baselines": _METHOD,
    "environments": "name meaning reward settings policy_settings exact_when",
    "policies": "name meaning settings",
}
_RENAMED = {"settings": "parameters", "policy_settings": "policy", "exact_when": "exact"}


def main(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(metavar="WHAT", help=", ".join(_LISTS), autocompletion=lambda: [*_LISTS]),
    ] = "",
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="List only names that match, e.g. 'tsp_*'."),
    ] = None,
) -> None:
    """List the names that a sweep can use, with formulas and conditions; or its JSON schema.

    \b
    [bold]maxk-lab list baselines[/bold]
    [bold]maxk-lab list environments 'tsp*'[/bold]
    [bold]maxk-lab list schema > schema.json[/bold]   for editors
    """
    json = options.shared(context).json
    if what not in _LISTS:
        unknown = f"no list {what!r}{did_you_mean(what, _LISTS)}; " if what else ""
        raise LabError(f"{unknown}name a list: {', '.join(_LISTS)}")
    if what == "schema":
        from maxk_lab.sweep_file.model import json_schema

        emit_json(json_schema())
        return
    spell = _as_json if json else _as_line
    rows = [_as_dict(what, row, spell) for row in _CATALOGUES[what]]
    rows = [row for row in rows if pattern is None or fnmatchcase(str(row["name"]), pattern)]
    if json:
        emit_json(rows)
    elif rows or pattern is None:
        _print(rows)
    else:
        _CATALOGUES[what].get(pattern)  # raises an error with the nearest name


def _as_dict(what: str, row: Any, spell: Callable[[Setting], Any]) -> dict[str, Any]:
    """Return the listed fields of a catalogue row; `spell` formats its parameters."""

    def spell_value(value: Any) -> Any:
        if isinstance(value, Setting):
            return spell(value)
        if isinstance(value, type) and issubclass(value, Settings):
            return [spell(setting) for setting in value.each()]
        return value

    listed = _FIELDS[what].split() if what in _FIELDS else [field.name for field in fields(row)]
    entry = {
        _RENAMED.get(name, name.replace("_", " ")): spell_value(getattr(row, name))
        for name in listed
        if name not in ("implementation", "citation")
    }
    if what in ("estimators", "baselines"):
        entry |= _needs(row) | {"parameter": spell_value(row.parameter)}
        entry["binary rewards"] = row.binary_rewards or None
    if what == "policies":
        entry["acts in"] = tuple(
            place.name for place in ENVIRONMENTS if row.name in place.accepted_policies
        )
    point = _CATALOGUES[what].origin(row.name)
    return entry | {
        "computed by": row.implementation,
        "citation": getattr(row, "citation", None),
        "package": None if point is None else package_of(point),
    }


def _needs(row: Any) -> dict[str, Any]:
    """Return the inputs that a baseline needs besides the rewards."""
    if not isinstance(row, BaselineRow):
        return {}
    needs = row.needs()
    if row.trajectory_weight is None and needs is not None and row.parameter:
        needs = f"as {row.parameter.name} says"
    return {
        "needs g": needs,
        "any objective": row.any_objective or None,
        "importance ratios": row.off_policy or None,
    }


def _as_json(parameter: Setting) -> dict[str, Any]:
    entry = {name: getattr(parameter, name) for name in ("name", "low", "high", "meaning")}
    default, choices = parameter.default, list(parameter.choices)
    return {**entry, "type": parameter.type_name, "default": default, "choices": choices}


def _as_line(parameter: Setting) -> str:
    """Return a parameter as text, e.g. `num_loc: int = 20, at least 3; number of cities`."""
    default, bounds = parameter.default, {"least": parameter.low, "most": parameter.high}
    each = "each " if isinstance(default, list) else ""
    text = f"{parameter.name}: {parameter.type_name}{f' = {default}' if default != '' else ''}"
    text += f", one of {', '.join(parameter.choices)}" if parameter.choices else ""
    text += "".join(
        f", {each}at {word} {bound}" for word, bound in bounds.items() if bound is not None
    )
    return f"{text}; {parameter.meaning}" if parameter.meaning else text


def _print(rows: list[dict[str, Any]]) -> None:
    """Print a block per row: the name, then every field with a value."""
    for number, row in enumerate(rows):
        if number:
            print_line("")
        print_line(f"{row['name']} {visible_line(row.get('meaning', ''))}".rstrip(), bold=True)
        print_fields({key: row[key] for key in row if key not in ("name", "meaning")}, indent=1)
