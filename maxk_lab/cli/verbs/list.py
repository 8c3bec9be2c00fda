"""`maxk-lab list`: everything that a sweep can name, and the runs on disk."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.catalogue import Catalogue, Parameter
from maxk_lab.cli import configuration, options
from maxk_lab.cli.console import console, emit_json, say
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.estimators.catalogue import MethodRow


class What(StrEnum):
    """Everything that can be listed."""

    estimators = "estimators"
    baselines = "baselines"
    environments = "environments"
    policies = "policies"
    tasks = "tasks"
    rewards = "rewards"
    gaussian_rewards = "gaussian_rewards"
    backends = "backends"
    profiles = "profiles"
    runs = "runs"


def list_(
    what: Annotated[What, typer.Argument(help="What to list.")],
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """List what can be named in a sweep, with formulas and conditions, your profiles, or the runs \
on disk.

    \b
    [bold]maxk-lab list baselines[/bold]
    [bold]maxk-lab list runs[/bold]
    """
    if what is What.runs:
        from maxk_lab.cli.runs import overview
        from maxk_lab.sweeps.run.records import find_runs

        rows = [overview(run) for run in find_runs(results)]
    elif what is What.profiles:
        rows = configuration.profiles()
    elif what is What.backends:
        rows = _backends()
    elif what is What.environments:
        rows = _environments()
    elif what is What.policies:
        rows = _policies()
    elif what in (What.tasks, What.rewards, What.gaussian_rewards):
        rows = _plain(what)
    else:
        rows = _estimators(what)
    if json:
        emit_json(rows)
    elif rows:
        _print(rows)
    elif what is What.profiles:
        say(configuration.no_profiles())
    else:
        say(f"no runs under {results}; start one with: maxk-lab run experiments/tsp_sweep.yaml")


def _estimators(what: What) -> list[dict[str, Any]]:
    from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS

    rows: list[MethodRow] = [*(ESTIMATORS if what is What.estimators else BASELINES)]
    return [
        {
            "name": row.name,
            "meaning": row.meaning,
            "formula": row.formula,
            "objective": row.objective,
            "unbiased": row.unbiased,
            "condition": row.condition,
            "shift invariant": row.shift_invariant,
            "constraint": row.constraint,
            "binary rewards": row.binary_rewards or None,
            **_of_a_baseline(row),
            "parameter": _parameter(row.parameter) if row.parameter else None,
            "computed by": row.implementation,
            "citation": row.citation,
        }
        for row in rows
    ]


def _of_a_baseline(row: MethodRow) -> dict[str, Any]:
    """Return the needs of a baseline besides the rewards: which weight of each trajectory."""
    from maxk_lab.estimators.catalogue import BaselineRow

    if not isinstance(row, BaselineRow):
        return {}
    kind = (
        row.parameter.name
        if row.trajectory_weight is None and row.needs() is not None and row.parameter
        else None
    )
    return {
        "needs g": f"as {kind} says" if kind else row.needs(),
        "token level": "one weight per token: training studies only" if row.token_level else None,
        "any objective": row.any_objective or None,
        "importance ratios": row.off_policy or None,
    }


def _plain(what: What) -> list[dict[str, Any]]:
    """Return every field of the rows of tasks or reward functions."""
    from dataclasses import fields

    from maxk_lab.environments.catalogue import GAUSSIAN_REWARDS, REWARDS, TASKS

    catalogues: dict[What, Catalogue[Any]] = {
        What.tasks: TASKS,
        What.rewards: REWARDS,
        What.gaussian_rewards: GAUSSIAN_REWARDS,
    }
    return [
        {
            {"implementation": "computed by"}.get(
                field.name, field.name.replace("_", " ")
            ): getattr(row, field.name)
            for field in fields(row)
        }
        for row in catalogues[what]
    ]


def _environments() -> list[dict[str, Any]]:
    from maxk_lab.environments.catalogue import ENVIRONMENTS

    return [
        {
            "name": row.name,
            "meaning": row.meaning,
            "reward": row.reward,
            "parameters": [_parameter(parameter) for parameter in row.parameters],
            "policy": [_parameter(parameter) for parameter in row.policy_parameters],
            "exact": row.exact_when,
            "computed by": row.implementation,
            "citation": row.citation,
        }
        for row in ENVIRONMENTS
    ]


def _policies() -> list[dict[str, Any]]:
    from maxk_lab.environments.catalogue import ENVIRONMENTS
    from maxk_lab.policies.catalogue import POLICIES

    return [
        {
            "name": row.name,
            "meaning": row.meaning,
            "parameters": [_parameter(parameter) for parameter in row.parameters],
            "acts in": tuple(
                place.name for place in ENVIRONMENTS if row.name in place.accepted_policies
            ),
            "computed by": row.implementation,
            "citation": row.citation,
        }
        for row in POLICIES
    ]


def _backends() -> list[dict[str, Any]]:
    from maxk_lab.sweeps.backends import BACKENDS

    return [
        {
            "name": row.name,
            "meaning": row.meaning,
            "parameters": [_parameter(parameter) for parameter in row.parameters],
            "needs": f"pip install 'maxk-lab[{row.extra}]'" if row.extra else None,
            "computed by": row.implementation,
        }
        for row in BACKENDS
    ]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.type_name,
        "default": list(parameter.default)
        if isinstance(parameter.default, tuple)
        else parameter.default,
        "low": parameter.low,
        "high": parameter.high,
        "choices": list(parameter.choices),
        "meaning": parameter.meaning,
    }


def _print(rows: list[dict[str, Any]]) -> None:
    """Print a block per row: the name, then every field that says something."""
    from rich.text import Text

    out = console()
    for number, row in enumerate(rows):
        if number:
            out.print()
        out.print(Text(str(row["name"]), "bold"), Text(visible_line(str(row.get("meaning", "")))))
        width = max(len(key) for key in row) + 2
        for key, value in row.items():
            if key not in ("name", "meaning") and value not in ("", None, [], ()):
                lines = _lines(value)
                out.print(Text(f"  {key:<{width}}", "dim") + Text(lines[0]))
                for line in lines[1:]:
                    out.print(Text(" " * (width + 2) + line))


def _lines(value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, tuple):
        return [", ".join(map(str, value))]
    if isinstance(value, dict):
        return [f"{key}: {one}" for key, one in value.items()]
    parameters = value if isinstance(value, list) else [value]
    if all(isinstance(parameter, dict) for parameter in parameters):
        return [_describe(parameter) for parameter in parameters]
    return [str(value)]


def _describe(parameter: dict[str, Any]) -> str:
    """Return a parameter in a line, e.g. `num_loc: int = 20, at least 3; number of cities`."""
    text = f"{parameter['name']}: {parameter['type']}"
    text += f" = {parameter['default']}" if parameter["default"] != "" else ""
    if parameter["choices"]:
        text += f", one of {', '.join(map(str, parameter['choices']))}"
    each = "each " if isinstance(parameter["default"], list) else ""
    if parameter["low"] is not None:
        text += f", {each}at least {parameter['low']}"
    if parameter["high"] is not None:
        text += f", {each}at most {parameter['high']}"
    return f"{text}; {parameter['meaning']}" if parameter["meaning"] else text
