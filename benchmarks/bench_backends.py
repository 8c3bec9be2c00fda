"""Measure what a backend costs beside the measuring: per unit, and over one, two and three nodes.

    python benchmarks/bench_backends.py
    python benchmarks/bench_backends.py --into docs/performance.md
    python benchmarks/bench_backends.py --cells 100 --only local

All backends measure the same sweeps of a bandit one after the other, with units of one cell. In the
first part a cell takes no time, and all that is seen is what a unit costs; in the second one a cell
waits a quarter of a second and needs no processor, so that nodes which are simulated on one
machine do not take it from each other. What it takes to begin, until the first record, stands
apart. `--into` puts the table between the marks of a page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timing import print_or_put

from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

HERE = Path(__file__).parent
SWEEP = """\
name: sweep
seeds: {seeds}
environment: {{name: bandit, arms: 4}}
tracking: {{wandb: disabled}}
gradient:
  instances: 2
  pool: 16
  grid: {{estimator: maxk, baseline: none, n: 4, k: 2}}
"""
WAIT = 0.25
NODES = (1, 2, 3)
_METRICS: list[dict[str, Any]] = []
# What has to be set in the sweep for a place; `{share}` stands for the units of a node.
Overrides = tuple[str, ...]


@contextmanager
def local(nodes: int) -> Iterator[Overrides]:
    """Yield what chooses the workers of this machine, one for every node."""
    yield ()


@contextmanager
def ray(nodes: int) -> Iterator[Overrides]:
    """Yield what chooses a Ray cluster of so many nodes of one core, beside one that has none."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "^"}
    os.environ |= {"RAY_AUTH_MODE": "disabled"}
    from ray.cluster_utils import Cluster

    little = {"object_store_memory": 80 * 2**20}
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **little}
    )
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, **little)
        yield "execution.backend=ray", f"execution.address={cluster.address}"
    finally:
        cluster.shutdown()


@contextmanager
def slurm(nodes: int) -> Iterator[Overrides]:
    """Yield what chooses so many nodes of a Slurm of three, one job with its share on each."""
    from slurm.cluster import running_cluster

    with running_cluster() as cluster:
        os.environ |= cluster.env
        # A node has two cores.
        yield (
            *("execution.backend=slurm", "execution.partition=main", "execution.time=30min"),
            *("execution.cpus=2", f"execution.array={nodes}", "execution.pack={share}"),
        )


PLACES: Mapping[str, Callable[[int], AbstractContextManager[Overrides]]] = {
    "local": local,
    "ray": ray,
    "slurm": slurm,
}


@dataclass(frozen=True)
class Cost:
    """The costs of a run: seconds until its first record, from there on, and of the driver."""

    backend: str
    what: str
    nodes: int
    cells: int
    begin: float
    rest: float
    processor: float

    @property
    def rate(self) -> float:
        """The cells per second once the first has a record."""
        return (self.cells - 1) / self.rest


def instant(
    unit: dict[str, Any], cells: list[dict[str, Any]], *, event: Callable[..., None], **_: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every cell the metrics of the first one that this worker has measured."""
    from maxk_lab.studies.gradient.work import measure

    if not _METRICS:
        for _cell, found in measure(unit, cells[:1], cache=None, event=event):
            assert isinstance(found, dict)
            _METRICS.append(found)
    for cell in cells:
        yield cell["id"], _METRICS[0]


def waiting(
    unit: dict[str, Any], cells: list[dict[str, Any]], *, event: Callable[..., None], **_: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Do the same after a while, in which no processor is needed."""
    time.sleep(WAIT)
    yield from instant(unit, cells, event=event)


def cost(backend: str, what: str, nodes: int, cells: int, overrides: Overrides) -> Cost:
    """Run so many cells, and return what that cost."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "sweep.yaml"
        path.write_text(SWEEP.format(seeds=list(range(cells))), encoding="utf-8")
        shared = [one.replace("{share}", str(-(-cells // nodes))) for one in overrides]
        plan = make_plan(load_spec(path, shared))
        first: list[float] = []

        def watch(event: str, payload: dict[str, Any]) -> None:
            if event == "cell_done" and not first:
                first.append(time.perf_counter())

        start, processor = time.perf_counter(), time.process_time()
        run = RunDirectory(Path(name) / "run")
        outcome = execute(plan, run, jobs=nodes, measure=f"bench_backends:{what}", on_event=watch)
        end = time.perf_counter()
        assert len(outcome.done) == cells, [record.error for record in run.all_records()][:1]
        used = time.process_time() - processor
    return Cost(backend, what, nodes, cells, first[0] - start, end - first[0], used)


def measured(only: list[str], cells: int) -> Iterator[Cost]:
    """Yield the costs in all places, by their number of nodes."""
    for nodes in NODES:
        for backend in only:
            with PLACES[backend](nodes) as overrides:
                few = max(20, cells // 8)
                for what, count in (("instant", cells), ("waiting", few)):
                    found = cost(backend, what, nodes, count, overrides)
                    print(json.dumps(vars(found)), file=sys.stderr, flush=True)
                    yield found


def table(costs: list[Cost]) -> list[str]:
    """Return the lines of the table in markdown."""
    rows = [
        "| backend | nodes | cells | begins after, s | ms a unit | units a second "
        f"| driver, ms a unit | units a second that wait {WAIT} s | of the most possible |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    waits = {(one.backend, one.nodes): one for one in costs if one.what == "waiting"}
    for one in costs:
        if one.what == "instant":
            wait = waits[one.backend, one.nodes]
            columns = [
                *(one.backend, str(one.nodes), f"{one.cells:,}", f"{one.begin:.1f}"),
                *(f"{1e3 / one.rate:.1f}", f"{one.rate:.0f}"),
                f"{1e3 * one.processor / one.cells:.1f}",
                *(f"{wait.rate:.1f}", f"{wait.rate * WAIT / wait.nodes:.0%}"),
            ]
            rows.append(f"| {' | '.join(columns)} |")
    return rows


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, metavar="PAGE", help="a page with the two marks")
    parser.add_argument("--cells", type=int, default=1000, help="cells that take no time")
    parser.add_argument("--only", nargs="+", choices=list(PLACES), default=list(PLACES))
    given = parser.parse_args()
    # Where the Slurm of the tests is found.
    sys.path.append(str(HERE.parent / "tests" / "fixtures"))
    # Where workers on other nodes find this file.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    rows = table(list(measured(given.only, given.cells)))
    print_or_put(rows, given.into, "backends")


if __name__ == "__main__":
    main()
