"""The jobs of a run, as `maxk-lab status` shows and `maxk-lab status --cancel` ends them."""

from __future__ import annotations

from maxk_lab.sweeps.run.backends.jobs import Jobs, JobState, State
from maxk_lab.sweeps.run.backends.slurm import queue
from maxk_lab.sweeps.run.backends.slurm.history import History
from maxk_lab.sweeps.run.backends.slurm.placing import alone, living
from maxk_lab.sweeps.run.backends.slurm.submission import FOLDER, Submission, submissions
from maxk_lab.sweeps.run.records import RunDirectory


def jobs(run: RunDirectory) -> Jobs:
    """Return the jobs of a run that may run, and those of the same arrays that have ended.

    Where Slurm does not answer, what they are doing is not known, and it says why.
    """
    open_ = [one for one in submissions(run) if not one.over]
    if not open_:
        return Jobs(())
    try:
        found, trouble = queue.jobs(one.name for one in open_), ""
    except queue.QueueError as error:
        found, trouble = [], str(error)
    states = []
    for submission in open_:
        count = len(submission.packs)
        known = queue.by_index(found, submission.name, count)
        states += [
            _state(submission, index, known.get(index), known=not trouble) for index in range(count)
        ]
    return Jobs(tuple(states), trouble)


def _state(submission: Submission, index: int, job: queue.Job | None, *, known: bool) -> JobState:
    """Return what a job is doing, by what Slurm says of it and by its own log."""
    history = History.read(submission.events(index))
    state, reason = _doing(job, history, known=known)
    return JobState(
        id=submission.id(index) or submission.name,
        state=state,
        reason=reason,
        host=history.host if job is None or not job.node else job.node,
        units=submission.packs[index],
        cells=submission.cells[index],
        told=len(history.told),
        events=str(submission.events(index)),
        log=str(submission.log(index) or ""),
    )


def _doing(job: queue.Job | None, history: History, *, known: bool) -> tuple[State, str]:
    """Return what a job is doing, and why."""
    if history.finished:
        return "finished", ""
    if not known:
        return "not known", ""
    if job is None or job.has_ended:
        return "ended", history.failure or ("" if job is None else job.state)
    reason = "" if job.reason == "None" else job.reason
    return ("queued" if job.state in queue.QUEUED else "running"), reason


def cancel(run: RunDirectory) -> list[str]:
    """Cancel every job of a run that waits or runs, and return their ids. Raises `QueueError`.

    Those that run write checkpoints, where they can, before they leave. What another process is
    submitting is waited for, and cancelled, too.
    """
    if not (run.root / FOLDER).is_dir():
        return []
    ended = []
    with alone(run):
        for submission, indices in living(run):
            queue.cancel([submission.id(index) for index in indices])
            ended += [submission.id(index) for index in indices]
            # A job that Slurm starts at this very moment leaves at once.
            submission.changed(over=True)
    return ended
