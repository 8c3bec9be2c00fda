"""`maxk-lab check`: every formula against brute force, and its bias."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from maxk_lab.cli import options
from maxk_lab.cli.console import console, emit_json, say


def main(
    estimator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this estimator.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this baseline.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Check every formula against brute force, and for exact unbiasedness on a bandit.

    Exits with 1 when a check fails.

    \b
    [bold]maxk-lab check[/bold]
    [bold]maxk-lab check --estimator maxk --baseline subloo[/bold]
    """
    # It imports torch, which takes a second: `--help` does without.
    from maxk_lab.estimators.check.run import run_checks

    results = run_checks(estimator, baseline)
    failed = [result for result in results if not result.ok]
    if json:
        keys = ("name", "row", "detail", "error", "tolerance", "ok")
        emit_json([{key: getattr(result, key) for key in keys} for result in results])
    else:
        table = Table("", "row", "check", "detail", "error", "tolerance", box=None, pad_edge=False)
        for result in results:
            mark = Text("ok", "green") if result.ok else Text("FAIL", "bold red")
            numbers = f"{result.error:.1e}", f"{result.tolerance:.0e}"
            table.add_row(mark, result.row, result.name, result.detail, *numbers)
        console().print(table)
        say(f"{len(results) - len(failed)} of {len(results)} checks passed")
    if failed:
        raise typer.Exit(1)
