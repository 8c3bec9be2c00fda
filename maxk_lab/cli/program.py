"""The program `maxk-lab`: the application with what a process of its own needs around it."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
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
        sys.unraisablehook = _interrupt_again
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
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(one, "w" if one else "r", closefd=False) if stream is None else stream
        for one, stream in enumerate((sys.stdin, sys.stdout, sys.stderr))
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Let Ctrl-C come once more where nothing that is raised gets out, as while objects end."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        # A moment later, when that is over.
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(unraisable)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in a line, not with the source that raised it."""
    from maxk_lab.cli.console import warn

    warn((str(message).strip() or "a warning without words").splitlines()[0])
