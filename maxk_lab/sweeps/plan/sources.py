"""The source of code that a sweep names: which files it is, and their hash. Nothing is imported."""

from __future__ import annotations

import ast
import hashlib
import os
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

from maxk_lab.environments.lookup import NoModuleError, place_of

OURS = __name__.partition(".")[0]
# Folders in which everything is installed.
_SITES = ("site-packages", "dist-packages")
# Functions that import what a text names.
_IMPORTERS = ("import_module", "__import__")


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
            found = modules_below(module, folder, alone=folder.name in _SITES)
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


def modules_below(module: str, folder: Path, *, alone: bool = False) -> set[Path]:
    """Return the files below a folder of a module there, and of those that it imports from there.

    With `alone`, only those of the same top-level package. Our own are none of them.
    """
    files: set[Path] = set()
    followed: set[str] = set()
    queue = [module]
    while queue:
        name = queue.pop()
        first = name.partition(".")[0]
        if name in followed or first == OURS or (alone and first != module.partition(".")[0]):
            continue
        followed.add(name)
        parts = name.split(".")
        # Importing a module imports the packages around it first.
        queue += [".".join(parts[:end]) for end in range(1, len(parts))]
        path = _file_of(folder.joinpath(*parts))
        if path is not None:
            files.add(path)
            package = name if path.name == "__init__.py" else ".".join(parts[:-1])
            queue += _imports(path, package, folder)
    return files


def _file_of(place: Path) -> Path | None:
    files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _imports(path: Path, package: str, folder: Path) -> Iterator[str]:
    """Yield the modules that a file of a package may import; what is none lies nowhere."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of a backslash; its import shows them
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return  # as its import will say
    nodes = list(ast.walk(tree))
    by_name = any(getattr(one, "attr", getattr(one, "id", "")) in _IMPORTERS for one in nodes)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _absolute("." * node.level + (node.module or ""), package)
            yield source
            for alias in node.names:
                if alias.name == "*":  # its `__all__` may name any module of the package
                    inside = folder.joinpath(*source.split("."))
                    yield from (f"{source}.{one.stem}".lstrip(".") for one in inside.glob("*"))
                else:
                    yield f"{source}.{alias.name}".lstrip(".")
        elif by_name and isinstance(node, ast.Constant) and _is_module_name(node.value):
            yield _absolute(node.value, package)


def _is_module_name(value: object) -> TypeGuard[str]:
    if not isinstance(value, str):
        return False
    return all(part.isidentifier() for part in value.lstrip(".").split("."))


def _absolute(name: str, package: str) -> str:
    """Return the whole name of a module that a module of a package names, as in `..other`."""
    level = len(name) - len(name.lstrip("."))
    if level == 0:
        return name
    parents = package.split(".")
    return ".".join(filter(None, (*parents[: len(parents) - level + 1], name[level:])))


def _folder_of(first: str) -> Path | None:
    """The folder that a top-level module lies in; None for those of Python itself."""
    try:
        spec = place_of(first)
    except (NoModuleError, ValueError, ImportError):
        return None
    inside = spec.submodule_search_locations
    place = next(iter(inside), None) if inside is not None else spec.origin
    paths = sysconfig.get_paths()
    if not place or not os.path.exists(place):
        return None
    folder = Path(place).absolute().parent
    return None if folder in (Path(paths["stdlib"]), Path(paths["platstdlib"])) else folder


def _hash_of_source(path: Path) -> str:
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
