"""Workers that end, hang, fork and print, whatever they run: nothing is lost, and nothing stays."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_processes import alive, wait_until, workers_of

from maxk_lab.cli.progress import notes
from maxk_lab.files import StorageError
from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.execute import Outcome, execute
from maxk_lab.sweeps.run.progress import statuses
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

SCRIPT = Path(__file__).parents[1] / "run_fake.py"
Go = Callable[..., Outcome]


def started(run: RunDirectory, measure: str, jobs: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), "sweep.yaml", str(run.root), measure, str(jobs)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def descendants(pid: int) -> set[int]:
    """The processes that one has started, and theirs."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = {int(child) for child in children}
    return found.union(*map(descendants, found))


def errors(run: RunDirectory, plan: Plan) -> list[str]:
    return [record.error or "" for record in run.records(plan) if record.status == "failed"]


def test_an_exit_is_a_failure_of_its_own_cells(go: Go, run: RunDirectory, plan: Plan) -> None:
    outcome = go("leaves")
    assert (len(outcome.done), len(outcome.failed), outcome.missing) == (4, 4, ())
    assert {r.cell["seed"] for r in run.records(plan) if r.status == "failed"} == {1}
    assert all(error.strip().endswith("SystemExit: 0") for error in errors(run, plan))


@pytest.mark.parametrize(
    ("measure", "told"),
    [
        ("closes_generators", "GeneratorExit: of the user's own"),
        ("interrupts", "KeyboardInterrupt"),
    ],
)
def test_nothing_that_is_raised_ends_the_run(
    go: Go, run: RunDirectory, plan: Plan, measure: str, told: str
) -> None:
    outcome = go(measure)
    assert (len(outcome.done), len(outcome.failed)) == (2, 6)
    assert all(error.strip().endswith(told) for error in errors(run, plan))


def test_a_copy_of_the_worker_measures_nothing(go: Go, run: RunDirectory, plan: Plan) -> None:
    told: list[str] = []
    outcome = go("forks", on_event=lambda name, payload: told.append(name))
    assert (len(outcome.done), outcome.failed) == (8, ())
    assert told.count("cell_done") == 8


def test_an_endless_error_is_cut(go: Go, run: RunDirectory, plan: Plan) -> None:
    go("long_error", only="seed=0")
    for error in errors(run, plan):
        assert len(error) < 21_000
        assert "Traceback" in error
        assert "characters are left out" in error


def test_stdout_is_not_for_what_is_measured(go: Go, capfd: pytest.CaptureFixture[str]) -> None:
    go("prints")
    told = capfd.readouterr()
    assert told.out == ""
    assert "a line of the user's own" in told.err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_worker_that_is_stuck_in_c_is_ended(
    run: RunDirectory, plan: Plan, small: str, number: signal.Signals
) -> None:
    process = started(run, "stuck_in_c", jobs=2)
    try:
        wait_until(lambda: len(run.ids()) == 2)
        everyone = descendants(process.pid)
        beside = {int(path.read_text()) for path in run.cache_path.glob("beside-*")}
        assert len(beside) == 2
        since = time.monotonic()
        process.send_signal(number)
        _, complaints = process.communicate(timeout=100)
        assert time.monotonic() - since < 60
        assert (process.returncode, complaints) == (130, "")
        assert not any(map(alive, beside))
        # The process of multiprocessing that keeps the books ends a moment after its parent.
        wait_until(lambda: not any(map(alive, everyone)))
    finally:
        process.kill()
        process.communicate()
    assert sorted(statuses(plan, run).values()) == ["done"] * 2 + ["missing"] * 6


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
def test_nothing_outlives_a_killed_parent(run: RunDirectory, small: str, stopped: bool) -> None:
    process = started(run, "stuck_in_c")
    try:
        wait_until(run.ids)
        everyone = descendants(process.pid)
        beside = {int(path.read_text()) for path in run.cache_path.glob("beside-*")}
        assert beside <= everyone
        if stopped:
            for pid in (*workers_of(run), *beside):
                os.kill(pid, signal.SIGSTOP)
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(alive, everyone)))
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_stopped_worker_does_not_hold_the_run(run: RunDirectory, small: str) -> None:
    process = started(run, "stuck")
    try:
        wait_until(run.ids)
        (worker,) = workers_of(run)
        os.kill(worker, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=100)
        assert process.returncode == 130
        assert not alive(worker)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_cell_that_takes_too_long_fails_alone(go: Go, run: RunDirectory, plan: Plan) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    outcome = go(
        "one_stuck",
        "execution.timeout=3s",
        jobs=2,
        on_event=lambda *event: told.append(event),
    )
    failed = [record for record in run.records(plan) if record.status == "failed"]
    assert [(r.cell["baseline"], r.cell["n"]) for r in failed] == [("none", 4)] * 2
    assert (len(outcome.done), outcome.missing) == (6, ())
    assert set(errors(run, plan)) == {
        "took longer than execution.timeout, 3 s, for a cell. To try again: --retry-failed"
    }
    ended = [
        note for name, payload in told if name == "worker_died" for note in notes(name, payload)
    ]
    assert len(ended) == 2
    for note in ended:
        assert "ended (took longer than execution.timeout, 3 s, for a cell): the " in note
        assert note.endswith(" are tried one by one")


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_named(go: Go, run: RunDirectory, plan: Plan) -> None:
    outcome = go("stuck_call", "execution.reward_timeout=0.5")
    assert (len(outcome.done), len(outcome.failed)) == (4, 4)
    assert set(errors(run, plan)) == {
        "reward function 'mine:reward' took longer than execution.reward_timeout, 0.5 s, in one "
        "call. To try again: --retry-failed"
    }


