"""The overview of a run: what is done in it, when it last changed and what room it takes."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.changes import changed_since
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.records import RunDirectory


@dataclass(frozen=True)
class Overview:
    """The state of a run on disk.

    Of the `planned` cells each is `done`, `failed`, `missing`, or has a record that is of no use.
    `stale` counts the records that the plan does not use, `damaged` those that are damaged. Where
    it is not known what is planned, `planned` and `missing` are None.
    `changed` is in seconds since 1970, `size` in bytes; `claims` says how many the sweep makes,
    `changed_since` what is no more as it was measured, such as a function of the user's own, with
    which the cells would not be done, and `wrong` what cannot be told.
    """

    name: str
    folder: Path
    changed: float
    description: str = ""
    planned: int | None = None
    done: int = 0
    failed: int = 0
    missing: int | None = None
    stale: int = 0
    damaged: int = 0
    size: int = 0
    claims: int = 0
    changed_since: tuple[str, ...] = ()
    wrong: str = ""


def overview(run: RunDirectory) -> Overview:
    """Return the overview of a run, also of one that is damaged."""
    description, planned, claims = "", None, 0
    changed: list[str] = []
    wrong: list[str] = []
    try:
        spec = run.spec()
        description, claims = spec.description, len(spec.claims)
        planned = {cell.id for cell in make_plan(spec).cells}
        changed = changed_since(spec)
    except LabError as error:
        wrong.append(str(error).splitlines()[0])
    try:
        states = {cell: head.status for cell, head in run.heads.items()}
    except LabError as error:
        wrong.append(str(error))
        states = {}
    known = Counter(state for cell, state in states.items() if planned is None or cell in planned)
    return Overview(
        name=run.name,
        folder=run.place,
        changed=run.changed,
        description=description,
        planned=None if planned is None else len(planned),
        done=known["done"],
        failed=known["failed"],
        missing=None if planned is None else len(planned - states.keys()),
        stale=len(states) - known["done"] - known["failed"],
        damaged=len(run.problems),
        size=size_of(run.place),
        claims=claims,
        changed_since=tuple(changed),
        wrong="; ".join(wrong),
    )


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder, through no link in it."""
    try:
        if not path.is_dir():
            return path.lstat().st_size
        with os.scandir(path) as entries:
            return sum(
                size_of(Path(entry.path))
                if entry.is_dir(follow_symlinks=False)
                else entry.stat(follow_symlinks=False).st_size
                for entry in entries
            )
    except OSError:  # gone meanwhile, or not to be read
        return 0
