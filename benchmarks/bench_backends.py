"""Measure what a backend costs beside the measuring: per unit, and over one, two and three nodes.

    python benchmarks/bench_backends.py --into docs/performance.md
    python benchmarks/bench_backends.py --cells 100 --only local

All backends measure the same sweeps of a bandit one after the other, with units of one cell. In the
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
from typing import Any, NamedTuple

from timing import bandit_sweep, options, print_or_put, repeated

from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

HERE = Path(__file__).parent
WAIT, NODES = 0.25, (1, 2, 3)


@contextmanager
def overrides(backend: str, nodes: int, share: int) -> Iterator[tuple[str, ...]]:
    """Yield what chooses so many nodes, each with its share of the units.

    The workers of this machine; a Ray cluster of nodes of one core beside one that has none; nodes
    of a Slurm of three, with two cores each and one job on each.
    """
    if backend == "local":
        yield ()
    elif backend == "ray":
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
    else:
        from slurm.cluster import running_cluster

        with running_cluster() as running:
            os.environ |= running.env
            yield (
                *("execution.backend=slurm", "execution.partition=main", "execution.time=30min"),
                *("execution.cpus=2", f"execution.array={nodes}", f"execution.pack={share}"),
            )


def waiting(
    unit: dict[str, Any], cells: list[dict[str, Any]], **more: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the metrics of the first unit after a while, in which no processor is needed."""
    time.sleep(WAIT)
    yield from repeated(unit, cells, **more)


class Cost(NamedTuple):
    """The costs of a run: seconds until its first record, of a unit from there on, and of the
    driver for each unit.
    """

    begin: float
    unit: float
    driver: float


def cost(backend: str, measure: str, nodes: int, cells: int) -> Cost:
    """Run so many cells, and return what that cost."""
    with (
        tempfile.TemporaryDirectory() as name,
        overrides(backend, nodes, -(-cells // nodes)) as words,
    ):
        grid = {"baseline": "none", "n": 4, "k": 2}
        path = bandit_sweep(Path(name), cells, grid, instances=2, pool=16)
        plan, first = make_plan(load_spec(path, words)), []

        def watch(event: str, payload: dict[str, Any]) -> None:
            if event == "cell_done" and not first:
                first.append(time.perf_counter())

        start, processor = time.perf_counter(), time.process_time()
        run = RunDirectory(Path(name) / "run")
        outcome = execute(plan, run, jobs=nodes, measure=measure, on_event=watch)
        end = time.perf_counter()
        assert len(outcome.done) == cells, [record.error for record in run.all_records()][:1]
        used = (time.process_time() - processor) / cells
    return Cost(first[0] - start, (end - first[0]) / (cells - 1), used)


if __name__ == "__main__":
    parser = options(__doc__)
    backends = ["local", "ray", "slurm"]
    parser.add_argument("--cells", type=int, default=1000, help="cells that take no time")
    parser.add_argument("--only", nargs="+", choices=backends, default=backends)
    arguments = parser.parse_args()
    # Where the Slurm of the tests is found.
    sys.path.append(str(HERE.parent / "tests" / "fixtures"))
    # Where workers on other nodes find this file.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    rows = [
        "| backend | nodes | cells | begins after, s | ms a unit | units a second "
        f"| driver, ms a unit | units a second that wait {WAIT} s | of the most possible |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for nodes in NODES:
        for backend in arguments.only:
            one = cost(backend, "timing:repeated", nodes, arguments.cells)
            wait = cost(backend, "bench_backends:waiting", nodes, max(20, arguments.cells // 8))
            columns = [
                *(backend, str(nodes), f"{arguments.cells:,}", f"{one.begin:.1f}"),
                *(f"{1e3 * one.unit:.1f}", f"{1 / one.unit:.0f}", f"{1e3 * one.driver:.1f}"),
                *(f"{1 / wait.unit:.1f}", f"{WAIT / wait.unit / nodes:.0%}"),
            ]
            rows.append(f"| {' | '.join(columns)} |")
            print(rows[-1], file=sys.stderr, flush=True)
    print_or_put(rows, arguments.into, "backends")
