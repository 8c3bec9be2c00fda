"""Submissions: the arrays of jobs that a run has submitted, in `<run>/jobs/<name>/`.

What a submission consists of is written before Slurm is asked to take it, and its jobs bear its
name: whoever comes after a process that was killed in between finds them in the queue.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from maxk_lab.files import write_atomically
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.execution import Execution

FOLDER = "jobs"
_PREFIX = "maxk-lab-"
_FILE, _TASKS, _EVENTS, _LOGS = "submission.json", "tasks.json", "events.log", "slurm"


class Submission(BaseModel):
    """An array of jobs: `packs` has the keys of the tasks of each job, `cells` how many cells.

    `execution` is the block of the sweep of that name. `number` is that of the
    array in Slurm, empty until it has answered. One that is `over` has no job any more that could
    run: a job of it that starts all the same leaves at once.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    # The folder of the run, of which the file itself says nothing: it may be moved.
    root: Annotated[Path, Field(exclude=True)]
    name: Annotated[str, Field(pattern=rf"^{_PREFIX}[0-9a-f]{{12}}$")]
    made: float
    packs: tuple[tuple[str, ...], ...]
    cells: tuple[int, ...]
    execution: dict[str, Any]
    number: Annotated[str, Field(pattern=r"^[0-9]{0,20}$")] = ""
    over: bool = False

    @classmethod
    def write_new(
        cls,
        run: RunDirectory,
        packs: Sequence[Sequence[Task]],
        execution: Execution,
    ) -> Submission:
        """Write a submission with the tasks of its jobs. Raises `StorageError`."""
        submission = cls(
            root=run.root.absolute(),
            name=_PREFIX + secrets.token_hex(6),
            made=time.time(),
            packs=tuple(tuple(task.key for task in pack) for pack in packs),
            cells=tuple(sum(len(task.cells) for task in pack) for pack in packs),
            execution=execution.model_dump(mode="json"),
        )
        for index, pack in enumerate(packs):
            content = json.dumps([asdict(task) for task in pack])
            write_atomically(submission.of(index) / _TASKS, content.encode())
        submission._write()
        return submission

    @classmethod
    def read(cls, root: Path, name: str) -> Submission:
        """Return the submission of this name. Raises `OSError` or `ValueError`."""
        content = json.loads((root / FOLDER / name / _FILE).read_bytes())
        if not isinstance(content, dict) or content.get("name") != name:
            raise ValueError("it is no submission")
        return cls.model_validate(content | {"root": root})

    def changed(self, **changes: Any) -> Submission:
        """Return it with these changes, which are kept, and those that others have made meanwhile.

        Raises `StorageError`.
        """
        try:
            now = Submission.read(self.root, self.name)
        except (OSError, ValueError):
            now = self
        submission = now.model_copy(update=changes)
        submission._write()
        return submission

    def _write(self) -> None:
        write_atomically(self.folder / _FILE, self.model_dump_json().encode())

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return self.root / FOLDER / self.name

    @property
    def logs(self) -> Path:
        """The folder where submitit keeps its files, and the jobs their output."""
        return self.folder / _LOGS

    def of(self, index: int) -> Path:
        """Return the folder of a job."""
        return self.folder / str(index)

    def events(self, index: int) -> Path:
        """Return the file of the events of a job."""
        return self.of(index) / _EVENTS

    def id(self, index: int) -> str:
        """Return the id of a job that Slurm's commands take; empty until Slurm has answered."""
        return f"{self.number}_{index}" if self.number and len(self.packs) > 1 else self.number

    def log(self, index: int) -> Path | None:
        """Return the file of what a job prints; None until Slurm has answered."""
        return self.logs / f"{self.id(index)}_0_log.out" if self.number else None

    def limits(self) -> Execution:
        """Return the execution block. Raises `ValueError`."""
        return Execution.model_validate(self.execution)

    def tasks(self, index: int) -> list[Task]:
        """Return the tasks of a job; none where they cannot be read."""
        try:
            content = json.loads((self.of(index) / _TASKS).read_bytes())
        except (OSError, ValueError):
            return []
        lists = ("cells", "lab", "own")
        return [Task(**task | {name: tuple(task[name]) for name in lists}) for task in content]


def submissions(run: RunDirectory) -> list[Submission]:
    """Return the submissions of a run, the oldest first; what is none is left out."""
    root = run.root.absolute()
    found = []
    for path in (root / FOLDER).glob(f"{_PREFIX}*/{_FILE}"):
        try:
            found.append(Submission.read(root, path.parent.name))
        except (OSError, ValueError):
            continue
    return sorted(found, key=lambda one: (one.made, one.name))
