"""The source of code that a sweep names: which files it is, and their hash. Nothing is imported."""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.util import resolve_name
from pathlib import Path

from maxk_lab.environments.lookup import NoModuleError, place_of

OURS = __name__.partition(".")[0]
# Folders in which everything is installed.
_SITES = ("site-packages", "dist-packages")
# A text that may name a module, as in `import_module("lib.h")` or an `__all__`.
_NAME = re.compile(r"\.*\w{1,99}(\.\w{1,99}){0,9}")


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
            found = modules_below(module, folder, alone=folder.name in _SITES)
            files |= {path.relative_to(folder).as_posix(): path for path in found}
    texts = ((name, path.read_bytes()) for name, path in sorted(files.items()))
    hashes = ((name, text.replace(b"\r\n", b"\n")) for name, text in texts)
    lines = "".join(f"{name} {hashlib.sha256(text).hexdigest()}\n" for name, text in hashes)
    return hashlib.sha256(lines.encode()).hexdigest() if files else None


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
        # Importing a module imports the packages around it first.
        parent = name.rpartition(".")[0]
        queue += [parent] if parent else []
        place = folder.joinpath(*name.split("."))
        for path, package in (
            (place / "__init__.py", name),
            (place.with_name(f"{place.name}.py"), parent),
        ):
            if path.is_file():
                files.add(path)
                queue += _imports(path, package)
                break
    return files


def _imports(path: Path, package: str) -> Iterator[str]:
    """Yield the modules that a file of a package may import; what is none lies nowhere."""
    names: list[str] = []
    with warnings.catch_warnings(), suppress(SyntaxError, ValueError, RecursionError):
        warnings.simplefilter("ignore")  # such as of a backslash; its import shows them
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                dot = "." if node.module else ""
                names += [source, *(f"{source}{dot}{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names += [node.value, f".{node.value}"] if _NAME.fullmatch(node.value) else []
    for name in names:
        with suppress(ImportError):  # beyond the top
            yield resolve_name(name, package) if name.startswith(".") else name


def _folder_of(first: str) -> Path | None:
    """Return the folder that a top-level module lies in; None for those of Python itself."""
    try:
        spec = place_of(first)
    except (NoModuleError, ValueError, ImportError):
        return None
    inside = spec.submodule_search_locations
    place = next(iter(inside), None) if inside is not None else spec.origin
    if not place or not Path(place).exists():
        return None
    folder = Path(place).absolute().parent
    own = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    return None if folder in own else folder
