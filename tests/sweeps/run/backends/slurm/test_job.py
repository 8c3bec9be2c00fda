"""A job in this process, as Slurm would start it: what is left to do, what is lost or stuck."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from submitit.core.utils import DelayedSubmission

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.backends.slurm import job
from maxk_lab.sweeps.run.backends.slurm.job import Pack
from maxk_lab.sweeps.run.backends.slurm.progress import Progress
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.tasks import tasks_of

MakePlan = Callable[..., Plan]


@pytest.fixture(autouse=True)
def _process() -> Iterator[None]:
    """Keep from this process what a job does with its own, and put its handlers back."""
    before = {number: signal.getsignal(number) for number in job._SIGNALS}
    with patch.object(job, "close_current_folder"):
        yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def plan(planned: MakePlan) -> Plan:
    """The sweep with as many tries as one."""
    return planned("execution.retries=1")


@pytest.fixture
def pack(plan: Plan, run: RunDirectory) -> Pack:
    """One job with every unit."""
    return pack_of(plan, run, "quick")


def pack_of(plan: Plan, run: RunDirectory, measure: str) -> Pack:
    run.write_spec(plan.spec)
    cells = {cell.id for cell in plan.cells}
    tasks = tasks_of(plan, cells, run, f"fake_measures:{measure}", run.heads)
    return Pack(run.root / "jobs" / "a", 0, tuple(tasks), plan.spec.execution)


def progress_of(pack: Pack) -> Progress:
    return Progress.read(pack.folder, pack.index)


def lose(pack: Pack, *keys: str) -> None:
    """Leave what a start does that ends in the middle of these units."""
    progress = progress_of(pack)
    progress.begin()
    for key in keys:
        progress.take_in("unit_started", key, {})
        progress.take_in("progress", key, {"phase": "pool", "done": 5, "of": 9})
    progress.write(pack.folder, pack.index)


def test_units_whose_node_was_lost_too_often_fail_and_others_do_not(
    pack: Pack, run: RunDirectory, plan: Plan
) -> None:
    first, *others = pack.tasks
    lose(pack, first.key)
    lose(pack, first.key)
    pack()
    records = {record.cell["id"]: record for record in run.records(plan)}
    assert {records[cell["id"]].error for cell in first.cells} == {
        "the node was lost while it measured this, 2 times in all. To try again: --retry-failed"
    }
    assert all(records[cell["id"]].status == "done" for one in others for cell in one.cells)


def test_a_lost_node_is_forgiven_as_often_as_the_file_says(
    pack: Pack, run: RunDirectory, plan: Plan
) -> None:
    lose(pack, *(task.key for task in pack.tasks))
    pack()
    assert {record.status for record in run.records(plan)} == {"done"}
    assert not progress_of(pack).units
    assert not progress_of(pack).left


def _signalled(pack: Pack, number: signal.Signals) -> list[object]:
    """Start a job to which a signal comes when a unit has begun; return what it has requeued.

    That of the time limit submitit's handler takes, which calls `checkpoint`.
    """
    requeued: list[object] = []
    take_in = Progress.take_in

    def comes(self: Progress, name: str, key: str, payload: dict[str, Any]) -> None:
        take_in(self, name, key, payload)
        if name == "unit_started":
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGUSR2, lambda *_: requeued.append(pack.checkpoint()))
    with patch.object(Progress, "take_in", comes):
        pack()
    return requeued


def test_a_job_whose_time_is_nearly_up_leaves_and_is_requeued(
    plan: Plan, run: RunDirectory
) -> None:
    pack = pack_of(plan, run, "patient")
    (delayed,) = _signalled(pack, signal.SIGUSR2)
    assert isinstance(delayed, DelayedSubmission)
    assert delayed.function == replace(pack)
    progress = progress_of(pack)
    assert progress.left
    assert not progress.units
    # It is no loss, and what has a record is kept.
    progress.begin()
    assert not progress.losses
    assert len(run.ids()) < len(plan.cells)


def test_a_job_that_is_told_to_end_does_not_come_back_by_itself(
    plan: Plan, run: RunDirectory
) -> None:
    pack = pack_of(plan, run, "patient")
    assert _signalled(pack, signal.SIGTERM) == []
    assert progress_of(pack).left
    assert pack.checkpoint() is None


def test_a_signal_before_a_job_has_begun_requeues_it(pack: Pack) -> None:
    assert pack.checkpoint() is not None


def test_a_unit_that_comes_no_further_in_a_whole_job_fails(
    pack: Pack, plan: Plan, run: RunDirectory
) -> None:
    key = pack.tasks[0].key

    def drive(*arguments: Any, leaving: Callable[[], float | None], **_: Any) -> None:
        tell = arguments[-1]
        tell("progress", key=key, phase="pool", done=5, of=9)
        tell("unit_started", key=key)
        tell("progress", key=key, phase="pool", done=5, of=9)
        while leaving() is None:
            time.sleep(0.01)

    with patch.object(job, "drive", drive):
        assert _signalled(pack, signal.SIGUSR2) != [None]
        assert not run.records(plan)
        # The others have not had their turn.
        assert _signalled(replace(pack), signal.SIGUSR2) != [None]
    records = run.records(plan)
    assert {record.cell["id"] for record in records} == {one["id"] for one in pack.tasks[0].cells}
    assert all("no further in a whole job" in (record.error or "") for record in records)


@pytest.mark.parametrize(
    ("then", "stands"), [([5], True), ([4], True), ([6], False), ([], True), (None, False)]
)
def test_a_unit_stands_still_that_comes_no_further_than_in_the_start_before(
    then: list[int] | None, stands: bool
) -> None:
    progress = Progress()
    for steps in ([5], then):
        progress.begin()
        if steps is not None:
            progress.take_in("unit_started", "u", {})
        for step in steps or ():
            progress.take_in("progress", "u", {"phase": "training", "step": step})
        progress.take_in("left", "u", {})
    assert progress.stands_still("u") is stands
    progress.take_in("cell_done", "u", {})
    assert not progress.stands_still("u")


def test_what_a_lost_start_reached_need_not_be_reached_again() -> None:
    progress = Progress()
    for _ in range(2):
        progress.begin()
        progress.take_in("unit_started", "u", {})
    assert progress.losses == {"u": 1}
    assert not progress.stands_still("u")


@pytest.mark.parametrize(
    ("number", "before", "seconds"),
    [(signal.SIGUSR2, 120, 60.0), (signal.SIGUSR2, 30, 15.0), (signal.SIGTERM, 120, 20.0)],
)
def test_units_leave_before_slurm_kills_the_job(
    planned: MakePlan, run: RunDirectory, number: signal.Signals, before: int, seconds: float
) -> None:
    pack = pack_of(planned("execution.backend=slurm", f"execution.signal={before}"), run, "quick")
    assert pack._leaving() is None
    pack._begun = pack._over = True
    if number == signal.SIGTERM:
        pack._end(number, None)
    else:
        pack.checkpoint()
    assert pack._leaving() == seconds


def test_what_a_job_is_refused_it_says_where_others_look(pack: Pack, run: RunDirectory) -> None:
    def full(*_: object, **__: object) -> None:
        raise RefusedError("the disk is full")

    with patch.object(job, "drive", full), pytest.raises(RefusedError):
        pack()
    assert progress_of(pack).error == "the disk is full"


def test_a_damaged_file_of_progress_is_none(pack: Pack, tmp_path: Path) -> None:
    for text in ("", "[]", json.dumps({"more": 1})):
        (tmp_path / "0.json").write_text(text)
        assert Progress.read(tmp_path, 0) == Progress()
