"""`maxk-lab validate`: every problem of sweep files, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import complain, emit_json, tell
from maxk_lab.errors import LabError, SpecError


def validate(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Sweep files.")],
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Check sweep files: all problems at once, each with its file, line and column.

    \b
    [bold]maxk-lab validate experiments/*.yaml[/bold]
    """
    answers = [_validate(spec, overrides or []) for spec in specs]
    if json:
        emit_json(answers)
    if any(not answer["valid"] for answer in answers):
        if not json:
            _complain(answers)
        raise typer.Exit(2)
    if not json:
        for answer in answers:
            tell(
                f"{answer['file']}: ok, sweep {answer['name']} with {answer['cells']} cells "
                f"({answer['skipped']} grid points skipped)"
            )


def _validate(path: Path, overrides: list[str]) -> dict[str, Any]:
    from maxk_lab.sweeps.plan.plan import make_plan
    from maxk_lab.sweeps.spec.load import load_spec

    try:
        spec = load_spec(path, overrides)
        plan = make_plan(spec)
    except LabError as error:
        return {
            "file": str(path),
            "valid": False,
            "error": error,
            "problems": str(error).splitlines(),
        }
    cells = sum(len(unit.cells) for unit in plan.units)
    return {
        "file": str(path),
        "valid": True,
        "name": spec.name,
        "cells": cells,
        "skipped": len(plan.skipped),
    }


def _complain(answers: list[dict[str, Any]]) -> None:
    errors = [answer["error"] for answer in answers if not answer["valid"]]
    problems = [problem for error in errors for problem in getattr(error, "problems", [])]
    for error in errors:
        if not isinstance(error, SpecError):
            complain(error)
    if problems:
        complain(SpecError(problems))
