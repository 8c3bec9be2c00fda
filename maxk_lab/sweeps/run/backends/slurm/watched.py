"""The jobs that a process watches over, each with those of its tasks that are not at their end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.backends.slurm import queue
from maxk_lab.sweeps.run.backends.slurm.log import Log, last_words
from maxk_lab.sweeps.run.backends.slurm.placing import Place


@dataclass
class Open:
    """A task with those of its cells of which no record was told."""

    task: Task
    cells: set[str]
    # Whether the job could not have it, since a living driver had.
    passed_over: bool = False

    @property
    def rest(self) -> Task:
        """The task with these cells alone."""
        cells = tuple(cell for cell in self.task.cells if cell["id"] in self.cells)
        return replace(self.task, cells=cells)


class Watched:
    """A job with tasks of this process: its log, and since when it is there no more."""

    def __init__(self, place: Place) -> None:
        self.place, self.log = place, Log(place.submission.events(place.index))
        self.id = place.submission.id(place.index)
        self.open: dict[str, Open] = {}
        self.gone: float | None = None
        # What it said when it failed, and whether it was the system that refused something.
        self.failure, self.refused = "", False
        self.started = False

    def was_cancelled(self, ended: queue.Job | None) -> bool:
        """Whether somebody cancelled it; Slurm forgets at once what had not begun."""
        return not self.started if ended is None else ended.state == "CANCELLED"

    def refusal(self, ended: queue.Job | None) -> str:
        """Say what it was refused, or why it could not begin; empty of one that did its work."""
        if self.refused:
            return f"job {self.id}: {self.failure}"
        if self.started or ended is None or ended.state not in queue.BY_ITSELF:
            return ""
        log = self.place.submission.log(self.place.index)
        return (
            f"job {self.id} ended as {ended.state} on {ended.node or 'its node'} before it began: "
            f"mend execution.setup, or what the node lacks. The last words of its log, {log}: "
            f"{last_words(log) or 'none'}"
        )

    def ending(self, ended: queue.Job | None) -> str:
        """Say how the job ended, as far as it or Slurm tells, and where in the run its log is."""
        why = "is no longer known to Slurm" if ended is None else f"ended as {ended.state}"
        told = f" ({self.failure})" if self.failure else ""
        submission = self.place.submission
        log = (submission.log(self.place.index) or submission.logs).relative_to(submission.root)
        return f"job {self.id} {why}{told}; its log in the folder of the run: {log}"
