"""Runs sent to W&B while a sweep is measured: each as soon as all of its cells are.

A thread of its own does it, so that neither a slow network nor a dead one is waited for. It reads
the records, holds no run open, and sends each once and whole: what a killed sweep has sent is right
as it is. W&B itself tries again while it may; where it gives up, no more is sent until the end.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import first_line
from maxk_lab.tracking.wandb_tracker import NoKeyError, Sender, log_in, set_up

if TYPE_CHECKING:
    from maxk_lab.execution.records import RunDirectory
    from maxk_lab.planning.plan import Plan

# The events that tell which cells have a record now.
_RECORDED = ("cell_done", "cell_failed")


class Live:
    """Sends the runs of a sweep to W&B while `event` is told what happens.

    `sent` has the addresses of the runs that are there, by their ids.
    """

    def __init__(self, run: RunDirectory, plan: Plan, mode: str = "online") -> None:
        self.sent: dict[str, str] = {}
        # Whatever the current folder is: it is another one while W&B is started.
        self._root = run.root.absolute()
        self._plan, self._mode = plan, mode
        # The run at W&B of each cell that is still to be measured, and how many cells it waits for.
        self._key_of: dict[str, str] = {}
        self._left: Counter[str | None] = Counter()
        self._ready: SimpleQueue[str | None] = SimpleQueue()
        self._notes: list[str] = []
        self._ended = False
        # Neither an exit nor a signal waits for W&B, as both would for the thread of an executor.
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)

    def event(self, name: str, payload: Mapping[str, Any]) -> list[str]:
        """Take in an event of the sweep, and return what its user is to know by now.

        For the main thread. W&B is started when it is told that there is something to measure;
        whatever is wrong with it becomes a note.
        """
        if name == "run_started" and payload["cell_ids"]:
            self._start(set(payload["cell_ids"]))
        if name in _RECORDED:
            key = self._key_of.pop(payload["cell"], None)
            self._left[key] -= 1
            if key is not None and not self._left[key]:
                self._ready.put(key)
        return [self._notes.pop(0) for _ in list(self._notes)]

    def end(self, seconds: float) -> dict[str, str]:
        """Send no more but the run that is being sent, if it takes no longer; return `sent`."""
        self._ended = True
        self._ready.put(None)
        if self._thread.is_alive():
            self._thread.join(seconds)
        return dict(self.sent)

    def _start(self, cells: set[str]) -> None:
        from maxk_lab.tracking.payload import group_key

        to_measure = (cell for cell in self._plan.cells if cell.id in cells)
        self._key_of = {cell.id: group_key(cell.as_dict()) for cell in to_measure}
        self._left = Counter(self._key_of.values())
        try:
            set_up()
        except (Exception, SystemExit) as error:
            self._note(error)
        else:
            self._thread.start()

    def _work(self) -> None:
        from maxk_lab.execution.records import RunDirectory

        try:
            # At once: who has forgotten the key is to know it before the sweep is over.
            if self._mode == "online":
                log_in()
            # A reader of its own: that of the sweep is not made for two threads.
            sender = Sender(RunDirectory(self._root), self._plan, self._mode)
            for key in iter(self._ready.get, None):
                if not self._ended:
                    self.sent |= sender.send_key(key)
        except (Exception, SystemExit) as error:
            self._note(error)

    def _note(self, error: BaseException) -> None:
        what = "" if isinstance(error, NoKeyError) else f"{type(error).__name__}: "
        self._notes.append(
            f"the sweep goes on, and W&B gets nothing meanwhile: {what}{first_line(error)}"
        )
