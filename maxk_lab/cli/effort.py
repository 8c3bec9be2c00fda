"""The effort that is left of a run: its time, and the jobs that its units are packed in.

It is told from the records of the run or, before any unit has been timed, from its work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxk_lab.cli.console import duration

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory

# A job starts a worker of its own, which takes so long.
START_SECONDS = 3.0
_ROUGHLY = "a rough guess: nothing has been timed yet"


@dataclass(frozen=True)
class Effort:
    """The rest of a run: `seconds` by the clock, `work` of all units one after the other,
    with the start of each job.

    `packs` are the units of each job, where the backend packs them. `measured` says whether units
    of this run were timed.
    """

    backend: str
    workers: int
    seconds: float
    work: float
    measured: bool
    packs: tuple[int, ...] | None = None
    needs: str = ""

    @property
    def node_hours(self) -> float:
        """The hours that nodes are taken, where a job, or this machine, counts as a node."""
        return (self.seconds if self.backend == "local" else self.work) / 3600

    def sentence(self) -> str:
        """Return what `plan` says of it."""
        about = f"about {duration(self.seconds)}"
        digits = 0 if self.node_hours >= 100 else 2
        hours = f"{max(self.node_hours, 0.01):,.{digits}f} node hours"
        if self.node_hours < 0.01:
            hours = f"less than {hours}"
        source = "from units of this run" if self.measured else _ROUGHLY
        if self.backend == "local":
            how = f"with {counted(self.workers, 'process')} of this machine"
        elif self.packs is None:
            how = f"on {self.backend} with {counted(self.workers, 'unit')} at once"
            how += f", each on {self.needs}"
        else:
            least, most = min(self.packs), max(self.packs)
            each = f"{least} to {counted(most, 'unit')}" if least < most else counted(most, "unit")
            how = f"on {self.backend} once its jobs run: "
            how += f"{counted(len(self.packs), 'job')} of {each}, each on {self.needs}"
            if len(self.packs) > self.workers:
                how += f", at most {self.workers} at once"
        return f"{about} {how}; {hours} ({source})"

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "backend": self.backend,
            "workers": self.workers,
            "packs": None if self.packs is None else list(self.packs),
            "node_hours": self.node_hours,
        }


def effort_left(plan: Plan, run: RunDirectory, state: Mapping[str, str], jobs: int) -> Effort:
    """Return the effort for the cells that are missing, with `jobs` processes where that counts."""
    from maxk_lab.sweeps.plan.packing import MOST_JOBS, packs
    from maxk_lab.sweeps.run.progress import seconds_of_units

    times, measured = seconds_of_units(plan, run, state)
    execution, work = plan.spec.execution, sum(times.values())
    parameters = execution.parameters
    needs = counted(execution.cpus, "core")
    if execution.gpus:
        needs += f" and {counted(execution.gpus, 'GPU')}"
    most = {"slurm": parameters.get("array"), "ray": parameters.get("slots")}
    workers = max(1, min(most.get(execution.backend) or jobs, len(times)))
    packed = None
    seconds = work / workers
    if "pack" in parameters and times:
        each = None if parameters["pack"] == "auto" else parameters["pack"]
        found = packs(list(times), list(times.values()), MOST_JOBS, at_once=workers, each=each)
        packed = tuple(map(len, found))
        workers = min(workers, len(found))
        work += START_SECONDS * len(found)
        longest = max(sum(times[unit] for unit in pack) for pack in found)
        seconds = max(work / workers, longest + START_SECONDS)
    return Effort(execution.backend, workers, seconds, work, measured, packed, needs)


def counted(count: float, noun: str) -> str:
    """Return a count with its noun, e.g. `2 units`."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{count:,g} {noun}{plural if count > 1 else ''}"
