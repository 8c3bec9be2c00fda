"""The jobs of a run that go on without the process that submitted them, whatever runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, cast

from maxk_lab.catalogue import imported
from maxk_lab.sweeps.backends import BACKENDS

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import RunDirectory

State = Literal["queued", "running", "finished", "ended", "not known"]


@dataclass(frozen=True)
class JobState:
    """The state of a job, which has some units by their ids.

    One that is `finished` has done all its work, one that has `ended` has not and will not run
    again; `reason` says why, or what a queued one waits for. `told` of its `cells` have a record.
    """

    id: str
    state: State
    host: str
    units: tuple[str, ...]
    cells: int
    told: int
    log: str
    reason: str = ""

    @property
    def may_run(self) -> bool:
        """Whether it runs, or may do so later."""
        return self.state in ("queued", "running", "not known")


@dataclass(frozen=True)
class Jobs:
    """The jobs of a run; `trouble` says why it is not known what they are doing, if it is not."""

    found: tuple[JobState, ...]
    trouble: str = ""


class Queue(Protocol):
    """The module of a backend that tells of its jobs, which `queue` in its row names."""

    def jobs(self, run: RunDirectory) -> Jobs:
        """Return the jobs of a run that may run, and others that were submitted with them."""

    def cancel(self, run: RunDirectory) -> list[str]:
        """Cancel the jobs of a run and return their ids. Raises `RefusedError`."""


def queues() -> list[Queue]:
    """Return what tells of jobs, one of every backend that has jobs which outlive its driver."""
    return [cast(Queue, imported(row.queue)) for row in BACKENDS if row.queue]


def any_may_run(run: RunDirectory) -> bool:
    """Return whether a run has jobs that run or may do so later, or it is not known."""
    return any(job.may_run for queue in queues() for job in queue.jobs(run).found)
