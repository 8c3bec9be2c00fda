"""The house rules about imports: dependencies point one way; each heavy library has one room."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "maxk_lab"
# What each room may import of the others. The modules at the top (errors, catalogue, ...) are open
# to all.
ALLOWED = {
    "statistics": set(),
    "estimators": set(),
    "policies": set(),
    "environments": {"policies", "estimators"},
    "gradients": {"environments", "policies", "estimators", "statistics"},
    "training": {"environments", "policies", "estimators"},
    "sweeps": {"environments", "policies", "estimators", "statistics"},
    "report": {"sweeps", "estimators", "statistics"},
    "results": {"sweeps", "report", "statistics"},
    "tracking": {"sweeps", "report"},
    "studies": {
        "tracking",
        "report",
        "sweeps",
        "training",
        "gradients",
        "environments",
        "estimators",
        "statistics",
    },
    "cli": {"sweeps", "report", "results", "tracking", "environments", "policies", "estimators"},
    "api": {"cli", "sweeps", "report", "results"},
}
# Rooms that know the kinds of studies by their rows alone, but for packages some of whose public
# names are a kind's.
FRAME = ("sweeps", "report", "results", "tracking", "cli", "api")
FRONTS = (
    "sweeps/__init__.py",
    "report/__init__.py",
)
# The public names of the whole package, of whichever room.
DOOR = "__init__.py"
# Where a library may be imported at all; the rest of the package talks to that room instead.
HOMES = {
    "rl4co": {"environments", "policies", "training"},
    "wandb": {"tracking"},
    "typer": {"cli"},
    "ray": {"sweeps"},
    "submitit": {"sweeps"},
}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    """The room of a module, or "" for the modules at the top."""
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else ""


def imports(tree: ast.AST) -> Iterator[str]:
    """Every absolute module name that is imported anywhere in the file, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield node.module
            # `from maxk_lab import report` names a room, too.
            yield from (
                f"{node.module}.{alias.name}" for alias in node.names if node.module == "maxk_lab"
            )


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def libraries(path: Path) -> set[str]:
    """The top-level packages that the file imports."""
    return {module.split(".")[0] for module in imports(parse(path))}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_room_of_the_package_is_known() -> None:
    assert {room(path) for path in modules()} - {""} <= set(ALLOWED)


def test_dependencies_point_one_way() -> None:
    wrong = []
    for path in modules():
        used = {m.split(".")[1] for m in imports(parse(path)) if m.startswith("maxk_lab.")}
        allowed = ALLOWED.get(room(path), set()) | {room(path)}
        if name(path) in FRONTS:
            allowed |= {"studies"}
        elif name(path) == DOOR:
            allowed |= set(ALLOWED)
        climbs = (used & set(ALLOWED)) - allowed
        wrong += [f"{name(path)} imports {other}" for other in sorted(climbs)]
    assert not wrong


def kinds(path: Path) -> set[str]:
    """The kinds of studies whose modules the file imports."""
    parts = [module.split(".") for module in imports(parse(path))]
    return {part[2] for part in parts if part[:2] == ["maxk_lab", "studies"] and len(part) > 2}


def test_the_frame_knows_the_kinds_of_studies_by_their_rows_alone() -> None:
    wrong = [
        f"{name(path)} imports {kind}"
        for path in modules()
        if room(path) in FRAME and name(path) not in FRONTS
        for kind in sorted(kinds(path))
    ]
    assert not wrong


def test_no_kind_of_study_imports_another() -> None:
    wrong = [
        f"{name(path)} imports {kind}"
        for path in modules()
        if room(path) == "studies"
        for kind in sorted(kinds(path) - {path.relative_to(ROOT).parts[1]})
    ]
    assert not wrong


def test_heavy_libraries_are_imported_in_their_room_only() -> None:
    wrong = [
        f"{name(path)} imports {library}"
        for path in modules()
        for library in sorted(libraries(path) & set(HOMES))
        if room(path) not in HOMES[library]
    ]
    assert not wrong


@pytest.mark.parametrize("engine", ["ray", "submitit"])
def test_the_engine_of_a_cluster_is_imported_in_one_file_and_only_when_it_is_used(
    engine: str,
) -> None:
    using = [path for path in modules() if engine in libraries(path)]
    assert len(using) == 1
    top = ast.Module([one for one in parse(using[0]).body if not _waits(one)], [])
    assert engine not in {module.split(".")[0] for module in imports(top)}


def _waits(statement: ast.stmt) -> bool:
    """Whether its content runs only when it is called."""
    return isinstance(statement, ast.FunctionDef | ast.ClassDef)


def test_estimators_are_pure_mathematics() -> None:
    # The rows declare the types of their parameters as all settings are declared.
    pure = {"maxk_lab", "torch", "pydantic"} | set(sys.stdlib_module_names)
    wrong = {
        name(path): sorted(libraries(path) - pure)
        for path in modules()
        if room(path) == "estimators" and libraries(path) - pure
    }
    assert not wrong


def test_only_the_command_line_prints_or_exits() -> None:
    wrong = []
    for path in modules():
        if room(path) != "cli":
            wrong += [f"{name(path)}:{line}" for line in exits(parse(path))]
    assert not wrong


def exits(tree: ast.AST) -> Iterator[int]:
    """Lines that print, exit or raise SystemExit."""
    printing = {"print", "sys.exit", "exit", "quit", "sys.stdout.write", "sys.stderr.write"}
    for node in ast.walk(tree):
        if (isinstance(node, ast.Call) and ast.unparse(node.func) in printing) or (
            isinstance(node, ast.Raise) and "SystemExit" in ast.unparse(node)
        ):
            yield node.lineno


def test_no_lazy_name_hides_behind_a_module_of_the_same_name() -> None:
    """Importing a module `report.x` would replace a function `x` that `report` exports lazily."""
    hidden = []
    for init in ROOT.glob("*/__init__.py"):
        package = import_module(f"maxk_lab.{init.parent.name}")
        for path in init.parent.glob("*.py"):
            if path.stem in dir(package) and hasattr(package, "__getattr__"):
                module = import_module(f"{package.__name__}.{path.stem}")
                if package.__getattr__(path.stem) is not module:
                    hidden.append(module.__name__)
    assert not hidden


def test_every_lazy_name_is_there() -> None:
    """A name that a package exports lazily is looked up when it is used; here all are."""
    packages = [
        import_module(f"maxk_lab.{init.parent.name}") for init in ROOT.glob("*/__init__.py")
    ]
    names = [
        (package, name)
        for package in packages
        if hasattr(package, "__getattr__")
        for name in dir(package)
    ]
    assert len(names) > 30
    missing = [
        f"{package.__name__}.{name}" for package, name in names if not hasattr(package, name)
    ]
    assert not missing


def test_no_folder_needs_a_table_of_contents() -> None:
    held = Counter(path.parent for path in modules() if path.name != "__init__.py")
    long = {folder.relative_to(ROOT).as_posix(): n for folder, n in held.items() if n > 15}
    assert not long


def test_docstrings_begin_with_their_subject_or_a_verb() -> None:
    wrong = [
        f"{name(path)}: {words}"
        for path in modules()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and (words := (ast.get_docstring(node) or "").partition("\n")[0]).split(" ")[0]
        in ("What", "Of", "As", "By")
    ]
    assert not wrong
