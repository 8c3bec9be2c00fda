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

from maxk_lab.execution.backends.backend import Job
from maxk_lab.execution.backends.slurm import pack as module
from maxk_lab.execution.backends.slurm.pack import Pack, outcome_of
from maxk_lab.execution.execute import tasks_of
from maxk_lab.execution.record import Record
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan


@pytest.fixture(autouse=True)
def _process() -> Iterator[None]:
    """Keep from this process what a job does with its own, and put its handlers back."""
    before = {number: signal.getsignal(number) for number in (*module._TIME_IS_UP, *module._ENDS)}
    with patch.object(module, "close_current_folder"):
        yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def plan(planned: Callable[..., Plan], run: RunDirectory) -> Plan:
    """The sweep with as many tries as one."""
    plan = planned("execution.retries=1")
    run.write_spec(plan.spec)
    return plan


@pytest.fixture
def make(plan: Plan, run: RunDirectory) -> Callable[[str], Pack]:
    """Makes one job of every unit, which a function of `fake_measures` measures."""
    cells = {cell.id for cell in plan.cells}

    def make(measure: str) -> Pack:
        tasks = tasks_of(plan, cells, run, f"fake_measures:{measure}", run.heads)
        return Pack(run.root / "jobs" / "a", 0, tuple(tasks), plan.spec.execution)

    return make


def _outcome(pack: Pack) -> str:
    return outcome_of(Job("1_0", str(pack.folder / "1_0_0_log.out"), {}))


def test_a_job_measures_what_has_no_record(
    make: Callable[[str], Pack], run: RunDirectory, plan: Plan
) -> None:
    pack = make("quick")
    run.write(Record(plan.cells[0].as_dict(), "failed", None, "before", {}, {}))
    pack()
    records = run.records(plan)
    assert [record.status for record in records] == ["failed", *["done"] * (len(plan.cells) - 1)]
    assert _outcome(pack) == "begun"
    assert pack.checkpoint() is None


@pytest.mark.parametrize("numbers", [[signal.SIGUSR2], [signal.SIGTERM], [10, 12, 15]])
def test_a_job_leaves_and_comes_back_only_where_its_time_was_up(
    make: Callable[[str], Pack], plan: Plan, run: RunDirectory, numbers: list[int]
) -> None:
    """Of the end of its time hears submitit's handler, which calls `checkpoint`, but once it left.

    Whatever else has come: a job that is told to end does not come back by itself.
    """
    pack, requeued = make("patient"), list[Any]()

    def come(name: str, **payload: Any) -> None:
        for number in numbers if name == "unit_started" else ():
            os.kill(os.getpid(), number)

    for number in module._TIME_IS_UP:
        signal.signal(number, lambda *_: requeued.append((_outcome(pack), pack.checkpoint())))
    with patch.object(module, "_print", come):
        pack()
    assert _outcome(pack) == "left"
    assert all(outcome == "left" for outcome, _ in requeued)
    # What has a record is not measured again.
    assert 0 < len(run.ids()) < len(plan.cells)
    if signal.SIGTERM in numbers:
        assert bool(requeued) == (len(numbers) > 1)
        assert not any(again for _, again in requeued)
        assert pack.checkpoint() is None
        return
    ((_, delayed),) = requeued
    assert isinstance(delayed, DelayedSubmission)
    again = delayed.function
    assert again == Pack(pack.folder, pack.index, pack.tasks, pack.execution)
    replace(again, tasks=tuple(replace(t, measure="fake_measures:quick") for t in again.tasks))()
    assert {record.status for record in run.records(plan)} == {"done"}
