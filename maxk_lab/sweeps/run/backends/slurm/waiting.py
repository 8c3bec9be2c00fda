"""The reasons for which jobs wait in the queue, and which of them do not pass by themselves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from maxk_lab.sweeps.run.backends.slurm import queue

# Limits that a job is beyond by itself, whatever else runs; what it asks for and no node has; and
# jobs that somebody, or Slurm after failures, holds.
_STAYS = re.compile(
    r"held|PerJob|BadConstraints|Invalid|MaxSubmit|MaxMemPerLimit|NeverSatisfied|NotAllowed"
    r"|Partition(Time|Node)Limit|Partition(Down|Inactive)",
    re.IGNORECASE,
)


def waiting(jobs: Iterable[queue.Job]) -> dict[str, Any]:
    """Return how many jobs wait for each reason, and how many run: the payload of `jobs`."""
    queued, running = Counter[str](), 0
    for job in jobs:
        if job.state in queue.QUEUED:
            queued["" if job.reason == "None" else job.reason] += 1
        else:
            running += not job.has_ended
    return {"queued": dict(sorted(queued.items())), "running": running}


def stuck(reasons: Iterable[str]) -> dict[str, str]:
    """Return the reasons that do not pass by themselves, each with what to do."""
    return {reason: _advice(reason) for reason in reasons if _STAYS.search(reason)}


def _advice(reason: str) -> str:
    if "held" in reason.lower():
        return "scontrol release JOB lets a job go on; its log says what failed, if anything did"
    return "cancel them, and ask for something else in execution of the sweep file"
