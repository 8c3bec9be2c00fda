"""A job in this process, as Slurm would start it: what is left to do, what is lost or stuck."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from submitit.core.utils import DelayedSubmission

from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.backends.backend import Job
from maxk_lab.sweeps.run.backends.slurm import pack as module
from maxk_lab.sweeps.run.backends.slurm.pack import Pack, outcome_of
from maxk_lab.sweeps.run.execute import tasks_of
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory

MakePlan = Callable[..., Plan]


@pytest.fixture(autouse=True)
def _process() -> Iterator[None]:
    """Keep from this process what a job does with its own, and put its handlers back."""
    before = {number: signal.getsignal(number) for number in {*module._TIME_IS_UP, *module._ENDS}}
    with patch.object(module, "close_current_folder"):
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


def _outcome(pack: Pack) -> str:
    return outcome_of(Job("1_0", str(pack.folder / "1_0_0_log.out"), {}))


def _signalled(pack: Pack, number: signal.Signals) -> list[object]:
    """Start a job to which a signal comes when a unit has begun; return what it has requeued.

    That of the time limit submitit's handler takes, which calls `checkpoint`.
    """
    requeued: list[object] = []

    def comes(name: str, **payload: Any) -> None:
        if name == "unit_started":
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGUSR2, lambda *_: requeued.append(pack.checkpoint()))
    with patch.object(module, "_print", comes):
        pack()
    return requeued


def test_a_job_measures_what_has_no_record(pack: Pack, run: RunDirectory, plan: Plan) -> None:
    run.write(Record(plan.cells[0].as_dict(), "failed", None, "before", {}, {}))
    pack()
    records = run.records(plan)
    assert [record.status for record in records] == ["failed", *["done"] * (len(plan.cells) - 1)]
    assert _outcome(pack) == "begun"
    assert pack.checkpoint() is None


def test_a_job_whose_time_is_nearly_up_leaves_and_is_requeued(
    plan: Plan, run: RunDirectory
) -> None:
    pack = pack_of(plan, run, "patient")
    (delayed,) = _signalled(pack, signal.SIGUSR2)
    assert isinstance(delayed, DelayedSubmission)
    again = delayed.function
    assert again == Pack(pack.folder, pack.index, pack.tasks, pack.execution)
    assert _outcome(pack) == "left"
    # What has a record is not measured again.
    assert 0 < len(run.ids()) < len(plan.cells)
    replace(again, tasks=tuple(replace(t, measure="fake_measures:quick") for t in again.tasks))()
    assert {record.status for record in run.records(plan)} == {"done"}


def test_a_job_that_is_told_to_end_does_not_come_back_by_itself(
    plan: Plan, run: RunDirectory
) -> None:
    pack = pack_of(plan, run, "patient")
    assert _signalled(pack, signal.SIGTERM) == []
    assert _outcome(pack) == "left"
    assert pack.checkpoint() is None
