"""Runs are sent while a sweep is measured; whatever W&B does, the sweep is none the worse."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from offline_runs import offline_run
from sweep_files import Write, plan_of
from written_runs import record_of

from maxk_lab.execution.archive import is_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan
from maxk_lab.tracking import live
from maxk_lab.tracking.live import Live
from maxk_lab.tracking.payload import Payload
from maxk_lab.tracking.wandb_tracker import NoKeyError, Sender, track

SWEEP = """
name: watched
seeds: [0, 1]
environment: {name: bandit, arms: 4}
gradient:
  instances: 2
  pool: 16
  grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}
tracking: {wandb: online}
"""
SECONDS = 60.0


@pytest.fixture
def plan(write: Write) -> Plan:
    return plan_of(write(SWEEP))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "results" / "watched")


def measure(plan: Plan, run: RunDirectory, watcher: Live) -> None:
    """Write a record of every cell, and tell it."""
    run.write_spec(plan.spec)
    for cell in plan.cells:
        run.write(record_of(cell))
        watcher.event("cell_done", {"cell": cell.id})


def until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start(plan: Plan, watcher: Live) -> list[str]:
    return watcher.event("run_started", {"cell_ids": [cell.id for cell in plan.cells]})


@pytest.mark.slow
def test_a_run_is_there_as_soon_as_its_cells_are_and_is_not_sent_again(
    plan: Plan, run: RunDirectory
) -> None:
    watcher = Live(run, plan, "offline")
    start(plan, watcher)
    measure(plan, run, watcher)
    until(lambda: len(watcher.sent) == 2)
    sent = watcher.end(SECONDS)
    before = {folder: Path(folder).stat().st_mtime_ns for folder in sent.values()}
    places = track(run, "offline", plan=plan, sent=sent)
    assert places[:2] == [*sent.values()]
    assert before == {folder: Path(folder).stat().st_mtime_ns for folder in places[:2]}
    first, second, whole = map(offline_run, places)
    assert [one.config["seed"] for one in (first, second)] == [0, 1]
    assert first.summary["cells_done"] == 2
    (bundle,) = whole.artifacts["bundle"].manifest.contents
    assert (bundle.path, whole.artifacts["bundle"].name) == ("watched.zip", "watched-bundle")
    assert is_bundle(Path(bundle.local_path))
    assert "bundle" not in whole.summary


def test_a_run_waits_for_all_of_its_cells_and_is_sent_once(
    plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    def send(sender: Sender, payload: Payload) -> str:
        names.append(payload.name)
        return "there"

    monkeypatch.setattr(live, "set_up", lambda: None)
    monkeypatch.setattr(Sender, "send", send)
    watcher = Live(run, plan, "offline")
    (one, two), (three, four) = ([cell.id for cell in unit.cells] for unit in plan.units)
    run.write_spec(plan.spec)
    for cell in plan.cells[:2]:
        run.write(record_of(cell))
    watcher.event("run_started", {"cell_ids": [one, two, three]})
    watcher.event("cell_done", {"cell": one})
    assert watcher._ready.empty()
    for _ in range(2):
        watcher.event("cell_failed", {"cell": two})
    until(lambda: watcher.sent)
    # A run without a record, such as one that somebody has removed, is no run.
    for cell in (three, four):
        watcher.event("cell_done", {"cell": cell})
    until(watcher._ready.empty)
    assert len(watcher.end(SECONDS)) == 1
    assert names == ["gradient stage 0 seed 0"]


@pytest.mark.parametrize("place", ["set_up", "log_in"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("nobody there"), "ConnectionError: nobody there"),
        (SystemExit(1), "SystemExit: 1"),
        (NoKeyError("there is no key"), "there is no key"),
    ],
)
def test_what_is_wrong_with_wandb_is_said_once(
    plan: Plan,
    run: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    error: BaseException,
    words: str,
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(live, "set_up", lambda: None)
    monkeypatch.setattr(live, place, fail)
    watcher = Live(run, plan)
    notes = start(plan, watcher)
    until(lambda: not watcher._thread.is_alive())
    for cell in plan.cells:
        notes += watcher.event("cell_done", {"cell": cell.id})
    assert notes == [f"the sweep goes on, and W&B gets nothing meanwhile: {words}"]
    assert watcher.end(SECONDS) == {}


def test_a_network_that_hangs_is_not_waited_for(
    plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung, free = threading.Event(), threading.Event()

    def hang() -> None:
        hung.set()
        free.wait(SECONDS)
        raise ConnectionError("at last")

    monkeypatch.setattr(live, "set_up", lambda: None)
    monkeypatch.setattr(live, "log_in", hang)
    watcher = Live(run, plan)
    start(plan, watcher)
    for cell in plan.cells:
        assert watcher.event("cell_done", {"cell": cell.id}) == []
    assert hung.wait(SECONDS)
    assert watcher.end(0.0) == {}
    free.set()


def test_wandb_is_not_started_for_a_sweep_that_is_done(
    plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "set_up", lambda: pytest.fail("started"))
    watcher = Live(run, plan)
    assert watcher.event("run_started", {"cell_ids": []}) == []
    assert watcher.end(SECONDS) == {}
