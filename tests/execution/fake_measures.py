"""Stand-ins for the function that measures a unit: fast, repeatable, failing as real ones do."""

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from hand_written import gradient_metrics

from maxk_lab.catalogue import load
from maxk_lab.files import write_atomically
from maxk_lab.leaving import Leaving, leaving
from maxk_lab.seeds import derive_seed

# The steps of `trains`, and how long each takes.
STEPS, STEP_SECONDS = 8, float(os.environ.get("STEP_SECONDS", "0.01"))


def _metrics(cell):
    return gradient_metrics(cell, value=derive_seed(cell["id"]) / 3e17)


class Turn(NamedTuple):
    """The turn of a cell, the `number`-th of its unit that is measured now."""

    cell: dict[str, Any]
    number: int
    cache: Path
    event: Callable[..., None]

    def of(self, baseline, n):
        return (self.cell["baseline"], self.cell["n"]) == (baseline, n)


def each(act, order=None):
    """A function that does something before each cell; a result stands for the cell's metrics."""

    def measure(unit, cells, *, cache, event, **_):
        for number, cell in enumerate(sorted(cells, key=order) if order else cells):
            yield cell["id"], act(Turn(cell, number, cache, event)) or _metrics(cell)

    return measure


def _last(cell):
    """An order in which centred at n = 8 comes last."""
    return cell["baseline"] == "centred", cell["n"]


def _in_c():
    """Stay in C code with the interpreter locked: no thread and no handler runs."""
    ctypes.PyDLL(None).sleep(600)


def _raises(error):
    raise error


quick = each(lambda turn: turn.event("scores", {"done": 1, "of": 1}))
slow = each(lambda turn: time.sleep(0.3))
stuck = each(lambda turn: turn.number and time.sleep(600))
not_json = each(lambda turn: gradient_metrics(turn.cell, value=float("nan")))
leaves_unasked = each(lambda turn: turn.number and _raises(Leaving()))
closes_generators = each(lambda turn: turn.number and _raises(GeneratorExit("of the user's own")))
# The last cell of a unit ends every worker that measures it, or starts a process that takes 400 MB.
deadly = each(lambda turn: turn.of("centred", 8) and os._exit(9), _last)
GREEDY = [sys.executable, "-c", "taken = b'x' * 4 * 10**8; import time; time.sleep(30)"]
greedy = each(lambda turn: turn.of("centred", 8) and subprocess.check_call(GREEDY), _last)
one_stuck = each(lambda turn: turn.of("none", 4) and _in_c(), itemgetter("n", "baseline"))


def forgets(unit, cells, **_):
    yield cells[0]["id"], _metrics(cells[0])


def forks(unit, cells, **_):
    """A copy of the process comes back, too."""
    os.fork()
    for cell in cells:
        yield cell["id"], _metrics(cell)


# What fails in its own way at each seed.
FAULTY = (
    quick,
    each(lambda turn: _raises(RuntimeError("no pool"))),
    closes_generators,
    forgets,
    not_json,
    leaves_unasked,
    each(lambda turn: os.kill(os.getpid(), signal.SIGKILL)),
    each(lambda turn: _in_c()),
    forks,
)


def faulty(unit, cells, **options):
    return FAULTY[unit["seed"]](unit, cells, **options)


@each
def edited(turn):
    """Somebody edits a module of the user's own while the second cell is measured."""
    if turn.number == 1:
        Path("helper.py").write_text("def zero():\n    return 1.0\n")


@each
def long_error(turn):
    """Prints a line, and fails with an endless one."""
    print("a line of the user's own", flush=True)
    raise ValueError("x" * 10_000_000)


@each
def trains(turn):
    """Takes steps that depend on each other, with a checkpoint of every second step."""
    path = turn.cache / f"training-{turn.cell['id']}.pt"
    begun, value = json.loads(path.read_bytes()) if path.exists() else (0, 0)
    for step in range(begun + 1, STEPS + 1):
        time.sleep(STEP_SECONDS)
        value = derive_seed(turn.cell["id"], step, value)
        turn.event("training", {"step": step, "steps": STEPS})
        stops = leaving()
        if stops or step % 2 == 0:
            write_atomically(path, json.dumps([step, value]).encode())
        if stops:
            raise Leaving
    return gradient_metrics(turn.cell, value=value / 3e17)


@each
def bad_cell(turn):
    """Cells of baseline none fail, one by one."""
    return ZeroDivisionError("no variance here") if turn.cell["baseline"] == "none" else None


@each
def waits_for_a_kill(turn):
    """Measures seed 0 at once, and the other seeds when the cache holds the file `killed`."""
    while turn.cell["seed"] != 0 and not (turn.cache / "killed").exists():
        time.sleep(0.05)


@each
def stuck_in_c(turn):
    """Stuck with a process of its own beside it, whose number is kept in the cache."""
    if turn.number == 0:
        beside = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        turn.cache.mkdir(exist_ok=True)
        (turn.cache / f"beside-{turn.cell['seed']}").write_text(str(beside.pid))
    else:
        _in_c()


@each
def rewarded(turn):
    """Calls the reward of the user."""
    (path,) = turn.cell["environment"]["rewards"]
    load(path)(prompts=["a"], completions=["b"])


@each
def timed(turn):
    """Metrics with what a clock said, which is another thing on every run."""
    turn.event("training", {"step": 1, "steps": 1})
    return _metrics(turn.cell) | {"timings": {"evaluations_seconds": [time.time()], "seconds": -1}}


@each
def sees(turn):
    """Metrics with the devices that the worker sees."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
    return gradient_metrics(turn.cell, undefined={"sees": seen})


@each
def drawing(turn):
    """Draws from the generator of the process, moves away, and changes the type of numbers."""
    torch = sys.modules["torch"]
    state = {"drawn": str(random.random()), "folder": Path.cwd().name * (turn.number == 0)}
    state["dtype"] = str(torch.get_default_dtype())
    os.chdir("/")
    torch.set_default_dtype(torch.float64)
    state |= {name: os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    return gradient_metrics(turn.cell, undefined=state)
