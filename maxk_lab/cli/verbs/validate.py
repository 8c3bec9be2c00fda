"""`maxk-lab validate`: every problem of sweep files, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import complain, emit_json, tell
from maxk_lab.errors import LabError, SpecError
from maxk_lab.installed import is_function_path, place_of
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec


def main(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Sweep files.")],
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Check sweep files: all problems at once, each with its file, line and column.

    \b
    [bold]maxk-lab validate experiments/*.yaml[/bold]
    """
    answers = [_validate(spec, overrides or []) for spec in specs]
    errors = [answer["error"] for answer in answers if not answer["valid"]]
    if json:
        emit_json(answers)
    elif errors:
        for error in errors:
            if not isinstance(error, SpecError):
                complain(error)
        if problems := [one for error in errors for one in getattr(error, "problems", [])]:
            complain(SpecError(problems))
    else:
        for answer in answers:
            tell(
                f"{answer['file']}: ok, sweep {answer['name']} with {answer['cells']} cells "
                f"({answer['skipped']} grid points skipped)"
            )
            for name, file in answer["functions"].items():
                tell(f"  {name} is in {file}")
    if errors:
        raise typer.Exit(2)


def _validate(path: Path, overrides: list[str]) -> dict[str, Any]:
    try:
        plan = make_plan(load_spec(path, overrides))
    except LabError as error:
        lines = str(error).splitlines()
        return {"file": str(path), "valid": False, "error": error, "problems": lines}
    return {
        "file": str(path),
        "valid": True,
        "name": plan.spec.name,
        "cells": len(plan.cells),
        "skipped": len(plan.skipped),
        "functions": {
            path: str(place_of(path.partition(":")[0]).origin)
            for path in (key.rpartition(" ")[2] for key in plan.spec.content)
            if is_function_path(path)
        },
    }
