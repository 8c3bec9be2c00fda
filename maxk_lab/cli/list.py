"""`maxk-lab list`: the catalogues of estimators, baselines and environments, and the runs on disk."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from maxk_lab.catalogue import Parameter
from maxk_lab.cli import options
from maxk_lab.cli.console import console, emit_json, say


class What(StrEnum):
    """What can be listed."""

    estimators = "estimators"
    baselines = "baselines"
    environments = "environments"
    runs = "runs"


def list_(
    what: Annotated[What, typer.Argument(help="What to list.")],
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """List what can be named in a sweep, with formulas and conditions, or the runs on disk.

    \b
    [bold]maxk-lab list baselines[/bold]
    [bold]maxk-lab list runs[/bold]
    """
    if what is What.runs:
        rows = _runs(results)
    elif what is What.environments:
        rows = _environments()
    else:
        rows = _estimators(what)
    if json:
        emit_json(rows)
    elif rows:
        _print(rows)
    else:
        say(f"no runs under {results}; start one with: maxk-lab run experiments/tsp_sweep.yaml")


def _estimators(what: What) -> list[dict[str, Any]]:
    from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS

    rows = ESTIMATORS if what is What.estimators else BASELINES
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
            "parameter": _parameter(row.parameter) if row.parameter else None,
            "computed by": row.implementation,
            "citation": row.citation,
        }
        for row in rows
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
            "exact": f"{row.size_parameter} ≤ {row.enumerable_up_to}",
            "computed by": row.implementation,
            "citation": row.citation,
        }
        for row in ENVIRONMENTS
    ]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.kind.__name__,
        "default": parameter.default,
        "low": parameter.low,
        "high": parameter.high,
        "choices": list(parameter.choices),
        "meaning": parameter.meaning,
    }


def _runs(results: Path) -> list[dict[str, Any]]:
    from maxk_lab.cli.runs import overview
    from maxk_lab.sweeps.records import find_runs

    return [overview(run) for run in find_runs(results)]


def _print(rows: list[dict[str, Any]]) -> None:
    """One block per row: the name, then every field that says something."""
    from rich.text import Text

    out = console()
    for number, row in enumerate(rows):
        if number:
            out.print()
        out.print(Text(str(row["name"]), "bold"), Text(str(row.get("meaning", ""))))
        width = max(len(key) for key in row) + 2
        for key, value in row.items():
            if key not in ("name", "meaning") and value not in ("", None, []):
                lines = _lines(value)
                out.print(Text(f"  {key:<{width}}", "dim") + Text(lines[0]))
                for line in lines[1:]:
                    out.print(Text(" " * (width + 2) + line))


def _lines(value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    parameters = value if isinstance(value, list) else [value]
    if all(isinstance(parameter, dict) for parameter in parameters):
        return [_describe(parameter) for parameter in parameters]
    return [str(value)]


def _describe(parameter: dict[str, Any]) -> str:
    """One parameter in a line, e.g. `num_loc: int = 20, at least 3; number of cities`."""
    text = f"{parameter['name']}: {parameter['type']} = {parameter['default']}"
    if parameter["choices"]:
        text += f", one of {', '.join(map(str, parameter['choices']))}"
    if parameter["low"] is not None:
        text += f", at least {parameter['low']}"
    if parameter["high"] is not None:
        text += f", at most {parameter['high']}"
    return f"{text}; {parameter['meaning']}" if parameter["meaning"] else text
