"""The source of code that a sweep names: which files it is, and their hash. Nothing is imported."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from modulefinder import Module, ModuleFinder
from pathlib import Path
from typing import Any

from maxk_lab.environments.lookup import NoModuleError, place_of

OURS = __name__.partition(".")[0]
# What Python cannot follow is no module, and its import says so.
_UNREADABLE = (ImportError, SyntaxError, ValueError, OSError, RecursionError)


def modules_below(module: str, folder: Path, *, alone: bool = False) -> set[Path]:
    """Return the files below a folder of a module there, and of those that it imports from there.

    With `alone`, only those of the same top-level package. Our own are none of them. Of a package
    that cannot be followed, such as one without an `__init__.py`, all modules are.
    """
    finder = _Finder(folder, module.partition(".")[0] if alone else None)
    lost = {module}
    with suppress(*_UNREADABLE):
        finder.import_hook(module)
        lost.clear()
    for path in sorted(_all_of(module.partition(".")[0], folder)) if lost else ():
        with suppress(*_UNREADABLE):
            finder.load_file(str(path))
    lost |= set(finder.badmodules)
    named = (getattr(one, "__file__", None) for one in finder.modules.values())
    found = {Path(name) for name in named if name}
    for name in lost:
        if finder.takes(name):
            found |= _all_of(name.partition(".")[0], folder)
    return {one for one in found if one.is_file() and one.is_relative_to(folder)}


def source_hash(modules: Iterable[str]) -> str | None:
    """Return the SHA-256 of the source of modules and of those beside them that they import.

    Of an installed package these are its own modules; of a module of the user's own all that lie
    in the same folder or below. It is the same wherever that folder is. None where there is no
    source, as of a module of Python itself, and where there is no such module.
    """
    files: dict[str, Path] = {}
    for module in modules:
        folder = _folder_of(module.partition(".")[0])
        if folder is not None:
            found = modules_below(module, folder, alone=_is_installed(folder))
            files |= {path.relative_to(folder).as_posix(): path for path in found}
    if not files:
        return None
    lines = (f"{name} {_hash_of_source(path)}\n" for name, path in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def package_modules(package: str) -> list[str]:
    """Return the names of all modules of a package, itself first."""
    folder = _folder_of(package.partition(".")[0])
    inside = [] if folder is None else sorted(folder.joinpath(*package.split(".")).glob("*.py"))
    return [package, *(f"{package}.{one.stem}" for one in inside if one.stem != "__init__")]


class _Finder(ModuleFinder):
    """Follows imports below a folder: those of one package where it is `alone`, never our own."""

    def __init__(self, folder: Path, alone: str | None) -> None:
        super().__init__(path=[str(folder)])
        self._folder, self._alone = folder, alone

    def takes(self, name: str) -> bool:
        """Return whether a module of this name is one to be followed."""
        first = name.partition(".")[0]
        if self._alone is not None or first == OURS:
            return first == self._alone
        # What is installed has its name before a module, or a mere folder, of the user's own.
        place = _place(first)
        return place is None or place.parent == self._folder

    def find_module(self, name: str, path: Any, parent: Module | None = None) -> Any:
        """Find a module as the base class does. Raises `ImportError` for one of no interest."""
        whole = name if parent is None else f"{vars(parent)['__name__']}.{name}"
        if not self.takes(whole):
            raise ImportError(whole)
        try:
            return super().find_module(name, path, parent)
        except AttributeError:  # a folder without an __init__.py has no loader
            raise ImportError(whole) from None


def _all_of(first: str, folder: Path) -> set[Path]:
    """All modules of a top-level package, or the one that it is."""
    package = folder / first
    return set(package.rglob("*.py")) if package.is_dir() else {package.with_suffix(".py")}


def _folder_of(first: str) -> Path | None:
    """The folder that a top-level module lies in; None for those of Python itself."""
    place = _place(first)
    paths = sysconfig.get_paths()
    own = {Path(paths["stdlib"]), Path(paths["platstdlib"]), Path()}
    return None if place is None or place.parent in own else place.parent


def _place(first: str) -> Path | None:
    """The file or folder of a top-level module, one without a folder if it has none of its own.

    None where there is no such module.
    """
    try:
        spec = place_of(first)
    except (NoModuleError, ValueError, ImportError):
        return None
    inside = spec.submodule_search_locations
    place = next(iter(inside), None) if inside is not None else spec.origin
    return Path(place).absolute() if place and os.path.exists(place) else Path(first)


def _is_installed(folder: Path) -> bool:
    """Whether packages of others lie there, which a package imports but is not."""
    return next(folder.glob("*.dist-info"), None) is not None


def _hash_of_source(path: Path) -> str:
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
