"""Worker processes, one for each unit; one that dies takes only its own unit's cells with it."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace

from maxk_lab.sweeps.run.events import Teller
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.run.worker import Task, run_unit, start_worker

POLL_SECONDS = 0.1


def run_tasks(tasks: Sequence[Task], run: RunDirectory, *, jobs: int, tell: Teller) -> None:
    """Run every task in `jobs` worker processes; each cell has a record when this returns.

    One dead worker breaks a whole pool, so what was running then is run again one by one, each in a
    pool of its own: the task that breaks that one, too, has its open cells recorded as failed.
    """
    log = _Log(tell)
    waiting = list(tasks)
    while waiting:
        if not _run_pool(waiting, jobs, log):
            break
        suspects = [
            task for task in waiting if task.key in log.started and task.key not in log.finished
        ]
        rest = [task for task in waiting if task.key not in log.started]
        if not suspects:
            raise RuntimeError(
                "worker processes end before they begin to work; see the messages above"
            )
        tell("worker_died", units=[task.label for task in suspects])
        for task in suspects:
            task = log.remaining(task)
            if task.cells and _run_pool([task], 1, log):
                _record_death(log.remaining(task), run, tell)
        waiting = rest


class _Log:
    """The tasks that began and ended, and the cells with a record, from the workers' events."""

    def __init__(self, tell: Teller) -> None:
        self._tell = tell
        self.started: set[int] = set()
        self.finished: set[int] = set()
        self.recorded: set[str] = set()

    def follow(self) -> None:
        for name, payload in self._tell.pass_on():
            if name == "unit_started":
                self.started.add(payload["key"])
            elif name == "unit_finished":
                self.finished.add(payload["key"])
            elif name in ("cell_done", "cell_failed"):
                self.recorded.add(payload["cell"])

    def remaining(self, task: Task) -> Task:
        """Return the task without the cells that have their record already."""
        return replace(
            task, cells=tuple(cell for cell in task.cells if cell["id"] not in self.recorded)
        )


def _run_pool(tasks: Sequence[Task], jobs: int, log: _Log) -> bool:
    """Run tasks in one pool of workers and return whether it broke; exceptions stop the workers."""
    context = multiprocessing.get_context("spawn")
    # Workers hold the reading end and leave at end of file: when this process closes or dies.
    reading, writing = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)), mp_context=context, initializer=start_worker, initargs=(reading,)
    )
    try:
        with _sigint_blocked():
            futures = [pool.submit(run_unit, task) for task in tasks]
        broken = _wait(futures, log)
    except BrokenProcessPool:
        broken = True  # already while submitting
    except BaseException:
        writing.close()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown(wait=True, cancel_futures=True)
    writing.close()
    reading.close()
    log.follow()
    return broken


def _wait(futures: Sequence[Future[None]], log: _Log) -> bool:
    """Follow the events until all futures are done, and return whether a worker died."""
    pending, broken = set(futures), False
    while pending:
        done, pending = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
        log.follow()
        for future in done:
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                broken = True
            elif error is not None:
                raise error
    return broken


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block Ctrl-C for the processes that start in here; this one gets it afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _record_death(task: Task, run: RunDirectory, tell: Teller) -> None:
    error = (
        "the worker process died while measuring the cells of this unit (out of memory, or killed?)"
    )
    for cell in task.cells:
        run.write(Record(cell, "failed", None, error, task.provenance, {}))
        tell(
            "cell_failed",
            cell=cell["id"],
            error=error,
            unit=task.label,
            key=task.key,
            cell_ids=task.cell_ids,
        )
