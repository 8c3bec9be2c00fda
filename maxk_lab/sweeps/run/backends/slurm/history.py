"""The history of a job out of its events: what it has measured, lost, and how far it came."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from maxk_lab.sweeps.run.backends.slurm.log import Log


@dataclass
class History:
    """All starts of a job so far; its units are named by the keys of their tasks.

    `host` is the node of the last start, `finished` whether nothing is left to do, and `failure`
    what ended it.

    `told` are the cells with a record. `losses` counts the starts of the job that ended in the
    middle of a unit without a word: those of a node that was lost. `furthest` is the most that each
    phase of a unit has reached.
    """

    told: set[str] = field(default_factory=set)
    starts: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    furthest: dict[str, dict[str, float]] = field(default_factory=dict)
    host: str = ""
    finished: bool = False
    failure: str = ""
    _open: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the history in the log at `path`; of a job that never started it is empty."""
        history = cls()
        for name, payload in Log(path).new():
            history._take_in(name, payload)
        history._close()
        return history

    def _take_in(self, name: str, payload: dict[str, Any]) -> None:
        key, cell = str(payload.get("key")), payload.get("cell")
        if name == "job_started":
            self._close()
            self.host, self.finished, self.failure = str(payload.get("host", "")), False, ""
        elif name == "job_finished":
            self.finished = True
        elif name == "job_failed":
            self.failure = str(payload.get("error", ""))
        elif name == "job_signalled":
            self._open.clear()
        elif name == "unit_started":
            self.starts[key] += 1
            self._open.add(key)
        elif name in ("unit_finished", "left"):
            self._open.discard(key)
        elif name in ("cell_done", "cell_failed") and isinstance(cell, str):
            self.told.add(cell)
            self._reaches(key, "cells", self.furthest.get(key, {}).get("cells", 0) + 1)
        elif name == "progress":
            reached = payload.get("step", payload.get("done"))
            if isinstance(reached, int | float):
                self._reaches(key, str(payload.get("phase")), reached)

    def _reaches(self, key: str, phase: str, reached: float) -> None:
        phases = self.furthest.setdefault(key, {})
        phases[phase] = max(reached, phases.get(phase, reached))

    def _close(self) -> None:
        """Count what was being measured when a start of the job ended."""
        self.losses.update(self._open)
        self._open.clear()

    def stands_still(self, before: History, key: str) -> bool:
        """Whether a unit that was begun before was begun again, and came no further than then."""
        begun_again = self.starts[key] > before.starts[key] > 0
        return begun_again and self.furthest.get(key) == before.furthest.get(key)
