"""The search path of modules, and the entry points of installed packages.

Modules in the current folder or beside a sweep file are not installed. They are importable only
while a function of the user is loaded by its path, and installed packages take precedence. No
command runs code only because it was started in an untrusted folder.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from typing import Any

from maxk_lab.errors import MistakeError

OUR_GROUPS = "maxk_lab."
# Keeps the current folder off the path of child processes.
_SAFE_PATH, _OURS = "PYTHONSAFEPATH", "maxk-lab"
_PATH = "PYTHONPATH"
# The folder of the sweep file, for the processes that measure its cells.
_SWEEP_FOLDER = "MAXK_LAB_SWEEP_FOLDER"
_opened: set[str] = set()
PLACES = (
    " (looked for among the installed packages, in the folder where maxk-lab was started and "
    "beside the sweep file)"
)


class NoModuleError(MistakeError):
    """No module of this name is on the path."""


def close_current_folder() -> None:
    """Remove the current folder from the path of this process and of its child processes.

    A folder that PYTHONPATH names stays. Python replaces an empty entry of PYTHONPATH, as in
    `:/my/lib`, by the path of the current folder.
    """
    sys.path[:] = search_path()
    if not os.environ.get(_SAFE_PATH):
        os.environ[_SAFE_PATH] = _OURS
    entries = os.environ.get(_PATH, "").split(os.pathsep)
    named = [entry for entry in entries if entry]
    if entries == [""] or named == entries:
        return
    os.environ[_PATH] = os.pathsep.join(named)
    # The folder of this package is safe: its code runs anyway.
    allowed = {os.path.abspath(entry) for entry in named} | {str(Path(__file__).parents[1])}
    sys.path[:] = [entry for entry in sys.path if entry in allowed or entry not in current_folder()]


def open_project_folders() -> None:
    """Append the project's folders to the path; at the end, no file in them hides a library."""
    if os.environ.get(_SAFE_PATH) == _OURS:
        del os.environ[_SAFE_PATH]
    for folder in project_folders():
        if folder not in sys.path:
            sys.path.append(folder)
            _opened.add(folder)


def look_beside(sweep: str | os.PathLike[str] | None) -> None:
    """Make the folder of a sweep file a project folder of this process and its child processes.

    It replaces the folder of an earlier sweep file. `sweep` is None for a sweep without file.
    """
    os.environ.pop(_SWEEP_FOLDER, None)
    if sweep is not None:
        os.environ[_SWEEP_FOLDER] = os.path.dirname(os.path.abspath(sweep))


def project_folders() -> list[str]:
    """Return the project folders: the current folder and the folder of the sweep file."""
    sweep_folder = os.environ.get(_SWEEP_FOLDER)
    return list(dict.fromkeys([*current_folder(), *([sweep_folder] if sweep_folder else [])]))


def current_folder() -> list[str]:
    """Return the current folder in a list; an empty list if the folder was deleted."""
    try:
        return [os.getcwd()]
    except OSError:
        return []


def search_path() -> list[str]:
    """Return the search path of modules without the project folders."""
    return [entry for entry in sys.path if entry and entry not in _opened]


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group that installed packages declare."""
    return [point for point in _entry_points(tuple(search_path())) if point.group == group]


def package_of(point: EntryPoint) -> str:
    """Return the package that declares an entry point, with its version: `extras 1.0`."""
    return " ".join(filter(None, name_and_version(point))) or "a package without a name"


def name_and_version(point: EntryPoint) -> tuple[str, str]:
    """Return name and version of the package that declares an entry point; empty if unknown."""
    about: Any = {} if point.dist is None else point.dist.metadata
    name, version = (str(about[key]) if key in about else "" for key in ("Name", "Version"))
    return name, version


@cache
def _entry_points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return all entry points of our groups.

    If two installations of a package have some, the first one counts, as for imports. Only one
    small file of each package is read, because reading all metadata takes 0.1 s.
    """
    by_package: dict[str, tuple[EntryPoint, ...]] = {}
    for number, package in enumerate(distributions(path=list(path))):
        if OUR_GROUPS in (package.read_text("entry_points.txt") or ""):
            points = tuple(p for p in package.entry_points if p.group.startswith(OUR_GROUPS))
            by_package.setdefault(package.metadata["Name"] or str(number), points)
    return tuple(point for points in by_package.values() for point in points)


def is_function_path(text: str) -> bool:
    """Return whether a text has the form of a function's path, `package.module:name`."""
    module, _, name = text.partition(":")
    return all(word.isidentifier() for word in (*module.split("."), name))


def place_of(module: str) -> ModuleSpec:
    """Return the spec of a module without importing its packages, unlike `find_spec`.

    The search is that of an import, with the project folders last. Raises `NoModuleError`.
    """
    first, *others = module.split(".")
    spec: ModuleSpec | None = None
    for finder in sys.meta_path:  # packages under development have hooks
        if finder is PathFinder:
            spec = PathFinder.find_spec(first, [*sys.path, *project_folders()])
        else:
            spec = finder.find_spec(first, None)
        if spec is not None:
            break
    for number, submodule in enumerate(others, start=1):
        if spec is None:
            break
        if spec.submodule_search_locations is None:
            package = ".".join(module.split(".")[:number])
            raise NoModuleError(f"No module named {module!r}; {package!r} is not a package")
        spec = PathFinder.find_spec(submodule, list(spec.submodule_search_locations))
    if spec is None:
        raise NoModuleError(f"No module named {module!r}")
    return spec
