"""The house rules about imports: dependencies point one way, and each heavy library has its one room."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "maxk_lab"
# What each room may import of the others. The modules at the top (errors, catalogue, ...) are open to all.
ALLOWED = {
    "statistics": set(),
    "estimators": set(),
    "policies": set(),
    "environments": {"policies", "estimators"},
    "gradients": {"environments", "estimators", "statistics"},
    "training": {"environments", "estimators"},
    "sweeps": {"studies", "training", "gradients", "environments", "estimators", "statistics"},
    "report": {"studies", "sweeps", "gradients", "estimators", "statistics"},
    "tracking": {"studies", "report", "sweeps", "gradients", "estimators", "statistics"},
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
    "cli": {
        "studies",
        "report",
        "tracking",
        "sweeps",
        "training",
        "gradients",
        "environments",
        "estimators",
    },
}
# Where a library may be imported at all; the rest of the package talks to that room instead.
HOMES = {"rl4co": {"environments", "training"}, "wandb": {"tracking"}, "typer": {"cli"}}


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


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_room_of_the_package_is_known() -> None:
    assert {room(path) for path in modules()} - {""} <= set(ALLOWED)


@pytest.mark.parametrize("path", modules(), ids=name)
def test_dependencies_point_one_way(path: Path) -> None:
    used = {
        module.split(".")[1] for module in imports(parse(path)) if module.startswith("maxk_lab.")
    }
    rooms = {module for module in used if module in ALLOWED}
    assert rooms <= ALLOWED.get(room(path), set()) | {room(path)}


@pytest.mark.parametrize("path", modules(), ids=name)
def test_heavy_libraries_are_imported_in_their_room_only(path: Path) -> None:
    libraries = {module.split(".")[0] for module in imports(parse(path))}
    wrong = {
        library
        for library, homes in HOMES.items()
        if library in libraries and room(path) not in homes
    }
    assert not wrong


def test_ray_is_imported_in_one_file_at_most() -> None:
    using = [
        name(path) for path in modules() if "ray" in {m.split(".")[0] for m in imports(parse(path))}
    ]
    assert len(using) <= 1, using


@pytest.mark.parametrize(
    "path", [path for path in modules() if room(path) == "estimators"], ids=name
)
def test_estimators_are_pure_mathematics(path: Path) -> None:
    outside = {module.split(".")[0] for module in imports(parse(path))} - set(
        sys.stdlib_module_names
    )
    assert outside <= {"maxk_lab", "torch"}


@pytest.mark.parametrize("path", [path for path in modules() if room(path) != "cli"], ids=name)
def test_only_the_command_line_prints_or_exits(path: Path) -> None:
    calls = [
        node.lineno
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func)
        in ("print", "sys.exit", "exit", "quit", "sys.stdout.write", "sys.stderr.write")
    ]
    assert not calls
    raised = [ast.unparse(node) for node in ast.walk(parse(path)) if isinstance(node, ast.Raise)]
    assert not [statement for statement in raised if "SystemExit" in statement]


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
    """A name that a package exports lazily is only looked up when it is used; here all of them are."""
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
