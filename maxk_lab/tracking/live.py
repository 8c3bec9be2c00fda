"""Runs sent to W&B while a sweep is measured: each as soon as all of its cells are.

A thread of its own does it, so that neither a slow network nor a dead one is waited for. It reads
the records, holds no run open, and sends each once and whole: what a killed sweep has sent is right
as it is, and what could not be sent is sent at the end, with all else.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import first_line
from maxk_lab.tracking.session import NoKeyError, log_in, set_up

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory

# The events of a run that tell which cells are to be measured, and which have a record now.
_BEGINNING = "run_started"
_HEARD = (_BEGINNING, "cell_done", "cell_failed", "measured_elsewhere")
# Seconds before W&B is tried again after it has failed, and between two looks at what there is.
PAUSE, _LOOK = 120.0, 0.2


class Live:
    """Sends the runs of a sweep to W&B while `event` is told what happens.

    `sent` has the addresses of the runs that are there, by their ids.
    """

    def __init__(
        self, run: RunDirectory, plan: Plan, mode: str = "online", *, pause: float = PAUSE
    ) -> None:
        self.sent: dict[str, str] = {}
        # Whatever the current folder is: it is another one while W&B is started.
        self._root = run.root.absolute()
        self._plan, self._mode, self._pause = plan, mode, pause
        self._events: SimpleQueue[tuple[str, Mapping[str, Any]]] = SimpleQueue()
        self._notes: SimpleQueue[str] = SimpleQueue()
        self._ended, self._failed = threading.Event(), False
        # Neither an exit nor a signal waits for W&B.
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)

    def event(self, name: str, payload: Mapping[str, Any]) -> list[str]:
        """Take in an event of the sweep, and return what its user is to know by now.

        For the main thread. W&B is started when it is told that there is something to measure;
        whatever is wrong with it becomes a note.
        """
        if name == _BEGINNING and payload["cell_ids"]:
            self._start()
        if name in _HEARD:
            self._events.put((name, payload))
        notes = []
        while not self._notes.empty():
            notes.append(self._notes.get())
        return notes

    def end(self, seconds: float) -> dict[str, str]:
        """Send no more but the run that is being sent, if it takes no longer; return `sent`."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return dict(self.sent)

    def _start(self) -> None:
        try:
            set_up()
        except (Exception, SystemExit) as error:
            self._note(error)
        else:
            self._thread.start()

    def _work(self) -> None:
        from maxk_lab.sweeps.run.records import RunDirectory

        # A reader of its own: that of the sweep is not made for two threads.
        sender = _Sender(RunDirectory(self._root), self._plan, self._mode)
        again = 0.0
        while not self._ended.is_set():
            with suppress(Empty):
                sender.hear(*self._events.get(timeout=_LOOK))
            if time.monotonic() < again:
                continue
            try:
                # At once: who has forgotten the key is to know it before the sweep is over.
                if not sender.logged_in:
                    sender.log_in()
                elif sender.ready:
                    self.sent |= sender.send_next()
            except (Exception, SystemExit) as error:
                self._note(error)
                if isinstance(error, NoKeyError):
                    return
                again = time.monotonic() + self._pause

    def _note(self, error: BaseException) -> None:
        """Take note of what is wrong, once: the rest is told when all is sent at the end."""
        if not self._failed:
            self._failed = True
            what = "" if isinstance(error, NoKeyError) else f"{type(error).__name__}: "
            self._notes.put(
                f"the sweep goes on, and W&B gets nothing meanwhile: {what}{first_line(error)}"
            )


class _Sender:
    """Knows which runs are ready to be sent: those of which no cell is still to be measured."""

    def __init__(self, run: RunDirectory, plan: Plan, mode: str) -> None:
        self.ready: deque[str] = deque()
        self.logged_in = mode != "online"
        self._run, self._plan, self._mode = run, plan, mode
        self._waiting: dict[str, set[str]] = {}
        self._key_of: dict[str, str] = {}

    def log_in(self) -> None:
        """Log in to W&B. Raises as `session.log_in`."""
        log_in()
        self.logged_in = True

    def hear(self, name: str, payload: Mapping[str, Any]) -> None:
        """Take in an event."""
        from maxk_lab.tracking.payload import group_key

        if name == _BEGINNING:
            self._key_of = {cell.id: group_key(cell.as_dict()) for cell in self._plan.cells}
            for cell_id in payload["cell_ids"]:
                self._waiting.setdefault(self._key_of[cell_id], set()).add(cell_id)
            return
        for cell_id in payload.get("cells", [payload.get("cell")]):
            key = self._key_of[cell_id]
            self._waiting[key].discard(cell_id)
            if not self._waiting[key] and key not in self.ready:
                self.ready.append(key)

    def send_next(self) -> dict[str, str]:
        """Send the run that has been ready longest; return its address by its id."""
        from maxk_lab.tracking.payload import groups, payload
        from maxk_lab.tracking.sending import send
        from maxk_lab.tracking.wandb_tracker import as_written, target_of

        spec, key = self._plan.spec, self.ready[0]
        cells = (cell for cell in self._plan.cells if self._key_of[cell.id] == key)
        records = [self._run.read(cell.id, cell) for cell in cells]
        target = target_of(self._run, self._plan, self._mode)
        title, sent = self._run.title(spec), {}
        for group in groups(record for record in records if record is not None):
            one = payload(title, as_written(spec), group, spec.tracking.tags)
            sent[one.run_id] = send(one, target)
        self.ready.popleft()
        return sent
