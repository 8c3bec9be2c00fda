"""Print the size of each room and of the public surface beside its ceiling; exit 1 above one.

A ceiling is the size today; `target` is the size after the redesign. A room may end 10 % above its
target, the package may not.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The ceiling of each room in lines with blanks and docstrings, and its target.
CEILINGS = {
    "cli": (2_540, 1_500),
    "api": (291, 200),
    "adapters": (1_194, 850),
    "own": (3_421, 1_300),
    "tracking + results": (1_110, 850),
    "studies": (6_823, 5_000),
    "reports": (2_616, 1_900),
    "page": (150, 200),
    "sweep_file": (2_347, 1_150),
    "planning": (599, 500),
    "execution": (2_545, 1_650),
    "training": (1_503, 1_350),
    "gradients": (2_846, 1_900),
    "environments + policies": (5_413, 3_550),
    "statistics": (2_779, 1_800),
    "estimators": (3_920, 2_300),
    "top level": (1_645, 600),
    "package": (41_592, 27_000),
    "files": (268, 200),
    "AST nodes": (304_162, 200_000),
    "templates": (386, 450),
    "tests": (26_660, 19_500),
    "benchmarks + docs + .ci": (4_715, 2_000),
    "YAML keys": (125, 150),
    "options": (45, 45),
    "public names": (133, 120),
}
TOGETHER = {room: shared for shared in CEILINGS for room in shared.split(" + ") if room != shared}


def files_of(root: Path) -> list[str]:
    """Return the files that git tracks, or would track, as paths from `root`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return sorted({path for path in listed.stdout.splitlines() if (root / path).is_file()})


def room_of(path: str) -> str | None:
    """Return the room of a file; None for a file that no ceiling counts."""
    folders, suffix = path.split("/")[:-1], path.rpartition(".")[2]
    if suffix == "j2":
        return "templates"
    if path.startswith("maxk_lab/") and suffix in ("js", "css", "html"):
        return "page"
    if suffix != "py" or not folders:
        return None
    room = "top level" if folders == ["maxk_lab"] else folders[folders[0] == "maxk_lab"]
    room = TOGETHER.get(room, room)
    return room if room in CEILINGS or folders[0] == "maxk_lab" else None


def lines_of(root: Path) -> Counter[str]:
    """Return the lines of each room, and the lines, files and AST nodes of the package."""
    sizes = Counter[str]()
    for path in files_of(root):
        room = room_of(path)
        if room is None:
            continue
        text = (root / path).read_text(encoding="utf-8")
        sizes[room] += len(text.splitlines())
        if path.startswith("maxk_lab/") and path.endswith(".py"):
            sizes["package"] += len(text.splitlines())
            sizes["files"] += 1
            sizes["AST nodes"] += sum(1 for _ in ast.walk(ast.parse(text)))
    return sizes


def yaml_keys() -> Iterator[str]:
    """Yield every key of a sweep file; those of regions and of `with` of an entry count once."""
    from pydantic import BaseModel

    from maxk_lab.fields import models_in
    from maxk_lab.studies.training.grid import Overrides
    from maxk_lab.sweep_file.claims import Where
    from maxk_lab.sweep_file.model import Sweep
    from maxk_lab.sweep_file.studies import STUDIES

    def walk(model: type[BaseModel], above: str) -> Iterator[str]:
        for name, field in model.model_fields.items():
            key = above + (field.alias or name)
            yield key
            for block in models_in(field.annotation):
                if block is not Overrides:
                    yield from walk(block, "where." if block is Where else f"{key}.")

    yield from walk(Sweep, "")
    for study in STUDIES:
        yield study.name
        yield from walk(study.model(study.block), f"{study.name}.")
    yield from ("environment.name", "policy.name", "policy.checkpoint")


def options() -> Iterator[str]:
    """Yield every option of the command line."""
    from typer.main import get_command

    from maxk_lab.cli import app
    from maxk_lab.cli.application import load

    program = get_command(app)
    verbs = [("", program), *((verb, load(verb)) for verb in program.commands)]  # type: ignore[attr-defined]
    for verb, command in verbs:
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield f"{verb} {parameter.opts[0]}"


def public_names() -> Iterator[str]:
    """Yield the names that packages export, with the attributes and parameters of `maxk_lab`'s."""
    import maxk_lab

    for name in maxk_lab.__all__:
        yield f"maxk_lab.{name}"
        thing = getattr(maxk_lab, name)
        if inspect.isclass(thing):
            parts = {*dir(thing), *getattr(thing, "__dataclass_fields__", ())} - {*dir(Exception)}
            yield from (f"maxk_lab.{name}.{word}" for word in parts if not word.startswith("_"))
        else:
            yield from (f"maxk_lab.{name}({p})" for p in inspect.signature(thing).parameters)
    for module in pkgutil.iter_modules(maxk_lab.__path__, "maxk_lab."):
        exported = getattr(import_module(module.name), "__all__", ())
        yield from (f"{module.name}.{name}" for name in exported)


def main(root: Path = ROOT) -> int:
    """Print the table. Returns 1 where a size is above its ceiling or has none, else 0."""
    sizes = lines_of(root)
    if root == ROOT:
        surface = {"YAML keys": yaml_keys, "options": options, "public names": public_names}
        sizes |= Counter({name: len(set(listed())) for name, listed in surface.items()})
    print(f"{'':28}{'size':>9}{'ceiling':>9}{'target':>9}")
    for room in dict.fromkeys([*CEILINGS, *sizes]):
        ceiling, target = CEILINGS.get(room, (0, 0))
        over = f"  {sizes[room] - ceiling} too many" if sizes[room] > ceiling else ""
        print(f"{room:28}{sizes[room]:>9}{ceiling:>9}{target:>9}{over}")
    return int(any(size > CEILINGS.get(room, (0, 0))[0] for room, size in sizes.items()))


if __name__ == "__main__":
    sys.exit(main())
