"""Workers that end, hang, fork and print, whatever they run: nothing is lost, and nothing stays."""

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
from run_processes import alive, events, wait_until, workers_of
from sweep_files import Write

from maxk_lab.execution.execute import Outcome, execute
from maxk_lab.execution.progress import statuses
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan, make_plan, select
from maxk_lab.studies.training.work import measure as measure_training
from maxk_lab.sweep_file.load import load_spec

SCRIPT = Path(__file__).parents[1] / "run_fake.py"
# A worker without torch has some 100 MB.
MEMORY = "execution.memory=300MB"
Go = Callable[..., Outcome]


def descendants(pid: int) -> set[int]:
    """The processes that one has started, and theirs."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = {int(child) for child in children}
    return found.union(*map(descendants, found))


# What is measured, with what settings; the cells that fail, of eight of two seeds; their reason.
FAULTS = [
    ("bad_pool", (), "seed=1", "RuntimeError: no pool for seed 1"),
    ("closes_generators", (), "but the first", "GeneratorExit: of the user's own"),
    ("forgets", (), "but the first", "fake_measures:forgets gave no result for this cell"),
    ("not_json", (), None, "the metrics cannot be kept"),
    ("absent", (), None, "cannot load 'fake_measures:absent'"),
    ("leaves_unasked", (), "but the first", "Leaving"),
    ("deadly_pool", (), "seed=1", "(signal SIGKILL)"),
    ("stuck_call", ("execution.timeout=2",), "seed=1",
     "took longer than execution.timeout, 2 s, for a cell. To try again: --retry-failed"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("measure", "settings", "which", "why"), FAULTS, ids=lambda one: str(one))
def test_what_fails_takes_no_other_cell_with_it(
    go: Go, run: RunDirectory, plan: Plan, measure: str, settings: Any, which: Any, why: str
) -> None:
    outcome = go(measure, *settings, jobs=2)
    if which == "but the first":
        expected = {cell.id for unit in plan.units for cell in unit.cells[1:]}
    else:
        expected = select(plan, which)
    assert (set(outcome.failed), outcome.missing) == (expected, ())
    assert set(outcome.done) == {cell.id for cell in plan.cells} - expected
    errors = [record.error or "" for record in run.records(plan) if record.status == "failed"]
    assert [error for error in errors if why not in error] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "settings", "deaths", "ending"),
    [
        ("dies", (), 3, "exit code 9"),
        ("greedy_once", (MEMORY,), 2, "took more than execution.memory, 300.0MB"),
        ("forks", (), 0, ""),
    ],
)
def test_nothing_is_lost(go: Go, measure: str, settings: Any, deaths: int, ending: str) -> None:
    """Each worker that dies gets further, and is told; a copy of one measures nothing."""
    told: list[tuple[str, dict[str, Any]]] = []
    outcome = go(measure, *settings, on_event=lambda *event: told.append(event))
    assert (len(outcome.done), outcome.failed) == (8, ())
    names = [name for name, _ in told]
    assert (names.count("cell_done"), names.count("unit_finished")) == (8, 2)
    endings = [payload["ending"] for name, payload in told if name == "worker_died"]
    assert len(endings) == deaths
    assert all(ending in one for one in endings)


def test_an_endless_error_is_cut_and_stdout_is_not_for_what_is_measured(
    go: Go, run: RunDirectory, plan: Plan, capfd: pytest.CaptureFixture[str]
) -> None:
    go("long_error", only="seed=0,n=4,baseline=none")
    (record,) = run.records(plan)
    assert len(record.error or "") < 21_000
    assert "Traceback" in (record.error or "")
    assert "characters are left out" in (record.error or "")
    told = capfd.readouterr()
    assert told.out == ""
    assert "a line of the user's own" in told.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "frozen"),
    [(signal.SIGINT, False), (signal.SIGHUP, True), (signal.SIGKILL, True)],
)
def test_nothing_outlives_a_run_that_is_ended(
    run: RunDirectory, plan: Plan, small: str, number: signal.Signals, frozen: bool
) -> None:
    """Workers that are stuck in C, with processes beside them, or frozen as well."""
    command = [sys.executable, str(SCRIPT), "sweep.yaml", str(run.root), "stuck_in_c", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        wait_until(lambda: len(run.ids()) == 2)
        everyone = descendants(process.pid)
        beside = {int(path.read_text()) for path in run.cache_path.glob("beside-*")}
        assert len(beside) == 2
        assert beside <= everyone
        for pid in (*workers_of(run), *beside) if frozen else ():
            os.kill(pid, signal.SIGSTOP)
        since = time.monotonic()
        process.send_signal(number)
        _, complaints = process.communicate(timeout=100)
        assert time.monotonic() - since < 60
        if number != signal.SIGKILL:
            assert (process.returncode, complaints) == (130, "")
            assert events(run)[-1]["event"] == "interrupted"
            assert not any(map(alive, beside))
        wait_until(lambda: not any(map(alive, everyone)))
    finally:
        process.kill()
        process.communicate()
    assert sorted(statuses(plan, run).values()) == ["done"] * 2 + ["missing"] * 6


def test_imports_take_no_time_of_a_cell(
    go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    imports = "from fake_measures import quick\nimport time\ntime.sleep(4)\n"
    (tmp_path / "slow_import.py").write_text(imports)
    assert len(go("slow_import:quick", "execution.timeout=3s", only="seed=0").done) == 4


def test_a_unit_finds_the_process_in_a_state_of_its_own(
    small: str, tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the same whether another unit came before it in the worker or not; with one thread."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name)

    def told(only: str) -> list[Any]:
        run = RunDirectory(tmp_path / "results" / only.replace("=", ""))
        execute(plan, run, measure="fake_measures:drawing", only=only)
        return [record.metrics["undefined"] for record in run.records(plan) if record.metrics]

    both, second = told("baseline=none"), told("seed=1,baseline=none")
    assert both[len(second) :] == second
    assert both[0]["drawn"] != second[0]["drawn"]
    assert (both[0]["OMP_NUM_THREADS"], both[0]["MKL_NUM_THREADS"]) == ("1", "1")


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


# A training that takes some seconds.
TAUGHT = """\
name: taught
seeds: [0]
environment: {name: bandit, arms: 4}
training:
  steps: 400
  batch: 8
  checkpoint_every: 100000
  evaluate: {every: 100, instances: 8, samples: 4}
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""


@pytest.mark.slow
def test_a_training_left_in_the_middle_goes_on_to_the_same_bytes(
    write: Write, run: RunDirectory
) -> None:
    plan = make_plan(load_spec(write(TAUGHT)))

    def ctrl_c(name: str, payload: dict[str, Any]) -> None:
        if payload.get("step", 0) > 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        execute(plan, run, on_event=ctrl_c)
    assert run.ids() == []
    steps: list[int] = []
    execute(plan, run, on_event=lambda _, payload: steps.extend({payload.get("step", 0)} - {0}))
    assert steps[0] > 2
    (unit,) = plan.units
    ((_, alone),) = measure_training(
        unit.as_dict(), [unit.cells[0].as_dict()], cache=None, event=lambda *_: None
    )
    (record,) = run.records(plan)
    assert record.metrics == {name: alone[name] for name in alone if name != "timings"}
