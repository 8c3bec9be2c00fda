"""Processes forked for each unit: what they share, what they do not, and that none is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_processes import alive, wait_until
from sweep_files import SMALL

from maxk_lab.errors import RefusedError
from maxk_lab.execution.execute import Outcome, execute
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.supervisor import fork_server, local
from maxk_lab.execution.supervisor.fork_server import ForkServer
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec

BANDIT = """\
name: quickly
seeds: [0, 1]
environment: {name: bandit, arms: 4}
gradient: {instances: 2, pool: 32, grid: {estimator: maxk, baseline: centred, n: 4, k: 2}}
"""
ENDLESS = """\
name: endless
seeds: [0]
environment:
  {name: toy_llm, task: modular, vocab_size: 3, max_length: 2, rewards: ["own_reward:reward"]}
gradient: {instances: 2, pool: 32, grid: {estimator: maxk, baseline: centred, n: 4, k: 2}}
execution: {timeout: 5}
"""
# A module of the user's own that leaves a process behind, and a line for each import.
OWN = """
import os
import subprocess
import threading
from pathlib import Path

from fake_measures import quick

Path("beside").write_text(str(subprocess.Popen(["sleep", "600"]).pid))
with open("imported", "a") as file:
    file.write("once\\n")
"""
ACTED = """\
name: acted
seeds: [0]
environment: {{name: gaussian}}
policy: {{mean: 0.5, scale: 0.2}}
vary: {{environment.reward: [{rewards}]}}
gradient: {{instances: 2, pool: 32, grid: {{estimator: maxk, baseline: centred, n: 4, k: 2}}}}
"""
HERE = Path(__file__).parent
SCRIPT = f"""
import sys

sys.path += [{str(HERE)!r}, {str(HERE.parents[0] / "fixtures")!r}]
from maxk_lab.execution.records import RunDirectory
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.planning.plan import make_plan
from maxk_lab.execution.execute import execute

print("begun", flush=True)
plan = make_plan(load_spec("sweep.yaml"))
print(len(execute(plan, RunDirectory("run"), jobs=2, measure="fake_measures:quick").done), "done")
"""
Run = Callable[..., tuple[Outcome, list[dict[str, Any]], set[int]]]


@pytest.fixture
def run_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs a sweep, and gives the metrics and the processes that have measured it."""
    monkeypatch.chdir(tmp_path)
    count = iter(range(10))

    def measured(
        text: str, measure: str | None = None
    ) -> tuple[Outcome, list[dict[str, Any]], set[int]]:
        Path("sweep.yaml").write_text(text)
        plan = make_plan(load_spec("sweep.yaml"))
        run, pids = RunDirectory(tmp_path / "results" / str(next(count))), set()

        def note(name: str, payload: dict[str, Any]) -> None:
            if name == "unit_started":
                pids.add(payload["pid"])

        outcome = execute(plan, run, measure=measure, on_event=note)
        metrics = [record.metrics or {"error": record.error} for record in run.records(plan)]
        return outcome, metrics, pids

    return measured


@pytest.mark.slow
def test_units_that_share_a_process_have_the_same_metrics(
    run_of: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "SHARED_SECONDS", 1000.0)
    _, shared, one = run_of(BANDIT)
    monkeypatch.setattr(local, "SHARED_SECONDS", -1.0)
    _, apart, several = run_of(BANDIT)
    assert (len(one), len(several)) == (1, 2)
    assert shared == apart


def test_where_nothing_forks_a_program_measures_all(
    run_of: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (local, fork_server):
        monkeypatch.setattr(module, "FORKS", False)
    outcome, _, pids = run_of(SMALL, "fake_measures:quick")
    assert (len(outcome.done), len(pids)) == (8, 1)


@pytest.mark.parametrize(
    "spoilt", ["", "threading.Thread(target=threading.Event().wait, daemon=True).start()"]
)
def test_a_module_of_the_user_is_imported_once_and_each_unit_has_a_process(
    run_of: Run, spoilt: str
) -> None:
    """What no copy would have each imports; what it has started ends with the run."""
    Path("own_measure.py").write_text(OWN + spoilt)
    outcome, _, pids = run_of(SMALL, "own_measure:quick")
    assert (len(outcome.done), outcome.failed, len(pids)) == (8, (), 2)
    assert Path("imported").read_text() == "once\n" * (3 if spoilt else 1)
    wait_until(lambda: not alive(int(Path("beside").read_text())), 5)


@pytest.mark.slow
def test_what_an_import_changes_is_for_the_units_that_name_the_module(run_of: Run) -> None:
    # Its numbers tell what is the default type.
    sized = "samples.sum(-1) * torch.get_default_dtype().itemsize"
    reward = f"import torch\n\ndef reward(samples):\n    return {sized}\n"
    Path("plain.py").write_text(reward)
    _, alone, _ = run_of(ACTED.format(rewards="'plain:reward'"))
    Path("wide.py").write_text(f"{reward}\n\ntorch.set_default_dtype(torch.float64)\n")
    outcome, beside, _ = run_of(ACTED.format(rewards="'wide:reward', 'plain:reward'"))
    assert (len(outcome.done), len(alone)) == (2, 1)
    assert alone[0] in beside


@pytest.mark.slow
def test_an_import_without_end_costs_what_needs_it(run_of: Run) -> None:
    Path("own_reward.py").write_text("import time\ntime.sleep(600)\ndef reward(**_): ...\n")
    since = time.monotonic()
    _, (failed,), _ = run_of(ENDLESS)
    assert "took longer than execution.timeout, 5 s, for a cell" in failed["error"]
    assert time.monotonic() - since < 60


def test_a_server_that_is_killed_is_started_again(
    run_of: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: list[int] = []

    class Killed(ForkServer):
        def start(self, devices: str | None) -> Any:
            child = super().start(devices)
            if not servers:
                servers.append(self.pid)
                os.kill(self.pid, signal.SIGKILL)
            return child

    monkeypatch.setattr(local, "ForkServer", Killed)
    outcome, _, _ = run_of(SMALL, "fake_measures:quick")
    assert (len(outcome.done), outcome.failed) == (8, ())
    wait_until(lambda: not any(map(alive, servers)), 5)


def test_servers_that_end_at_their_first_request_have_an_end(run_of: Run) -> None:
    Path("own_measure.py").write_text(OWN + "os.register_at_fork(before=lambda: os._exit(1))")
    with pytest.raises(RefusedError, match="end before they begin to work"):
        run_of(SMALL, "own_measure:quick")


@pytest.mark.slow
def test_nothing_is_left_of_a_driver_that_is_killed_during_an_import(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(600)\n")
    script = (
        "import os, sys; from maxk_lab.execution.supervisor.fork_server import ForkServer; "
        "sys.path.append('.'); print(ForkServer([], ['endless'], 100.0).pid, flush=True); "
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: not alive(int(done.stdout)), 5)


@pytest.mark.slow
def test_the_workers_of_a_script_do_not_begin_it_again(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(SMALL)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=250
    )
    assert done.stdout == "begun\n8 done\n", done.stderr
