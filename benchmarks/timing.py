"""What benchmarks share: calls timed in turns, fresh interpreters, and tables put into pages."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

NARROW = {
    "embed_dim": 64,
    "num_encoder_layers": 2,
    "num_heads": 4,
    "feedforward_hidden": 128,
    "dtype": "float32",
}
WIDE = NARROW | {
    "embed_dim": 128,
    "num_encoder_layers": 3,
    "num_heads": 8,
    "feedforward_hidden": 512,
}
PROGRAM = "from maxk_lab.cli import main; main()"
# The peak of a program is its own in /proc; that of `getrusage` may be of who started it.
_COSTS = """
import atexit, resource, sys
def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    peak = int(status["VmHWM"].split()[0])
    print("costs", used.ru_utime + used.ru_stime, peak, file=sys.stderr)
atexit.register(tell)
"""
_METRICS: dict[tuple[Any, ...], dict[str, Any]] = {}


def medians(
    functions: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    processor: bool = False,
    warm: int = 2,
) -> dict[str, float]:
    """Return median seconds per call, in turns, so that a slow moment hits all alike.

    By the clock, or of the processor alone, which other processes disturb less; not counted are the
    first turns, `warm`, which fill caches.
    """
    now = time.process_time if processor else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(warm + rounds):
        for name, function in functions.items():
            start = now()
            function()
            if turn >= warm:
                times[name].append(now() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


class Cost(NamedTuple):
    """The cost of a program: seconds of the processor and the peak in MB."""

    seconds: float
    peak: float


def cost(code: str, *arguments: str) -> Cost:
    """Return what a fresh interpreter costs that runs this code; it tells its own costs."""
    done = subprocess.run(
        [sys.executable, "-c", _COSTS + code, *arguments],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    last = next(line for line in reversed(done.stderr.splitlines()) if line.startswith("costs"))
    seconds, peak = map(float, last.split()[1:])
    return Cost(seconds, peak / 2**10)


def made(name: str, settings: Mapping[str, Any], policy: Mapping[str, Any]) -> Any:
    """Return an environment with defaults except for these settings and policy settings."""
    from maxk_lab.environments import make_environment
    from maxk_lab.environments.catalogue import ENVIRONMENTS

    row = ENVIRONMENTS.get(name)
    return make_environment(
        {**row.settings.defaults(), "name": name, **settings},
        {**row.policy_settings.defaults(), **policy},
    )


def bandit_sweep(folder: Path, seeds: int, grid: Mapping[str, Any], **gradient: Any) -> Path:
    """Write a sweep of the bandit with `seeds` seeds, and return the file."""
    path = folder / "sweep.yaml"
    content = {
        "name": "sweep",
        "seeds": list(range(seeds)),
        "environment": {"name": "bandit", "arms": 4},
        "gradient": {"pool": 64, **gradient, "grid": {"estimator": "maxk", **grid}},
        "tracking": {"wandb": "disabled"},
    }
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def repeated(
    unit: dict[str, Any], cells: list[dict[str, Any]], *, event: Callable[..., None], **_: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every unit the metrics of the first one that this worker has measured."""
    from maxk_lab.studies.gradient.work import measure

    points = {cell["id"]: tuple(cell[name] for name in ("baseline", "n", "k")) for cell in cells}
    if not _METRICS:
        for cell_id, metrics in measure(unit, cells, cache=None, event=event):
            assert isinstance(metrics, dict), metrics
            _METRICS[points[cell_id]] = metrics
    event("cells", {"done": len(cells), "of": len(cells)})
    for cell_id, point in points.items():
        yield cell_id, _METRICS[point]


def print_or_put(lines: Sequence[str], into: Path | None, name: str) -> None:
    """Print the lines, or put them into a page between `name: begin` and `name: end`.

    Exits where the page does not have these two marks.
    """
    if into is None:
        print(*lines, sep="\n")
        return
    begin, end = (f"<!-- {name}: {word} -->" for word in ("begin", "end"))
    page = into.read_text(encoding="utf-8")
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise SystemExit(f"the page needs one line {begin} and, below it, one line {end}")
    before, after = page.split(begin)[0], page.split(end)[1]
    into.write_text(before + "\n".join([begin, "", *lines, "", end]) + after, encoding="utf-8")


def options(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option that puts a table into a page."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, metavar="PAGE", help="a page with the two marks")
    return parser
