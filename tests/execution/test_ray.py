"""Ray: a cluster without a shared folder, its nodes and devices, and what is left when it ends."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray_cluster import pool_workers
from run_processes import alive, wait_until

from maxk_lab.errors import RefusedError

# One cluster for all tests of a group.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]
SCRIPT = Path(__file__).parent / "run_fake.py"


def on_ray(nodes):
    return "execution.backend=ray", f"execution.address={nodes.address}"


def test_functions_of_the_current_folder_travel_and_nothing_else_in_it_runs(
    nodes, go, run, tmp_path
):
    (tmp_path / "mine.py").write_text("from half import measure\n")
    (tmp_path / "half.py").write_text("from fake_measures import quick as measure\n")
    for library in ("yaml", "psutil", "six"):
        (tmp_path / f"{library}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    outcome = go("mine:measure", *on_ray(nodes), jobs=2, only="seed=0")
    assert len(outcome.done) == 4, [r.error for r in run.failed()]
    assert not (tmp_path / "ran").exists()


@pytest.mark.deep
def test_a_run_that_is_killed_leaves_no_worker_and_goes_on_later(nodes, go, small, run):
    execution = f"execution: {{backend: ray, address: '{nodes.address}'}}\n"
    Path("on_ray.yaml").write_text(Path(small).read_text() + execution)
    program = subprocess.Popen(
        [sys.executable, str(SCRIPT), "on_ray.yaml", str(run.root), "stuck", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: len(pool_workers()) == 4)  # two workers, each with its guard
    before = pool_workers()
    program.kill()
    out, errors = program.communicate(timeout=100)
    assert (program.returncode, out) == (-signal.SIGKILL, ""), errors
    wait_until(lambda: not any(map(alive, before)))
    assert len(go("quick", *on_ray(nodes), jobs=2).done) == 8


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
def test_no_cluster_and_what_no_node_has_are_errors(go, monkeypatch, setting, variable, why):
    pytest.importorskip("ray", reason="not installed: pip install 'maxk-lab[ray]'")
    with socket.create_server(("127.0.0.1", 0)) as server:  # it accepts, and answers nothing
        silent = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", variable.replace("SILENT", silent))
        since = time.monotonic()
        with pytest.raises(RefusedError, match=why):
            go("quick", "execution.backend=ray", f"execution.{setting}", jobs=2)
    assert time.monotonic() - since < 10 or "gpus" in setting
