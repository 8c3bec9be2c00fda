"""The source of code that a sweep names: which files it is, and their hash. Nothing is imported."""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import Distribution
from modulefinder import Module, ModuleFinder
from pathlib import Path
from types import CodeType
from typing import Any

from maxk_lab.environments.lookup import NoModuleError, place_of

OURS = __name__.partition(".")[0]
# Folders in which everything is installed.
_SITES = ("site-packages", "dist-packages")
# Functions that import what a text names.
_IMPORTERS = {"import_module", "__import__"}
# The kind of a package, as `ModuleFinder` has it.
_PACKAGE = 5
# What Python cannot follow is no module, and its import says so.
_UNREADABLE = (ImportError, SyntaxError, ValueError, OSError, RecursionError)


def modules_below(
    module: str, folder: Path, *, alone: bool = False, apart: Collection[str] = ()
) -> set[Path]:
    """Return the files below a folder of a module there, and of those that it imports from there.

    With `alone`, only those of the same top-level package, else none of those of the packages that
    are kept `apart`. Our own are none of them. Of a package
    that cannot be followed, such as one with an error in its source, all modules are.
    """
    finder = _Finder(folder, module.partition(".")[0] if alone else None, apart)
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
        first = module.partition(".")[0]
        folder = _folder_of(first)
        if folder is not None:
            site = folder.name in _SITES
            installed = set() if site else _installed_in(folder)
            alone = site or first in installed
            found = modules_below(module, folder, alone=alone, apart=installed)
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
    """Follows imports below a folder: those of one package where it is `alone`, never our own.

    Beyond what the base class sees, `from package import *` may import every module of a package,
    and code that imports by names may import what its texts name.
    """

    def __init__(self, folder: Path, alone: str | None, apart: Collection[str]) -> None:
        super().__init__(path=[str(folder)])
        self._folder, self._alone, self._apart = folder, alone, apart

    def takes(self, name: str) -> bool:
        """Return whether a module of this name is one to be followed."""
        first = name.partition(".")[0]
        if self._alone is not None or first == OURS:
            return first == self._alone
        if first in self._apart:
            return False
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
        except (AttributeError, TypeError):  # a folder without an __init__.py has no loader
            for place in path or self.path:
                if (inside := Path(place) / name).is_dir():
                    return None, str(inside), ("", "", _PACKAGE)
            raise ImportError(whole) from None

    def load_package(self, fqname: str, pathname: str) -> Module:
        """Load a package as the base class does; without an `__init__.py` it has no code."""
        if Path(pathname, "__init__.py").is_file():
            return super().load_package(fqname, pathname)
        package: Any = self.add_module(fqname)
        package.__path__ = [pathname]
        return package  # type: ignore[no-any-return]

    def determine_parent(self, caller: Module | None, level: int = -1) -> Module | None:
        """Return the package that relative imports are of; where there is none, one without code.

        Such an import fails, and the module may then try another one.
        """
        try:
            return super().determine_parent(caller, level)
        except ImportError:
            return Module("?")

    def scan_code(self, co: CodeType, m: Module) -> None:
        """Follow the imports of the code of a module, and of all that is nested in it."""
        super().scan_code(co, m)
        for what, told in self.scan_opcodes(co):
            if what.endswith("_import") and "*" in (told[-2] or ()):
                parent = self.determine_parent(m, told[0] if len(told) == 3 else 0)
                above = "" if parent is None else vars(parent)["__name__"]
                self._follow_all(".".join(filter(None, (above, told[-1]))))
        if not _IMPORTERS.isdisjoint(co.co_names):
            for text in _texts(co.co_consts):
                name = text.lstrip(".")
                if all(part.isidentifier() for part in name.split(".")):
                    self._follow(name, m, level=len(text) - len(name))

    def _follow(self, name: str, caller: Module | None = None, level: int = 0) -> None:
        try:
            self.import_hook(name, caller, level=level)
        except (ImportError, SyntaxError):
            self.badmodules.setdefault(name, {})

    def _follow_all(self, package: str) -> None:
        """Follow all modules in a package, of which `__all__` may name any."""
        for folder in getattr(self.modules.get(package), "__path__", None) or ():
            for path in sorted(Path(folder).iterdir()):
                if path.suffix == ".py" or (path / "__init__.py").is_file():
                    self._follow(f"{package}.{path.stem}")


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple | frozenset):
            yield from _texts(value)


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


def _installed_in(folder: Path) -> set[str]:
    """The top-level modules there of installed packages, as these tell.

    A module of the user's own may lie beside them.
    """
    found: set[str] = set()
    for about in folder.glob("*.dist-info"):
        package = Distribution.at(about)
        told = f"{package.read_text('RECORD') or ''}\n{package.read_text('top_level.txt') or ''}"
        found |= {re.split(r"[/.,]", line.strip('" '))[0] for line in told.splitlines()}
        # For want of both.
        found |= {point.module.partition(".")[0] for point in package.entry_points}
    return found


def _hash_of_source(path: Path) -> str:
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
