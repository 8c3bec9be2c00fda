"""Installed packages: where modules are looked for, and the entry points that packages declare.

What lies in the current folder or beside a sweep file is not installed. It is found where a run
loads a function that a sweep names by a dotted path, after everything else, and nowhere else: so no
command runs code only because it was started in a folder that somebody else has filled.
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
# Keeps the current folder off the path of the Python processes that this one starts.
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
    """A module that is nowhere on the path."""


def close_current_folder() -> None:
    """Take the current folder off the path, here and in the Python processes started from here.

    A folder that the user has put there by its own name stays. Python takes empty entries of
    PYTHONPATH, as in `:/my/lib`, for the current folder, and writes its whole path.
    """
    sys.path[:] = search_path()
    if not os.environ.get(_SAFE_PATH):
        os.environ[_SAFE_PATH] = _OURS
    entries = os.environ.get(_PATH, "").split(os.pathsep)
    named = [entry for entry in entries if entry]
    if entries == [""] or named == entries:
        return
    os.environ[_PATH] = os.pathsep.join(named)
    # Where this package lies, its own code runs anyway.
    allowed = {os.path.abspath(entry) for entry in named} | {str(Path(__file__).parents[1])}
    sys.path[:] = [entry for entry in sys.path if entry in allowed or entry not in current_folder()]


def open_project_folders() -> None:
    """Let modules be found in the project's folders, too: last, so that none hides a library."""
    if os.environ.get(_SAFE_PATH) == _OURS:
        del os.environ[_SAFE_PATH]
    for folder in project_folders():
        if folder not in sys.path:
            sys.path.append(folder)
            _opened.add(folder)


def look_beside(sweep: str | os.PathLike[str] | None) -> None:
    """Make the folder of a sweep file one of the project, here and in processes begun from here.

    It takes the place of that of an earlier file; None is a sweep that has no file.
    """
    os.environ.pop(_SWEEP_FOLDER, None)
    if sweep is not None:
        os.environ[_SWEEP_FOLDER] = os.path.dirname(os.path.abspath(sweep))


def project_folders() -> list[str]:
    """The current folder and that of the sweep file, in which functions of the user's own lie."""
    beside = os.environ.get(_SWEEP_FOLDER)
    return list(dict.fromkeys([*current_folder(), *([beside] if beside else [])]))


def current_folder() -> list[str]:
    """The current folder; none where it is there no more."""
    try:
        return [os.getcwd()]
    except OSError:
        return []


def search_path() -> list[str]:
    """The path on which modules are looked for, without the current folder."""
    return [entry for entry in sys.path if entry and entry not in _opened]


def entry_points(group: str) -> list[EntryPoint]:
    """The entry points of this group that installed packages declare."""
    return [point for point in _entry_points(tuple(search_path())) if point.group == group]


def package_of(point: EntryPoint) -> str:
    """The package that declares an entry point, with its version: `extras 1.0`."""
    return " ".join(filter(None, name_and_version(point))) or "a package without a name"


def name_and_version(point: EntryPoint) -> tuple[str, str]:
    """The name and the version of the package that declares an entry point, as far as known."""
    about: Any = {} if point.dist is None else point.dist.metadata
    name, version = (str(about[key]) if key in about else "" for key in ("Name", "Version"))
    return name, version


@cache
def _entry_points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """All that are of our groups; of a package that is there twice the first, as for its modules.

    Of each package one small file is read: the metadata of them all would take 0.1 s.
    """
    by_package: dict[str, tuple[EntryPoint, ...]] = {}
    for number, package in enumerate(distributions(path=list(path))):
        if OUR_GROUPS in (package.read_text("entry_points.txt") or ""):
            points = tuple(p for p in package.entry_points if p.group.startswith(OUR_GROUPS))
            by_package.setdefault(package.metadata["Name"] or str(number), points)
    return tuple(point for points in by_package.values() for point in points)


def is_function_path(text: str) -> bool:
    """Whether a text has the form of the path of a function, `package.module:name`."""
    module, _, name = text.partition(":")
    return all(word.isidentifier() for word in (*module.split("."), name))


def place_of(module: str) -> ModuleSpec:
    """The place of a module. The packages that it is in are not imported, as `find_spec` would.

    Modules are looked for as their import looks for them, at last in the folders of the project.
    Raises `NoModuleError`.
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
