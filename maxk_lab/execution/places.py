"""Texts for records without the folders of whoever measured them."""

from __future__ import annotations

import os
import re
import sys

# Folders that every machine has: their names are not private.
_EVERYWHERE = ("bin", "boot", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sys", "usr")
# A file by its absolute path of three parts or more; not the end of a URL or of another path.
_PATH = re.compile(
    rf"(?<![\w.~/:@-])/(?!(?:{'|'.join(_EVERYWHERE)})/)(?:[^\s/\"'`:;,()<>|]+/){{2,}}"
)


def without_places(text: str) -> str:
    """Return a text, such as a traceback, with short names of files.

    A module is named from its folder on the path, a file of the user's home from `~`, any other
    file by its base name.
    """
    folders = {os.path.abspath(entry) for entry in ("", *sys.path)} | {sys.prefix, sys.base_prefix}
    # The longest first: installed packages lie below the interpreter.
    for folder in sorted(folders - {os.sep}, key=len, reverse=True):
        text = text.replace(f"{folder}{os.sep}", "")
    home = os.path.expanduser("~")
    text = text if home in ("~", os.sep) else text.replace(home, "~")
    return _PATH.sub("", text)
