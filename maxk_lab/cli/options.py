"""The arguments and options that several verbs share."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="The sweep file, or a bundle.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Name or folder of the run.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the sweep. Repeatable."),
]
ShiftSeeds = Annotated[
    int, typer.Option("--shift-seeds", min=0, metavar="N", help="Add N to every seed.")
]
Jobs = Annotated[int, typer.Option(min=1, metavar="N", help="Worker processes, one thread each.")]
Where = Annotated[
    str | None, typer.Option(metavar="AXIS=VALUE,...", help="Only these rows, as in 'k=8,n=16'.")
]
Execution = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A YAML mapping that is merged over execution of the sweep."),
]
RESULTS = Path("results")
# The verbs that read or write runs, and the verbs that print JSON.
WITH_RESULTS = ("run", "plan", "recommend", "report", "compare", "show", "bundle", "track")
WITH_JSON = ("run", "plan", "recommend", "show", "list", "check", "audit")


class Shared(NamedTuple):
    """The options that stand before or after the verb."""

    results: Path
    json: bool


def shared(context: typer.Context) -> Shared:
    """Return the options that stand before or after the verb."""
    options: Shared = context.obj
    return options


# The options that change which cells are measured and how, in this order.
_OF_A_RUN = ("overrides", "shift_seeds", "execution", "jobs", "only")


def run_command(context: typer.Context, spec: Path) -> str:
    """Return the command line that runs a sweep with the current options."""
    words = ["maxk-lab", "run", str(spec)]
    options = {option.name: option for option in context.command.params}
    for name in _OF_A_RUN:
        value = context.params.get(name)
        if not value or value == options[name].default:
            continue
        for entry in value if isinstance(value, list | tuple) else (value,):
            words += [options[name].opts[0], *([] if entry is True else [str(entry)])]
    return shlex.join([*words, *_where(shared(context).results)])


def command(verb: str, what: object, results: Path) -> str:
    """Return the command line of a verb with the same results folder."""
    return shlex.join(["maxk-lab", verb, str(what), *_where(results)])


def _where(results: Path) -> list[str]:
    return [] if results == RESULTS else ["--results", str(results)]
