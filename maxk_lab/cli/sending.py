"""Sending to W&B in `run` and `track`: during a sweep, and everything at its end."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from maxk_lab.cli.console import estimate, say, warn
from maxk_lab.errors import first_line
from maxk_lab.execution.todo import Run
from maxk_lab.tracking import wandb_tracker
from maxk_lab.tracking.wandb_tracker import Live, chosen_mode

NOTHING_TRACKED = "nothing was tracked (the warning says why)"
# Seconds between two lines about the progress.
_QUIET = 5.0
# The most seconds that the end of a sweep waits for a run in transmission.
_LAST_RUN = 60.0


def lines(mode: str, clock: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """A function that prints, from time to time, the number of sent runs and the time left."""
    what = "runs sent to W&B" if mode == "online" else "runs written for W&B"
    start = printed = clock()

    def print_progress(done: int, of: int) -> None:
        nonlocal printed
        now, words = clock(), f"{done} of {of} {what}"
        if done == of - 1:
            words += "; the last has the tables and the report"
        elif now - printed >= _QUIET and done < of:
            words += f", {estimate((now - start) / done * (of - done))} left"
        else:
            return
        say(words)
        printed = now

    return print_progress


def sync_command(places: Sequence[str]) -> str:
    """Return the command that sends offline runs, all in one folder."""
    # The shell expands a pattern only if it is not quoted.
    return f"wandb sync {shlex.quote(str(Path(places[0]).parent))}/offline-run-*"


def live_sending(run: Run) -> tuple[str, Live | None]:
    """Return the mode of W&B and a sender for finished trainings; the sender is None without W&B.

    Prints the environment variable that determines the mode.
    """
    mode, line = chosen_mode(run.plan.spec.tracking.wandb)
    if line:
        say(line)
    return mode, None if mode == "disabled" else Live(run.folder, run.plan, mode)


def send_all(
    run: Run, mode: str, live: Live | None, *, news: bool, last: bool
) -> tuple[list[str], str]:
    """Send all records to W&B. A failure of W&B does not fail the sweep.

    Return the written places, and the losses for the summary of the run. Nothing is sent without
    `news`; of several processes in a run, only the `last` sends.
    """
    if mode == "disabled":
        return [], ""
    again = f"WANDB_MODE={mode} maxk-lab track {shlex.quote(str(run.folder.root))}"
    if not news:
        say(f"Nothing new to send to W&B; to send all records: {again}")
        return [], ""
    sent = live.end(_LAST_RUN if last else 0.0) if live else {}
    if not last:
        say(
            "Not sent to W&B: another process still works in this run, and sends all when it ends; "
            f"or do so with: {again}"
        )
        return list(sent.values()), ""
    say("Sending to W&B" if mode == "online" else "Writing files for W&B")
    try:
        places = wandb_tracker.track(
            run.folder, mode, plan=run.plan, sent=sent, progress=lines(mode)
        )
        if places and mode == "offline":
            say(f"Send them with: {sync_command(places)}")
        return places, ""
    except wandb_tracker.TrackingError as error:
        warn(f"not tracked: {error}")
        return error.sent, "tracked in part only" if error.sent else NOTHING_TRACKED
    except Exception as error:
        warn(f"not tracked: {first_line(error)}; try again with: {again}")
        return [], NOTHING_TRACKED
