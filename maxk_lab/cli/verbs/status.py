"""`maxk-lab status`: what is done in a run, and which process measures what now."""

from __future__ import annotations

from dataclasses import asdict

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, tell
from maxk_lab.execution.bundle import find_run
from maxk_lab.execution.progress import Status, status_of
from maxk_lab.execution.records import RunDirectory

# The lines of a list; --json has all of them.
MOST_LINES = 20


def main(
    run: options.Run, results: options.Results = options.RESULTS, json: options.Json = False
) -> None:
    """Show how far a run is: cells done, failed, running and waiting, and who works on it.

    It reads the files of the run from any machine that sees its folder, and changes nothing.

    \b
    [bold]maxk-lab status tsp_sweep[/bold]
    """
    directory = find_run(run, results).for_writing("status")
    status = status_of(directory)
    if json:
        emit_json({"name": directory.name, "folder": str(directory.root), **asdict(status)})
    else:
        _print(directory, status)


def _print(directory: RunDirectory, status: Status) -> None:
    counts = ", ".join(f"{count} {state}" for state, count in status.cells.items())
    tell(f"{directory.name}: {sum(status.cells.values())} cells: {counts}")
    _print_lines([f"at work: {driver}" for driver in status.drivers])
    _print_lines(
        [
            f"running: {unit.label}, {unit.cells} cells left ({unit.driver})"
            for unit in status.running
        ]
    )


def _print_lines(lines: list[str]) -> None:
    for line in lines[:MOST_LINES]:
        tell(line)
    if len(lines) > MOST_LINES:
        tell(f"and {len(lines) - MOST_LINES} more; --json has all")
