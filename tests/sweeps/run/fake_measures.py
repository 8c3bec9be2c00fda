"""Stand-ins for the function that measures a unit: fast, repeatable, failing as real ones do."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hand_written import gradient_metrics

from maxk_lab.calls import Leaving, called, leaving
from maxk_lab.seeds import derive_seed

Cells = list[dict[str, Any]]
Results = Iterator[tuple[str, dict[str, Any] | Exception]]


def _metrics(cell: dict[str, Any]) -> dict[str, Any]:
    return gradient_metrics(cell, value=derive_seed(cell["id"]) / 3e17)


def quick(unit: dict[str, Any], cells: Cells, *, event: Callable[..., None], **_: Any) -> Results:
    event("scores", {"done": 1, "of": 1})
    for cell in cells:
        yield cell["id"], _metrics(cell)


def edited(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """Somebody edits a module of the user's own while the second cell is measured."""
    for number, cell in enumerate(cells):
        if number == 1:
            Path("helper.py").write_text("def zero():\n    return 1.0\n")
        yield cell["id"], _metrics(cell)


def slow(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    for cell in cells:
        time.sleep(0.3)
        yield cell["id"], _metrics(cell)


def counted(unit: dict[str, Any], cells: Cells, *, cache: Path, **_: Any) -> Results:
    """Slow, with a line in a file of the cache for each cell that is begun."""
    for cell in cells:
        cache.mkdir(exist_ok=True)
        with (cache / "begun").open("a") as file:
            file.write(f"{cell['id']}\n")
        time.sleep(0.15)
        yield cell["id"], _metrics(cell)


def unhurried(unit: dict[str, Any], cells: Cells, *, cache: Path, **_: Any) -> Results:
    """The same, with a second for every cell of the unit that is begun first."""
    first = not (cache / "begun").exists()
    for result in counted(unit, cells, cache=cache):
        yield result
        time.sleep(first)


def stuck(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    yield cells[0]["id"], _metrics(cells[0])
    time.sleep(600)


def _takes_memory() -> None:
    """Take 400 MB, page by page, and keep them for a while."""
    taken = bytearray(400 * 10**6)
    taken[::4096] = b"x" * len(taken[::4096])
    time.sleep(30)


def greedy(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """One cell takes much memory, and is not the first of its unit."""
    for cell in sorted(cells, key=lambda cell: (cell["baseline"] == "centred", cell["n"])):
        if (cell["baseline"], cell["n"]) == ("centred", 8) and cell["seed"] == 1:
            _takes_memory()
        yield cell["id"], _metrics(cell)


def greedy_child(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """A process that the first cell starts takes much memory."""
    if unit["seed"] == 1:
        script = "x = bytearray(400 * 10**6); x[::4096] = b'x' * len(x[::4096])"
        subprocess.run([sys.executable, "-c", f"{script}; import time; time.sleep(100)"])
    for cell in cells:
        yield cell["id"], _metrics(cell)


def greedy_once(unit: dict[str, Any], cells: Cells, *, cache: Path, **_: Any) -> Results:
    """Each unit takes much memory the first time that it is measured."""
    for cell in cells:
        if not (mark := cache / f"greedy-{unit['seed']}").exists():
            cache.mkdir(exist_ok=True)
            mark.touch()
            _takes_memory()
        yield cell["id"], _metrics(cell)


def deadly_thrice(unit: dict[str, Any], cells: Cells, *, cache: Path, **_: Any) -> Results:
    """Each unit ends the first three workers that measure it."""
    cache.mkdir(exist_ok=True)
    tries = len(list(cache.glob(f"try-{unit['seed']}-*")))
    (cache / f"try-{unit['seed']}-{tries}").touch()
    if tries < 3:
        os._exit(9)
    for cell in cells:
        yield cell["id"], _metrics(cell)


def sees(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """Metrics with the devices that the worker sees, and with its process."""
    time.sleep(0.3)
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
    for cell in cells:
        yield cell["id"], gradient_metrics(cell, undefined={"sees": seen, "pid": str(os.getpid())})


def patient(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """Waits to be asked to leave, after the first cell."""
    for number, cell in enumerate(cells):
        while number == 1:
            time.sleep(0.02)
            if leaving():
                raise Leaving
        yield cell["id"], _metrics(cell)


def leaves_unasked(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    yield cells[0]["id"], _metrics(cells[0])
    raise Leaving


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


def deadly(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """One cell ends every worker that measures it, and is not the first of its unit."""
    for cell in sorted(cells, key=lambda cell: (cell["baseline"] == "centred", cell["n"])):
        if (cell["baseline"], cell["n"]) == ("centred", 8):
            os._exit(9)
        yield cell["id"], _metrics(cell)


def deadly_pool(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """The units of seed 1 are killed before their first cell."""
    if unit["seed"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    for cell in cells:
        yield cell["id"], _metrics(cell)


def deadly_first(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """The first cell of each unit ends every worker, before any other has a record."""
    for cell in sorted(cells, key=lambda cell: (cell["n"], cell["baseline"])):
        if (cell["baseline"], cell["n"]) == ("centred", 4):
            os._exit(9)
        yield cell["id"], _metrics(cell)


def leaves(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """The units of seed 1 try to end the program; sys.exit(0) would end it as if all were well."""
    if unit["seed"] == 1:
        sys.exit(0)
    for cell in cells:
        yield cell["id"], _metrics(cell)


def closes_generators(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    yield cells[0]["id"], _metrics(cells[0])
    raise GeneratorExit("of the user's own")


def interrupts(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    yield cells[0]["id"], _metrics(cells[0])
    raise KeyboardInterrupt


def forks(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """A copy of the process comes back, too."""
    os.fork()
    for cell in cells:
        yield cell["id"], _metrics(cell)


def _in_c() -> None:
    """Compute in C code for ever, with the interpreter locked: no thread and no handler runs."""
    re.match("(a+)+$", "a" * 60 + "b")


def stuck_in_c(unit: dict[str, Any], cells: Cells, *, cache: Path, **_: Any) -> Results:
    """Stuck with a process of its own beside it, whose number is kept in the cache."""
    beside = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    cache.mkdir(exist_ok=True)
    (cache / f"beside-{unit['seed']}").write_text(str(beside.pid))
    yield cells[0]["id"], _metrics(cells[0])
    _in_c()


def one_stuck(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """One cell of each unit is stuck in C code; it is the second that is measured."""
    for cell in sorted(cells, key=lambda cell: (cell["n"], cell["baseline"])):
        if (cell["baseline"], cell["n"]) == ("none", 4):
            _in_c()
        yield cell["id"], _metrics(cell)


def stuck_call(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """The units of seed 1 are stuck in a call of a reward function."""
    if unit["seed"] == 1:
        with called("reward function 'mine:reward'"):
            _in_c()
    for cell in cells:
        yield cell["id"], _metrics(cell)


def prints(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    print("a line of the user's own", flush=True)
    for cell in cells:
        yield cell["id"], _metrics(cell)


def long_error(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    raise ValueError("x" * 10_000_000)
    yield


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


def wandering(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """Leaves the folder in which it was started, as a function of a user may."""
    os.chdir("/")
    for cell in cells:
        yield cell["id"], _metrics(cell)


def drawing(unit: dict[str, Any], cells: Cells, **_: Any) -> Results:
    """Draws from the generator of the process, as a reward function may, and changes its mask."""
    told = {"drawn": str(random.random()), "mask": str(os.umask(0o007))}
    told |= {name: os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    for cell in cells:
        yield cell["id"], gradient_metrics(cell, undefined=told)


def two_share_a_device(unit: dict[str, Any], cells: Cells, *, cache: Path, **_: Any) -> Results:
    """Waits until another unit is at work, too, and tells which CUDA devices the worker sees."""
    (cache / f"at-work-{unit['seed']}").touch()
    end = time.monotonic() + 60
    while len(list(cache.glob("at-work-*"))) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    for cell in cells:
        told = {"devices": os.environ.get("CUDA_VISIBLE_DEVICES", "all")}
        yield cell["id"], gradient_metrics(cell, undefined=told)
