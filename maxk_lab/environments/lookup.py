"""Functions that are named by a dotted path, looked up in the source: nothing is imported."""

from __future__ import annotations

import ast
import symtable
import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, MistakeError, shown
from maxk_lab.installed import project_folders

# Module code that uses one of these may give itself names that its source does not show.
_MAKES_NAMES = {"__getattr__", "globals", "locals", "vars", "exec", "eval", "setattr"}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class NoModuleError(MistakeError):
    """A module that is nowhere on the path."""


def is_function_path(text: str) -> bool:
    """Whether a text has the form of the path of a function, `package.module:name`."""
    module, _, name = text.partition(":")
    return all(part.isidentifier() for part in (*module.split("."), name))


def no_function(path: str) -> str | None:
    """`the class X` or the like, where `package.module:name` names plainly no function.

    None where it may name one: what only an import would tell, the import tells. Modules are looked
    for as that import will look for them, at last in the folders of the project. Raises `LabError`
    where there is no such module or nothing of this name in it, and for one whose source has an
    error.
    """
    module, _, name = path.partition(":")
    if not is_function_path(path):
        raise LabError("it is no path of the form package.module:name")
    if module == "__main__":
        raise LabError(
            "the processes that measure know nothing of the script or the notebook that runs "
            "them: put the function into a module, a file of its own"
        )
    loaded = sys.modules.get(module)
    if loaded is not None:
        return _in_loaded(loaded, name)
    spec = place_of(module)
    # A folder without an __init__.py has no names of its own; other modules may have no source.
    source = "" if spec.origin is None else _source(spec)
    return None if source is None else _in_source(source, module, name)


def _in_loaded(module: ModuleType, name: str) -> str | None:
    names = vars(module)
    if name not in names:
        if "__getattr__" in names:
            return None
        raise _missing(module.__name__, name, names)
    found = names[name]
    if isinstance(found, type):
        return f"the class {found.__name__}"
    return None if callable(found) else shown(found)


def _missing(module: str, name: str, names: Any) -> LabError:
    return LabError(f"module {module!r} has no attribute {name!r}{did_you_mean(name, names)}")


def place_of(module: str) -> ModuleSpec:
    """The place of a module. The packages that it is in are not imported, as `find_spec` would.

    Raises `NoModuleError`.
    """
    first, *others = module.split(".")
    spec = _of_path_or_hooks(first)
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


def _of_path_or_hooks(name: str) -> ModuleSpec | None:
    """The place of a module outside of packages; packages under development have hooks."""
    for finder in sys.meta_path:
        if finder is PathFinder:
            spec = PathFinder.find_spec(name, [*sys.path, *project_folders()])
        else:
            spec = finder.find_spec(name, None)
        if spec is not None:
            return spec
    return None


def _source(spec: ModuleSpec) -> str | None:
    get_source = getattr(spec.loader, "get_source", None)
    if get_source is None:
        return None
    try:
        found: str | None = get_source(spec.name)
    except (ImportError, OSError, SyntaxError, ValueError) as error:
        raise LabError(f"{spec.origin} cannot be read: {error}") from error
    return found


def _in_source(source: str, module: str, name: str) -> str | None:
    file = f"{module.rpartition('.')[2]}.py"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of a backslash; its import tells them
            tree = ast.parse(source, file)
            table = symtable.symtable(source, file, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LabError(f"its source has an error: {error}") from error
    bound = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported()
    }
    if name in bound:
        return _plainly([statement for statement in tree.body if _binds(statement, name)])
    if _makes_names(tree, name):
        return None
    raise _missing(module, name, bound)


def _makes_names(tree: ast.Module, name: str) -> bool:
    """Whether the module may give itself this name in a way that its list of names misses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            return True
        if isinstance(node, ast.Global) and name in node.names:
            return True
        if isinstance(node, ast.Name) and node.id in _MAKES_NAMES:
            return True
        if isinstance(node, _SCOPES) and node.name == "__getattr__":
            return True
    return False


def _plainly(binding: list[ast.stmt]) -> str | None:
    """The value of a name that only these statements bind, where that is plainly no function."""
    match binding:
        case [ast.ClassDef(decorator_list=[], keywords=[]) as found]:
            return f"the class {found.name}"
        case [ast.Assign(targets=[ast.Name()], value=value)]:
            try:
                return shown(ast.literal_eval(value))
            except (ValueError, TypeError, RecursionError):
                return None
    return None


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement of the module gives the name something, or may."""
    if isinstance(statement, _SCOPES):
        return statement.name == name
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=found, ctx=ast.Store() | ast.Del()) if found == name:
                return True
            case ast.alias(name=found, asname=other) if (other or found) == name:
                return True
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) if found == name:
                return True
            case ast.ClassDef(name=found) | ast.ExceptHandler(name=found) if found == name:
                return True
            case ast.MatchAs(name=found) | ast.MatchStar(name=found) if found == name:
                return True
    return False
