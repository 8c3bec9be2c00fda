"""The backend with a queue that is made up: what is reused, told, waited for and refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from maxk_lab.errors import RefusedError
from maxk_lab.execution.backends.backend import Job, State
from maxk_lab.execution.backends.slurm import backend as backend_module
from maxk_lab.execution.backends.slurm import jobs as jobs_module
from maxk_lab.execution.backends.slurm.backend import SlurmBackend
from maxk_lab.execution.backends.slurm.jobs import QueueError, jobs, submitted
from maxk_lab.execution.execute import execute, tasks_of
from maxk_lab.execution.record import Record
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan

MakePlan = Callable[..., Plan]


class MadeUp:
    """A queue where every job waits until a test says what becomes of it."""

    def __init__(self) -> None:
        self.arrays: dict[str, int] = {}
        self.says("queued", "", "Priority")

    def sbatch(self, calls: Sequence[Any], folder: Path, settings: Mapping[str, Any]) -> str:
        self.arrays[folder.name] = len(calls)
        return str(len(self.arrays))

    def says(self, state: State, host: str = "", reason: str = "") -> None:
        self.state = {"state": state, "host": host, "reason": reason}

    def queue(self, jobs: Sequence[Job]) -> list[Job]:
        return [replace(job, **self.state) for job in jobs]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    made_up = MadeUp()
    monkeypatch.setattr(jobs_module, "queue", made_up.queue)
    monkeypatch.setattr(jobs_module, "sbatch", made_up.sbatch)
    for name in ("SETTLE", "ASK_FIRST", "LOOK"):
        monkeypatch.setattr(backend_module, name, 0.0)
    return made_up


@pytest.fixture
def plan(planned: MakePlan, run: RunDirectory) -> Plan:
    plan = planned("execution.backend=slurm")
    run.write_spec(plan.spec)
    return plan


@pytest.fixture
def backend(made_up: MadeUp, plan: Plan, run: RunDirectory) -> SlurmBackend:
    """The backend with a unit, in the only job of an array."""
    cells = {cell.id for cell in plan.cells}
    backend = SlurmBackend(run, plan.spec.execution, 1, ())
    backend.submit(tasks_of(plan, cells, run, "fake_measures:quick", run.heads)[0])
    backend.detach()
    return backend


def look(backend: SlurmBackend, times: int = 3) -> list[tuple[str, dict[str, Any]]]:
    """What it tells."""
    return [(one.name, one.payload) for _ in range(times) for one in backend.events(0.0)]


def only_job(run: RunDirectory, outcome: str | None = None) -> Job:
    """The only job, which says of itself whether it has begun or left."""
    (job,) = submitted(run)
    if outcome is not None:
        Path(job.log).with_name("0.json").write_text(json.dumps(outcome))
    return job


def test_jobs_that_would_keep_the_records_are_joined_by_others(
    made_up: MadeUp, plan: Plan, run: RunDirectory
) -> None:
    """As are jobs with some cells of a unit."""
    for _ in range(2):
        execute(plan, run, detach=True, only="baseline=none")
    assert len(made_up.arrays) == 1
    execute(plan, run, detach=True)
    for cell in plan.cells:
        run.write(Record(cell.as_dict(), "failed", None, "no", {}, {}))
    for _ in range(2):
        execute(plan, run, detach=True, retry_failed=True)
    assert len(made_up.arrays) == 3
    attempts = [{*cells.values()} for job in submitted(run) for cells in job.units.values()]
    assert sorted(map(max, attempts)) == [1] * 6 + [2] * 3


def test_the_queue_is_told_when_it_changes(made_up: MadeUp, backend: SlurmBackend) -> None:
    assert look(backend) == [("jobs", {"queued": {"Priority": 1}, "running": 0})]
    made_up.says("queued", "", "PartitionTimeLimit")
    assert look(backend) == [("jobs", {"queued": {"PartitionTimeLimit": 1}, "running": 0})]
    made_up.says("running", "n1")
    assert look(backend) == [("jobs", {"queued": {}, "running": 1})]


@pytest.mark.parametrize(
    ("word", "outcome", "name", "why"),
    [
        ("NODE_FAIL", "begun", "lost", "job 1 ended as NODE_FAIL; its log in the folder of the"),
        ("NODE_FAIL", None, "lost", "job 1 ended as NODE_FAIL"),
        ("PREEMPTED", None, "lost", "job 1 ended as PREEMPTED"),
        ("FAILED", "begun", "lost", "job 1 ended as FAILED"),
        ("", "begun", "lost", "job 1 is no longer known to Slurm"),
        ("", None, "left", "job 1 was cancelled"),
        ("CANCELLED", "begun", "left", "job 1 was cancelled"),
    ],
)
def test_what_became_of_a_job_says_what_becomes_of_its_units(
    made_up: MadeUp, backend: SlurmBackend, run: RunDirectory,
    word: str, outcome: str | None, name: str, why: str,
) -> None:  # fmt: skip
    only_job(run, outcome)
    made_up.says("ended", "n1", word)
    ((told, payload),) = look(backend, 2)
    assert (told, payload["why"][: len(why)]) == (name, why)
    # Records travel: they have the place of the log in the run.
    assert str(run.root) not in payload["why"]


def test_a_job_that_ended_before_it_began_ends_the_run_with_its_last_words(
    made_up: MadeUp, backend: SlurmBackend, run: RunDirectory
) -> None:
    Path(only_job(run).log).write_text("no such mod\n\x1b\nbye\n")
    made_up.says("ended", "n1", "COMPLETED")
    why = "job 1 ended as COMPLETED on n1 before it began: mend execution.*no such mod; bye$"
    with pytest.raises(RefusedError, match=why):
        look(backend)


def test_what_a_job_left_that_could_not_requeue_itself_is_submitted_again(
    made_up: MadeUp, backend: SlurmBackend, run: RunDirectory
) -> None:
    only_job(run, "left")
    made_up.says("ended", "n1", "FAILED")
    assert look(backend, 1) == []
    backend.detach()
    assert list(made_up.arrays.values()) == [1, 1]


def test_the_jobs_of_a_site_that_does_not_answer_are_not_known(
    backend: SlurmBackend, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(jobs: object) -> None:
        raise QueueError("squeue: Unable to contact slurm controller")

    monkeypatch.setattr(jobs_module, "queue", asked)
    assert jobs(run).trouble == "squeue: Unable to contact slurm controller"
    assert [job.state for job in jobs(run).found] == ["not known"]
    # A waiting driver goes on waiting.
    assert look(backend) == []
