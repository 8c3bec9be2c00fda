"""Workers that end, hang, fork and print: no record is lost, and no process stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch  # noqa: F401  # forked workers have it: `drawing` needs it
from run_processes import alive, events, wait_until, workers_of
from sweep_files import measured_here, plan_of

from maxk_lab.errors import RefusedError
from maxk_lab.execution import pool
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Run, execute
from maxk_lab.execution.tasks import Modules
from maxk_lab.leaving import Leaving, leave_when
from maxk_lab.planning.plan import Plan, select
from maxk_lab.sweep_file.execution import Execution

pytestmark = pytest.mark.usefixtures("forked_here")
SCRIPT = Path(__file__).parent / "run_fake.py"


def descendants(pid):
    """The processes that one has started, and theirs."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = {int(child) for child in children}
    return found.union(*map(descendants, found))


# Which cells of each seed of `faulty` fail, and their reason.
FAULTS = [
    ("none", ""),
    ("all", "RuntimeError: no pool"),
    ("rest", "GeneratorExit: of the user's own"),
    ("rest", "fake_measures:faulty returned no result for this cell"),
    ("all", "the metrics cannot be kept"),
    ("rest", "Leaving"),
    ("all", "(signal SIGKILL)"),
    ("all", "took longer than execution.timeout, 5 s, for a cell. "),
    ("none", ""),
]


@pytest.mark.slow
def test_what_fails_takes_no_other_cell_with_it(go, run, small):
    settings, names = ("seeds=9", "execution.timeout=5"), list[str]()
    outcome = go("faulty", *settings, jobs=2, on_event=lambda name, _: names.append(name))
    for unit, (which, why) in zip(plan_of(small, *settings).units, FAULTS, strict=True):
        ids = [cell.id for cell in unit.cells]
        failed = {"none": [], "rest": ids[1:], "all": ids}[which]
        assert [cell for cell in ids if cell in outcome.failed] == failed
        assert all(why in str(record and record.error) for record in map(run.read, failed)), why
    assert (len(outcome.done) + len(outcome.failed), outcome.missing) == (36, ())
    # The copy of a forked worker measures nothing.
    assert names.count("cell_done") == len(outcome.done)
    assert names.count("unit_finished") == 9


def test_a_function_that_is_not_there_fails_its_cells(go, run):
    assert len(go("absent").failed) == 8
    assert {"cannot load 'fake_measures:absent'" in str(r.error) for r in run.failed()} == {True}


# A script without `if __name__ == "__main__"`.
RUNS = """
import sys
sys.path += {path}
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Run, execute
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec
print("begun", flush=True)
run = Run(make_plan(load_spec({sweep!r})), RunDirectory("run"))
only = "seed=0,n=4,baseline=none"
print(len(execute(run, only=only, measure="fake_measures:long_error").failed), "failed")
"""


