"""Measure what a backend costs beside the measuring: per unit, and over one, two and three nodes.

    python benchmarks/bench_backends.py --into docs/performance.md
    python benchmarks/bench_backends.py --cells 100 --only local

Both backends measure the same sweeps of a bandit one after the other, with units of one cell: the
workers of this machine, and a Ray cluster of nodes of one core beside one that has none. In the
first part a cell takes no time, and all that is seen is what a unit costs; in the second one a cell
waits a quarter of a second and needs no processor, so that nodes which are simulated on one
machine do not take it from each other. What it takes to begin, until the first record, stands
apart.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from timing import bandit_sweep, options, print_or_put, repeated

from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Run, execute
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec

WAIT, NODES, BACKENDS = 0.25, (1, 2, 3), ("local", "ray")
HEADING = [
    "| backend | nodes | cells | begins after, s | ms a unit | units a second "
    f"| driver, ms a unit | units a second that wait {WAIT} s | of the most possible |",
    "| --- | --: | --: | --: | --: | --: | --: | --: | --: |",
]


@contextmanager
def overrides(backend: str, nodes: int) -> Iterator[tuple[str, ...]]:
    """Yield the options that choose a number of nodes."""
    if backend == "local":
        yield ()
        return
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "^"}
    os.environ |= {"RAY_AUTH_MODE": "disabled"}
    from ray.cluster_utils import Cluster

    little = {"object_store_memory": 80 * 2**20}
    head = {"num_cpus": 0, "include_dashboard": False, **little}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, **little)
        yield "execution.backend=ray", f"execution.address={cluster.address}"
    finally:
        cluster.shutdown()


def waiting(
    unit: dict[str, Any], cells: list[dict[str, Any]], **more: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the metrics of the first unit after a while, in which no processor is needed."""
    time.sleep(WAIT)
    yield from repeated(unit, cells, **more)


def costs(backend: str, measure: str, nodes: int, cells: int) -> tuple[float, float, float]:
    """Run the cells; return the seconds until the first record, of a unit from there on, and of
    the driver for each unit.
    """
    with tempfile.TemporaryDirectory() as name, overrides(backend, nodes) as words:
        grid = {"baseline": "none", "n": 4, "k": 2}
        path = bandit_sweep(Path(name), cells, grid, instances=2, pool=16)
        plan, first = make_plan(load_spec(path, words)), []

        def watch(event: str, payload: dict[str, Any]) -> None:
            if event == "cell_done" and not first:
                first.append(time.perf_counter())

        start, processor = time.perf_counter(), time.process_time()
        run = RunDirectory(Path(name) / "run")
        outcome = execute(Run(plan, run), jobs=nodes, measure=measure, on_event=watch)
        end = time.perf_counter()
        assert len(outcome.done) == cells, [record.error for record in run.failed()][:1]
        used = (time.process_time() - processor) / cells
    return first[0] - start, (end - first[0]) / (cells - 1), used


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--cells", type=int, default=1000, help="cells that take no time")
    parser.add_argument("--only", nargs="+", choices=BACKENDS, default=BACKENDS)
    arguments = parser.parse_args()
    # Where workers on other nodes find this file.
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    rows = []
    for nodes in NODES:
        for backend in arguments.only:
            begin, unit, driver = costs(backend, "timing:repeated", nodes, arguments.cells)
            few = max(20, arguments.cells // 8)
            _, wait, _ = costs(backend, "bench_backends:waiting", nodes, few)
            rows.append(
                f"| {backend} | {nodes} | {arguments.cells:,} | {begin:.1f} | {1e3 * unit:.1f} "
                f"| {1 / unit:.0f} | {1e3 * driver:.1f} | {1 / wait:.1f} "
                f"| {WAIT / wait / nodes:.0%} |"
            )
            print(rows[-1], file=sys.stderr, flush=True)
    print_or_put([*HEADING, *rows], arguments.into, "backends")
