"""Draw docs/architecture.svg, the rooms of the package and their imports, from the package itself.

    python docs/draw_architecture.py            draw it
    python docs/draw_architecture.py --check    fail when the committed picture no longer fits

The picture carries its own facts in its description, so that a check needs no comparison of
pixels: rooms and arrows must be the same, and no room may have grown or shrunk by more than a
quarter.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

PACKAGE = Path(__file__).parents[1] / "maxk_lab"
PICTURE = Path(__file__).with_name("architecture.svg")
# The folders whose own folders are rooms: one per kind of study.
OPENED = {"studies"}
WIDTH, ROW, HEIGHT, GAP, MARGIN = 11.0, 1.05, 0.56, 0.22, 0.35
GROWTH = 0.25


def room(parts: tuple[str, ...]) -> str:
    """Return the room of a module, given as parts below the package; "" for one in no room."""
    depth = 2 if parts[0] in OPENED else 1
    folder = PACKAGE.joinpath(*parts[:depth])
    return folder.relative_to(PACKAGE).as_posix() if folder.is_dir() else ""


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield every module of the package that a file imports, inside functions too, as parts.

    The front of a room lists the names that it exports, for type checkers; it imports none of them.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path.name == "__init__.py":
        tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
    for node in ast.walk(tree):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            package, *parts = name.split(".")
            if package == PACKAGE.name and parts:
                yield tuple(parts)


def survey() -> dict[str, dict[str, Any]]:
    """Return the lines and files of each room and the rooms that it imports."""
    rooms: dict[str, dict[str, Any]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = room(path.relative_to(PACKAGE).parts)
        if not name:
            continue
        found = rooms.setdefault(name, {"lines": 0, "files": 0, "imports": set()})
        found["lines"] += len(path.read_text(encoding="utf-8").splitlines())
        found["files"] += 1
        found["imports"] |= {room(parts) for parts in imported(path)} - {"", name}
    return {name: found | {"imports": sorted(found["imports"])} for name, found in rooms.items()}


def layers(rooms: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Return the layer of each room: one above the highest that it imports. Raises on a circle.

    The kinds of study stand side by side.
    """
    heights: dict[str, int] = {}

    def height(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            circle = (*above[above.index(name) :], name)
            raise SystemExit(f"rooms import each other in a circle: {' → '.join(circle)}")
        if name not in heights:
            beside = [other for other in rooms if _folder(other) in OPENED & {_folder(name)}]
            below = {target for other in (name, *beside) for target in rooms[other]["imports"]}
            below -= set(beside) - set(rooms[name]["imports"])
            heights[name] = max((height(o, (*above, name)) for o in below), default=-1) + 1
        return heights[name]

    return {name: height(name) for name in rooms}


def _folder(name: str) -> str:
    return name.partition("/")[0]


def direct(rooms: dict[str, dict[str, Any]]) -> set[tuple[str, str]]:
    """Return the arrows that no longer way replaces: these are drawn dark, the others pale."""

    def below(name: str) -> set[str]:
        return {name}.union(*(below(other) for other in rooms[name]["imports"]))

    return {
        (name, target)
        for name, found in rooms.items()
        for target in found["imports"]
        if not any(target in below(other) for other in found["imports"] if other != target)
    }


def places(rooms: dict[str, dict[str, Any]]) -> dict[str, tuple[float, float, float]]:
    """Return left edge, bottom and width of each box: its width grows with its lines."""
    heights = layers(rooms)
    boxes: dict[str, tuple[float, float, float]] = {}
    for level in range(max(heights.values()) + 1):
        names = [name for name in rooms if heights[name] == level]
        # Each room above the middle of what it imports, so that arrows cross little.
        names.sort(key=lambda name: (_middle(rooms[name]["imports"], boxes), name))
        widths = [1.25 + rooms[name]["lines"] / 2500 for name in names]
        left = (WIDTH - sum(widths) - GAP * (len(names) - 1)) / 2
        for name, width in zip(names, widths, strict=True):
            boxes[name] = (left, level * ROW, width)
            left += width + GAP
    return boxes


def _middle(names: list[str], boxes: dict[str, tuple[float, float, float]]) -> float:
    centres = [boxes[name][0] + boxes[name][2] / 2 for name in names]
    return sum(centres) / len(centres) if centres else WIDTH / 2


def draw(rooms: dict[str, dict[str, Any]]) -> None:
    """Draw the rooms by layer; an arrow leads from a room to one that it imports, always down."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "maxk-lab", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    boxes, shown = places(rooms), direct(rooms)
    top = max(bottom for _, bottom, _ in boxes.values()) + HEIGHT
    size = (WIDTH, top + 3 * MARGIN)
    figure, axes = plt.subplots(figsize=size)
    axes.set(xlim=(0, WIDTH), ylim=(-2 * MARGIN, top + MARGIN))
    axes.axis("off")
    figure.subplots_adjust(0, 0, 1, 1)
    for name, found in rooms.items():
        for target in found["imports"]:
            (left, bottom, width), (x, y, w) = boxes[name], boxes[target]
            dark = (name, target) in shown
            axes.add_patch(
                FancyArrowPatch(
                    (left + width / 2, bottom),
                    (x + w / 2, y + HEIGHT),
                    arrowstyle="-|>",
                    mutation_scale=9,
                    shrinkA=0,
                    shrinkB=1,
                    color="#4a4a4a" if dark else "#c9ced6",
                    linewidth=1.1 if dark else 0.7,
                    zorder=2 if dark else 1,
                )
            )
    for name, (left, bottom, width) in boxes.items():
        kind = _folder(name) in OPENED
        axes.add_patch(
            FancyBboxPatch(
                (left, bottom),
                width,
                HEIGHT,
                boxstyle="round,pad=0,rounding_size=0.08",
                facecolor="#fdf1dc" if kind else "#e3ecf7",
                edgecolor="#4a4a4a",
                linewidth=0.8,
                zorder=3,
            )
        )
        middle = left + width / 2
        found = rooms[name]
        about = f"{found['lines'] / 1000:.1f} k lines, {found['files']} files"
        axes.text(middle, bottom + 0.36, name, ha="center", va="center", weight="bold", zorder=4)
        axes.text(middle, bottom + 0.16, about, ha="center", va="center", fontsize=7, zorder=4)
    axes.text(
        WIDTH / 2,
        -1.3 * MARGIN,
        "An arrow: imports. Pale: also reached by way of others. All point down. "
        "sweeps, report and tracking find the kinds of study (sand) by name, in a catalogue.",
        ha="center",
        fontsize=8,
    )
    figure.savefig(PICTURE, metadata={"Date": None, "Creator": None, "Description": facts(rooms)})


def facts(rooms: dict[str, dict[str, Any]]) -> str:
    """Return all that the picture tells, as JSON."""
    return json.dumps(rooms, sort_keys=True)


def drawn() -> dict[str, dict[str, Any]]:
    """Return the facts that the committed picture carries; none where there is no picture."""
    if not PICTURE.exists():
        return {}
    purl = "{http://purl.org/dc/elements/1.1/}description"
    found = ElementTree.parse(PICTURE).getroot().find(f".//{purl}")
    return {} if found is None or found.text is None else json.loads(found.text)


def differences(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield a line for everything that the picture shows and that is so no longer."""
    for name in sorted(old.keys() ^ new.keys()):
        yield f"{name} is {'gone' if name in old else 'new'}"
    for name in sorted(old.keys() & new.keys()):
        before, now = old[name], new[name]
        for target in sorted(set(before["imports"]) ^ set(now["imports"])):
            gone = target in before["imports"]
            yield f"{name} {'no longer imports' if gone else 'now imports'} {target}"
        if abs(now["lines"] - before["lines"]) > GROWTH * before["lines"]:
            yield f"{name} had {before['lines']} lines and has {now['lines']}"


def main(arguments: list[str]) -> int:
    """Draw the picture or check it; return the exit code."""
    rooms = survey()
    layers(rooms)
    if arguments != ["--check"]:
        draw(rooms)
        return 0
    found = list(differences(drawn(), rooms))
    for difference in found:
        print(f"docs/architecture.svg: {difference}", file=sys.stderr)
    if found:
        print("draw it again with: python docs/draw_architecture.py", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