def test_a_worker_starts_no_script_again_prints_to_stderr_and_an_endless_error_is_cut(small, plan):
    path = [str(SCRIPT.parent), str(SCRIPT.parents[1] / "fixtures")]
    Path("script.py").write_text(RUNS.format(path=path, sweep=small))
    done = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.stdout, done.returncode) == ("begun\n1 failed\n", 0), done.stderr
    assert "a line of the user's own" in done.stderr
    (record,) = RunDirectory("run").records(plan)
    assert len(record.error or "") < 21_000
    assert "Traceback" in (record.error or "")
    assert "characters are left out" in (record.error or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "frozen"),
    [
        (signal.SIGINT, False),
        # Now and then on a busy machine the processes beside are not there: cause unknown.
        pytest.param(signal.SIGHUP, True, marks=pytest.mark.deep),
        pytest.param(signal.SIGKILL, True, marks=pytest.mark.deep),
    ],
)
def test_nothing_outlives_a_run_that_is_ended(
    run: RunDirectory, plan: Plan, small: str, number: signal.Signals, frozen: bool
) -> None:
    """Workers that are stuck in C, with processes beside them, or frozen as well."""
    command = [sys.executable, str(SCRIPT), "sweep.yaml", str(run.root), "stuck_in_c", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    everyone = set[int]()
    try:
        wait_until(lambda: len(run.ids()) >= 2 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        assert [record.error for record in run.failed()] == []
        everyone = descendants(process.pid)
        beside = {int(path.read_text()) for path in run.cache_path.glob("beside-*")}
        assert len(beside) == 2
        assert beside <= everyone
        for pid in everyone if frozen else ():
            os.kill(pid, signal.SIGSTOP)
        since = time.monotonic()
        process.send_signal(number)
        _, complaints = process.communicate(timeout=100)
        assert time.monotonic() - since < 10
        if number != signal.SIGKILL:
            assert (process.returncode, complaints) == (130, "")
            assert events(run)[-1]["event"] == "interrupted"
            assert not any(map(alive, beside))
        wait_until(lambda: not any(map(alive, everyone)), 5)
    finally:
        process.kill()
        process.wait()
        for pid in filter(alive, everyone):
            os.kill(pid, signal.SIGKILL)
    assert sorted(Run(plan, run).states().values()) == ["done"] * 2 + ["missing"] * 6


def test_a_unit_draws_the_same_in_any_worker_after_any_unit(tmp_path, plan, monkeypatch):
    """With one thread, in the folder where the run started, and with torch's default type."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name)

    def states(name, step, jobs, only=None):
        run = RunDirectory(tmp_path / name)
        ordered = Run(replace(plan, units=plan.units[::step]), run)
        execute(ordered, measure="fake_measures:drawing", jobs=jobs, only=only)
        return {r.cell["id"]: r.metrics["undefined"] for r in run.records(plan) if r.metrics}

    in_order = states("in_order", 1, jobs=1)
    assert len(in_order) == len({state["drawn"] for state in in_order.values()}) == 8
    assert states("backwards", -1, jobs=1) == states("beside", -1, jobs=2) == in_order
    assert states("alone", 1, jobs=1, only="seed=1").items() <= in_order.items()
    assert {(s["OMP_NUM_THREADS"], s["MKL_NUM_THREADS"]) for s in in_order.values()} == {("1", "1")}
    assert [s["dtype"] for s in in_order.values()].count("torch.float32") == 2


# A module of the user that takes long, leaves a process behind, and a line for each import.
SLOW_IMPORT = """
import subprocess, time
from pathlib import Path

from fake_measures import quick

Path("beside").write_text(str(subprocess.Popen(["sleep", "600"]).pid))
with open("imported", "a") as file:
    file.write("once\\n")
time.sleep({seconds})
"""


@pytest.mark.parametrize(("seconds", "imports"), [(0, 1), (4, 2)])
def test_a_worker_imports_once_for_several_units_and_in_no_time_of_a_cell(
    go, run, tmp_path, monkeypatch, seconds, imports
):
    """A worker whose import takes longer than a cell may is replaced by one that imports later."""
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("own_measure.py").write_text(SLOW_IMPORT.format(seconds=seconds))
    outcome = go("own_measure:quick", "execution.timeout=3s")
    assert (len(outcome.done), outcome.failed, len(workers_of(run))) == (8, (), 1)
    assert Path("imported").read_text() == "once\n" * imports
    wait_until(lambda: not alive(int(Path("beside").read_text())), 5)


LATE_IMPORT = """
from fake_measures import quick as now

def quick(unit, cells, **options):
    if unit["seed"]:
        import bad_import
    return now(unit, cells, **options)
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["import time; time.sleep(600)", "import os; os._exit(0)"])
def test_an_import_that_does_not_end_well_fails_the_cells_that_need_it(
    go, plan, tmp_path, monkeypatch, fault
):
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("own_measure.py").write_text(LATE_IMPORT)
    Path("bad_import.py").write_text(fault)
    monkeypatch.setattr(
        "maxk_lab.execution.run.modules_of", lambda *_: Modules((), ("bad_import", "own_measure"))
    )
    outcome = go("own_measure:quick", "execution.timeout=2")
    assert set(outcome.failed) == select(plan, "seed=1")
    assert set(outcome.done) == select(plan, "seed=0")


@pytest.mark.parametrize("idle", [False, True])
def test_a_killed_worker_is_replaced(go, run, idle):
    """A worker that dies between two units loses nothing; within one, a cell fails."""
    killed = []

    def kill(name, payload):
        if name == "unit_started":
            killed.append(payload["pid"])
        if name == ("unit_finished" if idle else "cell_done") and len(killed) == 1:
            os.kill(killed[0], signal.SIGKILL)

    outcome = go("slow", on_event=kill)
    assert (len(outcome.done), len(outcome.failed)) == ((8, 0) if idle else (7, 1))
    assert len(set(killed)) == 2
    errors = [record.error or "" for record in run.failed()]
    assert all("died while measuring (signal SIGKILL)" in error for error in errors)
    assert go("slow", retry_failed=True).done == outcome.failed


def test_a_worker_starts_in_the_folder_of_its_run(monkeypatch):
    monkeypatch.setattr(pool, "subprocess", subprocess)  # a forked worker begins where it is
    here = os.getcwd()
    with pool.Pool(Execution(), 1, (), Modules()) as workers:
        monkeypatch.chdir("/")
        list(workers.events(0.0, 1))
        (worker,) = workers._workers
        assert os.readlink(f"/proc/{worker.pid}/cwd") == here


def test_no_worker_that_gets_ready_is_an_error(go, monkeypatch):
    monkeypatch.setattr(pool, "subprocess", subprocess)
    monkeypatch.setattr(pool, "_PROGRAM", "import sys; sys.exit(3)")
    with pytest.raises(RefusedError, match="before their first task"):
        go()


def test_removed_records_are_missed(go, run, plan):
    def remove(name, payload):
        if name == "unit_finished" and payload["key"] == plan.units[0].id:
            for path in run.records_path.iterdir():
                path.unlink()

    outcome = go(on_event=remove)
    assert select(plan, "seed=0") <= set(outcome.missing)
    assert {*outcome.done, *outcome.missing} == {cell.id for cell in plan.cells}
    again = go()
    assert (again.done, again.missing) == (outcome.missing, ())


TAUGHT = """\
name: taught
seeds: [0]
environment: {name: bandit, arms: 4}
training:
  steps: 20
  batch: 8
  checkpoint_every: 100000
  evaluate: {every: 10, instances: 8, samples: 4}
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""


def test_a_training_left_in_the_middle_goes_on_to_the_same_bytes(write, run):
    (unit,) = plan_of(write(TAUGHT)).units
    steps = []

    def event(_, payload):
        steps.append(payload.get("step", 9))

    leave_when(lambda: len(steps) > 8)
    try:
        with pytest.raises(Leaving):
            measured_here(unit, run.cache_path, event)
    finally:
        leave_when(lambda: False)
    left, steps[:] = steps[-1], []
    resumed = measured_here(unit, run.cache_path, event)
    assert 2 < left < 20
    assert left <= steps[0] <= left + 1
    assert resumed == measured_here(unit)
