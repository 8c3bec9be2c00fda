"""`maxk-lab init`: a commented sweep file to begin with."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import typer

from maxk_lab.cli.console import print_line, say
from maxk_lab.errors import LabError
from maxk_lab.files import write_atomically


def main(
    template: Annotated[
        Literal["quick", "llm", "co"],
        typer.Argument(help="20 seconds; a language model; combinatorial optimisation."),
    ] = "quick",
) -> None:
    """Write a commented sweep file into the current folder.

    \b
    [bold]maxk-lab init[/bold]       quick.yaml
    [bold]maxk-lab init llm[/bold]   llm.yaml
    """
    path = Path(f"{template}.yaml")
    if os.path.lexists(path):
        raise LabError(f"{path} exists; rename it, or run init in another folder")
    write_atomically(path, (files("maxk_lab") / "sweeps" / path.name).read_bytes())
    print_line(f"Wrote {path}")
    say(f"Next: maxk-lab run {path} --jobs 2")
