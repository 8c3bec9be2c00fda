"""Names of files in what is kept of a run: who reads it learns no folder of anybody.

A file of the current folder, where the user's project is, is named from there; any other by its own
name.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import PurePath

# Where every machine has the same: nobody is told by these.
_EVERYWHERE = ("bin", "boot", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sys", "usr")
# A file by its whole path, of three parts or more; not the end of a URL or of another path.
_PATH = re.compile(
    rf"(?<![\w.~/:@-])/(?!(?:{'|'.join(_EVERYWHERE)})/)(?:[^\s/\"'`:;,()<>|]+/){{2,}}"
)


def without_places(text: str) -> str:
    """Return a text, such as a traceback, in which every file is named as above.

    Modules are named from the folder that they are found in, and files of the user's home from `~`.
    """
    folders = {os.path.abspath(entry) for entry in ("", *sys.path)} | {sys.prefix, sys.base_prefix}
    # The longest first: the packages that are installed lie below the interpreter.
    for folder in sorted(folders - {os.sep}, key=len, reverse=True):
        text = text.replace(f"{folder}{os.sep}", "")
    home = os.path.expanduser("~")
    text = text if home in ("~", os.sep) else text.replace(home, "~")
    return _PATH.sub("", text)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return how each path is named in what is kept: no two alike, and none from the root.

    Of files elsewhere that share their own name, so many of their folders are told as tell them
    apart.
    """
    given = list(dict.fromkeys(paths))
    found = {path: _from_here(path) for path in given if path}
    for path in [one for one, name in found.items() if os.path.isabs(name)]:
        parts, others = PurePath(path).parts[1:], [one for one in given if one != path]
        for length in range(1, len(parts) + 1):
            tail = parts[-length:]
            if all(PurePath(one).parts[-length:] != tail for one in others):
                break
        found[path] = "/".join(tail) if parts else path
    return found


def _from_here(path: str) -> str:
    """A path from the current folder where it lies below, else as it is."""
    try:
        here = os.getcwd()
    except OSError:
        return path
    if not os.path.isabs(path):
        return path
    inside = os.path.relpath(path, here)
    return path if inside.split(os.sep)[0] == os.pardir else inside
