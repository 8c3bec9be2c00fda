"""Functions that a sweep names, of a catalogue or its user's own.

To check them imports nothing: only a run loads what somebody has written into a sweep file.
"""

from __future__ import annotations

from typing import Any

from maxk_lab.calls import called
from maxk_lab.catalogue import Catalogue, load
from maxk_lab.environments.lookup import NoModuleError, no_function
from maxk_lab.errors import LabError, first_line, shown
from maxk_lab.installed import open_project_folders

_WHAT = "the reward function "
_PLACES = (
    " (looked for among the installed packages, in the folder where maxk-lab was started and "
    "beside the sweep file)"
)


def check_function(name: str, catalogue: Catalogue[Any], takes: str) -> None:
    """Raise `LabError` where a catalogue name or a path `package.module:name` names no function.

    A path is looked up in the source. `takes` says what the function is given.
    """
    if ":" not in name:
        _implementation(name, catalogue)
        return
    try:
        found = no_function(name)
    except LabError as error:
        places = _PLACES if isinstance(error, NoModuleError) else ""
        raise LabError(f"cannot load {_WHAT}{shown(name)}: {error}{places}") from None
    if found is not None:
        raise _must_be_a_function(name, takes, found)


def load_function(name: str, catalogue: Catalogue[Any], takes: str) -> Any:
    """The function that it names, imported: from now on also from the project's folders.

    Raises `LabError` where there is none, and whatever its module does when it is imported.
    """
    if ":" not in name:
        return load(_implementation(name, catalogue))
    open_project_folders()
    try:
        # Whoever limits the time of a call limits that of the import, too.
        with called(f"the import of {_WHAT.removeprefix('the ')}{shown(name)}"):
            found = load(name, _WHAT)
    except KeyboardInterrupt as error:  # Ctrl-C, or the module's own: it ends this either way
        raise LabError(f"cannot load {_WHAT}{shown(name)}: {first_line(error)}") from error
    except LabError as error:
        places = _PLACES if isinstance(error.__cause__, ModuleNotFoundError) else ""
        raise LabError(f"{error}{places}") from error
    if isinstance(found, type) or not callable(found):
        what = f"the class {found.__name__}" if isinstance(found, type) else repr(found)
        raise _must_be_a_function(name, takes, what)
    return found


def _implementation(name: str, catalogue: Catalogue[Any]) -> str:
    try:
        return str(catalogue.get(name).implementation)
    except LabError as error:
        raise LabError(f"{error}; or a dotted path package.module:name") from None


def _must_be_a_function(name: str, takes: str, found: str) -> LabError:
    return LabError(f"{_WHAT}{shown(name)} must be a function {takes}, got {found}")
