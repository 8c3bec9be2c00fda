"""The progress of a job in a file that it rewrites, for its next start and for who waits for it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from maxk_lab.files import StorageError, write_atomically


@dataclass
class Progress:
    """How far a job is, which may be started several times; of one that never was it has no `host`.

    `units` are those in hand by the keys of their tasks, each with what it told last. `reached` is
    the most that each phase of a unit has reached in this start, and `before` the same of the start
    before, where it has no record since. `losses` counts the starts that ended in the middle of a
    unit: those of a node that was lost. A start that was asked to leave, and did, has `left`;
    `error` is what ended it where it was refused something, such as room on the disk.
    """

    host: str = ""
    units: dict[str, dict[str, Any]] = field(default_factory=dict)
    reached: dict[str, dict[str, float]] = field(default_factory=dict)
    before: dict[str, dict[str, float]] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)
    left: bool = False
    error: str = ""

    @classmethod
    def read(cls, folder: Path, index: int) -> Self:
        """Return that of a job of a submission."""
        try:
            return cls(**json.loads((folder / f"{index}.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return cls()

    def write(self, folder: Path, index: int) -> None:
        """Write it; where that cannot be done, the job goes on."""
        with suppress(StorageError):
            write_atomically(folder / f"{index}.json", json.dumps(vars(self)).encode())

    def begin(self) -> None:
        """Begin another start, on this node."""
        self.losses |= {key: self.losses.get(key, 0) + 1 for key in self.units}
        # What was lost begins again where it was, and need not come as far.
        self.before |= {key: seen for key, seen in self.reached.items() if key not in self.units}
        self.host, self.units, self.reached = os.uname().nodename, {}, {}
        self.left, self.error = False, ""

    def take_in(self, name: str, key: str, payload: Mapping[str, Any]) -> None:
        """Take in an event of a unit."""
        if name == "unit_started":
            self.units[key] = {}
            self.reached.setdefault(key, {})
        elif name in ("unit_finished", "left"):
            self.units.pop(key, None)
        elif name in ("cell_done", "cell_failed"):
            self.before.pop(key, None)
        elif name == "progress" and key in self.units:
            self.units[key] = dict(payload)
            reached, step = self.reached[key], payload.get("step", payload.get("done", 0))
            reached[payload["phase"]] = max(step, reached.get(payload["phase"], step))

    def stands_still(self, key: str) -> bool:
        """Whether a unit was begun again, and came no further than in the start before."""
        reached, before = self.reached.get(key), self.before.get(key)
        if reached is None or before is None:
            return False
        return all(step <= before.get(phase, -1) for phase, step in reached.items())
