"""The number of cells of a sweep, which is known, and bounded, before any of them is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from maxk_lab.errors import SpecError
from maxk_lab.sweeps.spec.blocks import Block, Parts
from maxk_lab.sweeps.spec.source import Source, TreePath

# All checks of a file go through the cells of one seed, which takes seconds for so many.
MOST_OF_A_SEED = 50_000
# A plan of so many takes minutes, and some gigabytes.
MOST_CELLS = 1_000_000


def check_counts(parts: Parts, source: Source) -> None:
    """Raise `SpecError` for a sweep of too many cells, at what makes it so large.

    The points that cannot run are among them.
    """
    shared = _lengths({"seeds": source.tree.get("seeds")}, ())
    vary = source.tree.get("vary")
    if isinstance(vary, Mapping):
        shared |= _lengths(vary, ("vary",))
    cells, largest = math.prod(shared.values()), dict(shared)
    if parts.blocks:
        counted = {name: _cells(block) for name, block in parts.blocks.items()}
        cells *= sum(of_block for of_block, _ in counted.values())
        for _, lengths in counted.values():
            largest |= lengths
    seeds = largest.pop(("seeds",))
    if cells // seeds > MOST_OF_A_SEED:
        place = max(largest, key=lambda path: largest[path])
        what = f"{cells // seeds:,} cells of each seed, more than the {MOST_OF_A_SEED:,}"
    elif cells > MOST_CELLS:
        largest["seeds",] = seeds
        place = max(largest, key=lambda path: largest[path])
        what = f"{cells:,} cells, more than the {MOST_CELLS:,}"
    else:
        return
    source.add(
        place,
        f"the sweep has {what} that it may have; "
        f"{largest[place]:,} values are given here: split the sweep",
    )
    raise SpecError(source.problems)


def _cells(block: Block) -> tuple[int, dict[TreePath, int]]:
    """Return the cells of a block at one seed, and how many values each of its settings has."""
    lengths: dict[TreePath, int] = {}
    points = 0
    for path, entry in block.entries:
        own = {(*path, name): len(values) for name, values in entry if isinstance(values, tuple)}
        points += math.prod(own.values())
        lengths |= own
    repeats = {} if block.study is None else block.study.repeats()
    lengths |= {(block.kind, *name.split(".")): count for name, count in repeats.items()}
    return points * math.prod(repeats.values()), lengths


def _lengths(lists: Mapping[str, Any], path: TreePath) -> dict[TreePath, int]:
    return {
        (*path, name): max(1, len(values)) if isinstance(values, list) else 1
        for name, values in lists.items()
    }