@pytest.mark.slow
def test_cells_that_share_nothing_fail_one_by_one(
    go: Go, run: RunDirectory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maxk_lab.studies.gradient.plan.GradientUnit.shares", False)
    outcome = go("deadly_first")
    failed = [record for record in run.records(plan) if record.status == "failed"]
    assert [(r.cell["baseline"], r.cell["n"]) for r in failed] == [("centred", 4)] * 2
    assert (len(outcome.done), outcome.missing) == (6, ())


@pytest.mark.slow
def test_imports_take_no_time_of_a_cell(small: str, run: RunDirectory) -> None:
    plan = make_plan(load_spec(small, ["execution.timeout=3s"]))
    assert len(execute(plan, run, measure="slow_import:quick", only="seed=0").done) == 4


def test_a_unit_finds_the_process_in_a_state_of_its_own(
    small: str, tmp_path: Path, plan: Plan
) -> None:
    """It is the same whether another unit came before it in the worker or not."""

    def told(only: str) -> list[Any]:
        run = RunDirectory(tmp_path / "results" / only.replace("=", ""))
        execute(plan, run, measure="fake_measures:drawing", only=only)
        return [record.metrics["undefined"] for record in run.records(plan) if record.metrics]

    both, second = told("baseline=none"), told("seed=1,baseline=none")
    assert both[len(second) :] == second
    assert both[0]["drawn"] != second[0]["drawn"]


def test_limits_are_no_part_of_a_cell(small: str, plan: Plan) -> None:
    limited = load_spec(small, ["execution.timeout=1 h 30 min", "execution.reward_timeout=2"])
    assert (limited.execution.timeout, limited.execution.reward_timeout) == (5400.0, 2.0)
    assert make_plan(limited).cells == plan.cells


@pytest.mark.slow
def test_removed_records_are_missed(small: str, run: RunDirectory, plan: Plan) -> None:
    def remove(name: str, payload: dict[str, Any]) -> None:
        if name == "unit_finished" and payload["key"] == plan.units[0].id:
            for path in run.records_path.iterdir():
                path.unlink()

    outcome = execute(plan, run, measure="fake_measures:quick", on_event=remove)
    gone = [cell.id for cell in plan.cells if cell.seed == 0]
    assert set(gone) <= set(outcome.missing)
    assert set(outcome.done) | set(outcome.missing) == {cell.id for cell in plan.cells}
    again = execute(plan, run, measure="fake_measures:quick")
    assert (again.done, again.missing) == (outcome.missing, ())


@pytest.mark.slow
def test_a_full_disk_ends_the_run_and_no_cell(small: str, run: RunDirectory, plan: Plan) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Room for some records, and not for all.
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, before[1]))
    try:
        with pytest.raises(StorageError, match=r"cannot be written to: File too large"):
            execute(plan, run, measure="fake_measures:quick")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "failed" not in statuses(plan, run).values()
    again = execute(plan, run, measure="fake_measures:quick")
    assert len(again.done) + len(again.reused) == 8
