"""Functions that a sweep names, of a catalogue or its user's own.

Only the process that measures imports them. Before, it is looked up whether the module is there,
and nothing is imported.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from maxk_lab.calls import called
from maxk_lab.catalogue import Catalogue, load
from maxk_lab.errors import LabError, MistakeError, first_line, shown
from maxk_lab.installed import open_project_folders, project_folders

_WHAT = "the reward function "
_PLACES = (
    " (looked for among the installed packages, in the folder where maxk-lab was started and "
    "beside the sweep file)"
)


class NoModuleError(MistakeError):
    """A module that is nowhere on the path."""


def is_function_path(text: str) -> bool:
    """Whether a text has the form of the path of a function, `package.module:name`."""
    module, _, name = text.partition(":")
    return all(part.isidentifier() for part in (*module.split("."), name))


def check_function(name: str, catalogue: Catalogue[Any]) -> None:
    """Raise `LabError` for no name of the catalogue, and no path `package.module:name`.

    Of a path, it is looked up whether there is such a module: what is in it, its import tells.
    """
    if ":" not in name:
        _implementation(name, catalogue)
        return
    module = name.partition(":")[0]
    try:
        if not is_function_path(name):
            raise LabError("it is no path of the form package.module:name")
        if module == "__main__":
            raise LabError(
                "the processes that measure know nothing of the script or the notebook that runs "
                "them: put the function into a module, a file of its own"
            )
        if module not in sys.modules:
            place_of(module)
    except LabError as error:
        places = _PLACES if isinstance(error, NoModuleError) else ""
        raise LabError(f"cannot load {_WHAT}{shown(name)}: {error}{places}") from None


def load_function(name: str, catalogue: Catalogue[Any], takes: str) -> Any:
    """The function that it names, imported: from now on also from the project's folders.

    `takes` says what the function is given. Raises `LabError` where there is none, and whatever its
    module does when it is imported.
    """
    if ":" not in name:
        return load(_implementation(name, catalogue))
    open_project_folders()
    try:
        # Whoever limits the time of a call limits that of the import, too.
        with called(f"the import of {_WHAT.removeprefix('the ')}{shown(name)}"):
            function = load(name, _WHAT)
    except KeyboardInterrupt as error:  # Ctrl-C, or the module's own: it ends this either way
        raise LabError(f"cannot load {_WHAT}{shown(name)}: {first_line(error)}") from error
    except LabError as error:
        places = _PLACES if isinstance(error.__cause__, ModuleNotFoundError) else ""
        raise LabError(f"{error}{places}") from error
    if isinstance(function, type) or not callable(function):
        is_class = isinstance(function, type)
        what = f"the class {function.__name__}" if is_class else repr(function)
        raise LabError(f"{_WHAT}{shown(name)} must be a function {takes}, got {what}")
    return function


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
    for number, part in enumerate(others, start=1):
        if spec is None:
            break
        if spec.submodule_search_locations is None:
            package = ".".join(module.split(".")[:number])
            raise NoModuleError(f"No module named {module!r}; {package!r} is not a package")
        spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    if spec is None:
        raise NoModuleError(f"No module named {module!r}")
    return spec


def _implementation(name: str, catalogue: Catalogue[Any]) -> str:
    try:
        return str(catalogue.get(name).implementation)
    except LabError as error:
        raise LabError(f"{error}; or a dotted path package.module:name") from None
