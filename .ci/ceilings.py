"""Print the lines and files of each room beside its ceiling; fail where one is above it.

A room that has not been rebuilt yet may stay as large as it was; `target` is what it is to become.
Who needs more room takes something away, or says in the commit why the ceiling is raised.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The ceiling of each room in lines, blanks and docstrings too, and its target.
CEILINGS = {
    "estimators": (3_618, 3_000),
    "gradients": (2_822, 2_400),
    "statistics": (2_626, 1_600),
    "environments + policies": (5_042, 3_900),
    "training": (1_630, 1_450),
    "sweeps": (8_149, 5_600),
    "studies": (7_059, 6_600),
    "report": (3_394, 2_400),
    "page of a report": (518, 600),
    "results + tracking + api": (2_221, 1_400),
    "cli": (2_831, 2_000),
    "own": (1_426, 1_500),
    "top level": (1_261, 550),
    "package": (43_154, 30_900),
    "files, package": (281, 300),
    "AST nodes, package": (307_894, 240_000),
    "templates": (251, 450),
    "wide lines of templates": (0, 0),
    "tests": (31_250, 24_000),
    "AST nodes, tests": (255_696, 215_000),
    "benchmarks + docs + .ci": (2_922, 2_400),
    "examples + experiments": (492, 400),
    "adapters": (1_075, 900),
}
# The rooms that share a ceiling.
TOGETHER = {room: shared for shared in CEILINGS for room in shared.split(" + ") if shared != room}
WIDEST = 120  # characters in a line of a template


def files_of(root: Path) -> list[str]:
    """Return the files that git tracks, or would track, as paths from `root`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return sorted({path for path in listed.stdout.splitlines() if (root / path).is_file()})


def room_of(path: str) -> str | None:
    """Return the room of a file; None for what no ceiling is for."""
    folders, suffix = path.split("/")[:-1], path.rpartition(".")[2]
    if suffix == "j2":
        return "templates"
    if path.startswith("maxk_lab/") and suffix in ("js", "css", "html"):
        return None if "libraries" in folders else "page of a report"
    if suffix != "py" or not folders:
        return None
    room = "top level" if folders == ["maxk_lab"] else folders[folders[0] == "maxk_lab"]
    return TOGETHER.get(room, room)


def measured(root: Path) -> tuple[Counter[str], Counter[str]]:
    """Return the size of everything that may have a ceiling, and the files of each room."""
    sizes, files = Counter(dict.fromkeys(CEILINGS, 0)), Counter[str]()
    for path in files_of(root):
        room = room_of(path)
        if room is None:
            continue
        text = (root / path).read_text(encoding="utf-8")
        lines = text.splitlines()
        whole = "package" if path.startswith("maxk_lab/") else room
        for one in {room, whole} if path.endswith(".py") else {room}:
            sizes[one] += len(lines)
            files[one] += 1
        if room == "templates":
            sizes["wide lines of templates"] += sum(len(line) > WIDEST for line in lines)
        elif path.endswith(".py") and whole in ("package", "tests"):
            sizes[f"AST nodes, {whole}"] += sum(1 for _ in ast.walk(ast.parse(text)))
    sizes["files, package"] = files["package"]
    return sizes, files


def main(root: Path = ROOT) -> int:
    """Print the table. Returns 1 where something is above its ceiling or has none, else 0."""
    sizes, files = measured(root)
    print(f"{'':28}{'files':>7}{'size':>9}{'ceiling':>9}{'target':>9}")
    for room, size in sizes.items():
        ceiling, target = CEILINGS.get(room, (0, 0))
        over = f"  {size - ceiling} too many" if size > ceiling else ""
        print(f"{room:28}{files[room] or '':>7}{size:>9}{ceiling:>9}{target:>9}{over}")
    return int(any(size > CEILINGS.get(room, (0, 0))[0] for room, size in sizes.items()))


if __name__ == "__main__":
    sys.exit(main())
