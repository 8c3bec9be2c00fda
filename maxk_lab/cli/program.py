"""The program `maxk-lab`: the application, with the set-up of its process."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

INTERRUPTED = 130


def main() -> None:
    """Run the console script `maxk-lab`.

    Files in the current folder are data to every verb. Only the workers of a run import from there,
    for a function that a sweep names by a dotted path.
    """
    try:
        # A stream that the caller has closed accepts nothing.
        sys.stdout, sys.stderr = (
            stream or open(os.devnull, "w")  # noqa: SIM115
            for stream in (sys.stdout, sys.stderr)
        )
        from maxk_lab.installed import close_current_folder

        close_current_folder()
        from maxk_lab.cli.application import app

        if "_MAXK_LAB_COMPLETE" in os.environ:  # a shell completes a command line
            from typer.completion import completion_init  # type: ignore[attr-defined]

            completion_init()
        for stream in (sys.stdout, sys.stderr):  # letters that its encoding lacks are spelled out
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        warnings.showwarning = _show_warning
        app(prog_name="maxk-lab")
    except KeyboardInterrupt:  # before any verb
        print("Interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in a line, without its source line."""
    from maxk_lab.cli.console import warn

    warn((str(message).strip() or "a warning without words").splitlines()[0])
