"""Ray: a cluster without a shared folder, its nodes and devices, and what is left when it ends."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ray_cluster import Nodes, pool_workers
from run_processes import alive, logged, wait_until

from maxk_lab.errors import RefusedError
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Outcome, Run, execute
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.load import load_spec

# One cluster for all tests of a group.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]
SCRIPT = Path(__file__).parent / "run_fake.py"


def plan_on(nodes: Nodes, path: str, *overrides: str) -> Plan:
    on_ray = ("execution.backend=ray", f"execution.address={nodes.address}")
    return make_plan(load_spec(path, [*on_ray, *overrides]))


def measured(plan: Plan, run: RunDirectory, measure: str | None = None, **options: Any) -> Outcome:
    named = None if measure is None else f"fake_measures:{measure}"
    return execute(Run(plan, run), jobs=2, measure=named, **{"on_event": logged(run), **options})


def test_functions_of_the_current_folder_travel_and_nothing_else_in_it_runs(
    nodes: Nodes, small: str, run: RunDirectory, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("from half import measure\n")
    (tmp_path / "half.py").write_text("from fake_measures import quick as measure\n")
    for library in ("yaml", "psutil", "six"):
        (tmp_path / f"{library}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    plan = plan_on(nodes, small)
    outcome = execute(Run(plan, run), jobs=2, measure="mine:measure", only="seed=0")
    assert len(outcome.done) == 4, [r.error for r in run.failed()]
    assert not (tmp_path / "ran").exists()


@pytest.mark.deep
def test_a_run_that_is_killed_leaves_no_worker_and_goes_on_later(
    nodes: Nodes, small: str, run: RunDirectory
) -> None:
    plan = plan_on(nodes, small)
    execution = f"execution: {{backend: ray, address: '{nodes.address}'}}\n"
    Path("on_ray.yaml").write_text(Path("sweep.yaml").read_text() + execution)
    program = subprocess.Popen(
        [sys.executable, str(SCRIPT), "on_ray.yaml", str(run.root), "stuck", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: len(pool_workers()) == 2)
    before = pool_workers()
    program.kill()
    out, errors = program.communicate(timeout=100)
    assert (program.returncode, out) == (-signal.SIGKILL, ""), errors
    wait_until(lambda: not any(map(alive, before)))
    assert len(measured(plan, run, "quick").done) == 8


@pytest.mark.parametrize(
    ("setting", "variable", "why"),
    [
        ("address=127.0.0.1:1", "", r"no Ray cluster at 127\.0\.0\.1:1: .*refused"),
        ("timeout=5", "127.0.0.1:1", r"no Ray cluster at 127\.0\.0\.1:1: .*refused"),
        ("address=auto", "127.0.0.1:1", r"no Ray cluster at 127\.0\.0\.1:1: .*refused"),
        ("timeout=5", "localhost", r"no Ray cluster at localhost: Invalid address"),
        ("timeout=5", "SILENT", r"no Ray cluster at 127\.0\.0\.1:\d+: timed out"),
        pytest.param(
            *("gpus=9", "", r"lacks what a unit needs: 1 core, execution.gpus 9, memory 0 B"),
            marks=pytest.mark.deep,  # it starts a cluster
        ),
    ],
)
def test_no_cluster_and_what_no_node_has_are_errors(
    small: str, run: RunDirectory, monkeypatch: pytest.MonkeyPatch,
    setting: str, variable: str, why: str,
) -> None:  # fmt: skip
    if importlib.util.find_spec("ray") is None:
        pytest.skip("not installed: pip install 'maxk-lab[ray]'")
    with socket.create_server(("127.0.0.1", 0)) as server:  # it accepts, and answers nothing
        silent = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", variable.replace("SILENT", silent))
        plan = make_plan(load_spec(small, ["execution.backend=ray", f"execution.{setting}"]))
        since = time.monotonic()
        with pytest.raises(RefusedError, match=why):
            measured(plan, run, "quick")
    assert time.monotonic() - since < 10 or "gpus" in setting
