"""Tracebacks without the places of this machine: who reads a record learns no folder of anybody."""

from __future__ import annotations

import os
import sys


def without_places(text: str) -> str:
    """Return the text with files named from the folder that modules are found in, and `~` for home.

    A file of the current folder is named from there.
    """
    folders = {os.path.abspath(entry) for entry in ("", *sys.path)} | {sys.prefix, sys.base_prefix}
    # The longest first: the packages that are installed lie below the interpreter.
    for folder in sorted(folders - {os.sep}, key=len, reverse=True):
        text = text.replace(f"{folder}{os.sep}", "")
    home = os.path.expanduser("~")
    return text if home in ("~", os.sep) else text.replace(home, "~")
