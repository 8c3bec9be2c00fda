"""The program `maxk-lab`: the application with what a process of its own needs around it."""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import Any

INTERRUPTED = 130


def main() -> None:
    """Entry point of the console script `maxk-lab`.

    What lies in the current folder is data to every verb: only the workers of a run open it, for a
    function that a sweep names by a dotted path.
    """
    try:
        _open_closed_streams()
        from maxk_lab.installed import close_current_folder

        close_current_folder()
        from maxk_lab.cli.application import app

        warnings.showwarning = _show_warning
        app(prog_name="maxk-lab")
    except KeyboardInterrupt:  # before any verb
        print("Interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            try:
                stream.flush()
            except OSError:  # as was said before: Python would say it again at its end
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _open_closed_streams() -> None:
    """Let streams that are closed lead nowhere: the next file that is opened has their number.

    Letters that the terminal's encoding lacks are spelled out.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in a line, not with the source that raised it."""
    from maxk_lab.cli.console import warn

    warn((str(message).strip() or "a warning without words").splitlines()[0])
