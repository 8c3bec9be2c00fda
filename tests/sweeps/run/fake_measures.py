"""Stand-ins for the function that measures a unit: fast, repeatable, failing as real ones do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hand_written import gradient_metrics

from maxk_lab.seeds import derive_seed

Cells = list[dict[str, Any]]
Results = Iterator[tuple[str, dict[str, Any] | Exception]]


def _metrics(cell: dict[str, Any]) -> dict[str, Any]:
    return gradient_metrics(cell, value=derive_seed(cell["id"]) / 3e17)


def quick(unit: dict[str, Any], cells: Cells, *, event: Callable[..., None], **_: Any) -> Results:
    event("scores", {"done": 1, "of": 1})
    for cell in cells:
        yield cell["id"], _metrics(cell)


def slow(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    for cell in cells:
        time.sleep(0.3)
        yield cell["id"], _metrics(cell)


def stuck(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    yield cells[0]["id"], _metrics(cells[0])
    time.sleep(600)


def threads(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    for cell in cells:
        told = {name: os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        yield cell["id"], gradient_metrics(cell, undefined=told)


def bad_cell(unit: dict[str, Any], cells: Cells, *, cache: Path, **_: Any) -> Results:
    """Cells of baseline none fail, one by one; with the file `mended` in the cache they do not."""
    for cell in cells:
        failing = cell["baseline"] == "none" and not (cache / "mended").exists()
        yield cell["id"], ZeroDivisionError("no variance here") if failing else _metrics(cell)


def bad_pool(
    unit: dict[str, Any], cells: Cells, *, cache: Path, event: Callable[..., None], **_: Any
) -> Results:
    """The units of seed 1 fail before their first cell."""
    if unit["seed"] == 1:
        raise RuntimeError("no pool for seed 1")
    return quick(unit, cells, cache=cache, event=event)


def dies(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """The worker of seed 1 dies after its first cell, as one killed for its memory does."""
    yield cells[0]["id"], _metrics(cells[0])
    time.sleep(0.2)
    if unit["seed"] == 1:
        os._exit(9)
    for cell in cells[1:]:
        yield cell["id"], _metrics(cell)


def forgets(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    yield cells[0]["id"], _metrics(cells[0])


def timed(unit: dict[str, Any], cells: Cells, *, event: Callable[..., None], **_: Any) -> Results:
    """Metrics with what a clock said, which is another thing on every run."""
    for cell in cells:
        event("training", {"step": 1, "steps": 1})
        yield (
            cell["id"],
            _metrics(cell) | {"timings": {"evaluations_seconds": [time.time()], "seconds": -1}},
        )


def not_json(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    for cell in cells:
        yield cell["id"], gradient_metrics(cell, value=float("nan"))
