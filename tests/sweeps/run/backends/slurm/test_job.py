"""A job in this process, as Slurm would start it: what is left to do, what is lost or stuck."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from submitit.core.utils import DelayedSubmission

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.backends.slurm import job
from maxk_lab.sweeps.run.backends.slurm.job import Pack, outcome_of
from maxk_lab.sweeps.run.record import Record
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


def ended(pack: Pack) -> dict[str, Any]:
    return outcome_of(pack.folder, pack.index)


def _signalled(pack: Pack, number: signal.Signals) -> list[object]:
    """Start a job to which a signal comes when a unit has begun; return what it has requeued.

    That of the time limit submitit's handler takes, which calls `checkpoint`.
    """
    requeued: list[object] = []
    tell = Pack._tell

    def comes(self: Pack, name: str, **payload: Any) -> None:
        tell(self, name, **payload)
        if name == "unit_started":
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGUSR2, lambda *_: requeued.append(pack.checkpoint()))
    with patch.object(Pack, "_tell", comes):
        pack()
    return requeued


def test_a_job_measures_what_has_no_record(pack: Pack, run: RunDirectory, plan: Plan) -> None:
    run.write(Record(plan.cells[0].as_dict(), "failed", None, "before", {}, {}))
    pack()
    records = run.records(plan)
    assert [record.status for record in records] == ["failed", *["done"] * (len(plan.cells) - 1)]
    assert ended(pack) == {"left": False, "error": "", "hand": [], "losses": {}}
    assert pack.checkpoint() is None


@pytest.mark.parametrize("times", [1, 2])
def test_a_lost_node_is_forgiven_as_often_as_the_file_says(
    pack: Pack, run: RunDirectory, plan: Plan, times: int
) -> None:
    """The units that it had fail after that, and no others."""
    first, *others = pack.tasks

    def is_lost(*arguments: Any, **_: Any) -> None:
        arguments[-1]("unit_started", key=first.key)

    with patch.object(job, "drive", is_lost):
        for _ in range(times):
            replace(pack)()
    replace(pack)()
    records = {record.cell["id"]: record for record in run.records(plan)}
    assert all(records[cell["id"]].status == "done" for one in others for cell in one.cells)
    errors = {records[cell["id"]].error for cell in first.cells}
    words = "the node was lost while it measured this, 2 times in all. To try again: --retry-failed"
    assert errors == ({None} if times == 1 else {words})


def test_a_job_whose_time_is_nearly_up_leaves_and_is_requeued(
    plan: Plan, run: RunDirectory
) -> None:
    pack = pack_of(plan, run, "patient")
    (delayed,) = _signalled(pack, signal.SIGUSR2)
    assert isinstance(delayed, DelayedSubmission)
    again = delayed.function
    assert (again.tasks, again.reached.keys()) == (pack.tasks, {pack.tasks[0].key})
    assert ended(pack)["left"]
    assert ended(pack)["hand"] == []
    # What has a record is not measured again.
    assert 0 < len(run.ids()) < len(plan.cells)
    replace(again, tasks=tuple(replace(t, measure="fake_measures:quick") for t in again.tasks))()
    assert {record.status for record in run.records(plan)} == {"done"}


def test_a_job_that_is_told_to_end_does_not_come_back_by_itself(
    plan: Plan, run: RunDirectory
) -> None:
    pack = pack_of(plan, run, "patient")
    assert _signalled(pack, signal.SIGTERM) == []
    assert ended(pack)["left"]
    assert pack.checkpoint() is None


def test_a_signal_before_a_job_has_begun_requeues_it(pack: Pack) -> None:
    assert pack.checkpoint() is not None


@pytest.mark.parametrize(
    ("before", "now", "stands"),
    [
        ({"phase": "pool", "done": 5}, {"phase": "pool", "done": 5}, True),
        ({"phase": "pool", "done": 5}, {"phase": "pool", "done": 4}, True),
        ({}, {}, True),
        ({"phase": "pool", "done": 5}, {"phase": "pool", "done": 6}, False),
        ({"phase": "pool", "done": 5}, {"phase": "scores", "done": 1}, False),
        (None, {"phase": "training", "step": 1}, False),
    ],
)
def test_a_unit_that_comes_no_further_in_a_whole_job_fails(
    pack: Pack, plan: Plan, run: RunDirectory, before: Any, now: Any, stands: bool
) -> None:
    """The others, which have not had their turn, are left."""
    key = pack.tasks[0].key
    pack.reached = {} if before is None else {key: before}

    def drive(*arguments: Any, leaving: Callable[[], float | None], **_: Any) -> None:
        tell = arguments[-1]
        tell("unit_started", key=key)
        if now:
            tell("progress", key=key, **now)
        while leaving() is None:
            time.sleep(0.01)

    with patch.object(job, "drive", drive):
        (delayed,) = _signalled(pack, signal.SIGUSR2)
    assert isinstance(delayed, DelayedSubmission)
    assert delayed.function.reached[key] == now
    records = run.records(plan)
    failed = {one["id"] for one in pack.tasks[0].cells} if stands else set()
    assert {record.cell["id"] for record in records} == failed
    assert all("no further in a whole job" in (record.error or "") for record in records)


@pytest.mark.parametrize(
    ("number", "before", "seconds"),
    [(signal.SIGUSR2, 120, 60.0), (signal.SIGUSR2, 30, 15.0), (signal.SIGTERM, 120, 20.0)],
)
def test_units_leave_before_slurm_kills_the_job(
    planned: MakePlan, run: RunDirectory, number: signal.Signals, before: int, seconds: float
) -> None:
    pack = pack_of(planned("execution.backend=slurm", f"execution.signal={before}"), run, "quick")
    assert pack._seconds is None
    pack._begun = pack._over = True
    if number == signal.SIGTERM:
        pack._end(number, None)
    else:
        pack.checkpoint()
    assert pack._seconds == seconds


def test_what_a_job_is_refused_it_says_where_others_look(pack: Pack, run: RunDirectory) -> None:
    def full(*_: object, **__: object) -> None:
        raise RefusedError("the disk is full")

    with patch.object(job, "drive", full), pytest.raises(RefusedError):
        pack()
    assert ended(pack)["error"] == "the disk is full"
