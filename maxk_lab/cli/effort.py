"""The effort that is left of a run: its time, and the jobs that its units are packed in.

It is told from the records of the run or, before any unit has been timed, from its work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from maxk_lab.cli.console import estimate
from maxk_lab.sweeps.plan.packing import MOST_JOBS, packs
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.progress import seconds_of_units
from maxk_lab.sweeps.run.records import RunDirectory

# A job starts a worker of its own, which takes so long.
START_SECONDS = 3.0


@dataclass(frozen=True)
class Effort:
    """The rest of a run: seconds by the clock, and the hours that nodes are taken.

    `workers` units or jobs are at work at once. `packs` counts the units of each job, where the
    backend packs them; `measured` says whether units of this run were timed.
    """

    backend: str
    workers: int
    seconds: float
    node_hours: float
    measured: bool
    packs: tuple[int, ...] | None = None

    def sentence(self) -> str:
        """Return the time and the hours as `plan` prints them."""
        how = f"with {self.workers} {'process' if self.workers == 1 else 'processes'} here"
        if self.backend != "local":
            count = len(self.packs) if self.packs else self.workers
            what = "jobs, once they run" if self.packs else "units at once"
            how = f"on {self.backend} with {count} {what}; {self.node_hours:.2g} node hours"
        source = "from units of this run" if self.measured else "nothing has been timed yet"
        return f"{estimate(self.seconds)} {how} ({source})"


def effort_left(plan: Plan, run: RunDirectory, state: Mapping[str, str], jobs: int) -> Effort:
    """Return the effort for the cells that are missing, with `jobs` processes where that counts."""
    times, measured = seconds_of_units(plan, run, state)
    backend, parameters = plan.spec.execution.backend, plan.spec.execution.parameters
    most = {"slurm": parameters.get("array"), "ray": parameters.get("slots")}.get(backend) or jobs
    workers = max(1, min(most, len(times)))
    work = sum(times.values())
    if backend == "local" or "pack" not in parameters or not times:
        hours = (work / workers if backend == "local" else work) / 3600
        return Effort(backend, workers, work / workers, hours, measured)
    each = None if parameters["pack"] == "auto" else parameters["pack"]
    packed = packs([*times], [*times.values()], MOST_JOBS, at_once=workers, each=each)
    workers = min(workers, len(packed))
    work += START_SECONDS * len(packed)
    longest = START_SECONDS + max(sum(times[unit] for unit in pack) for pack in packed)
    seconds, sizes = max(work / workers, longest), tuple(map(len, packed))
    return Effort(backend, workers, seconds, work / 3600, measured, sizes)
