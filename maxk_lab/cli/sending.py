"""Sending to W&B as `run` and `track` do it: while a sweep is measured, and all at its end."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from maxk_lab.cli.console import estimate, say, warn
from maxk_lab.errors import first_line
from maxk_lab.execution.todo import Run
from maxk_lab.tracking import wandb_tracker
from maxk_lab.tracking.live import Live

NOTHING_TRACKED = "nothing was tracked (the warning says why)"
# Seconds between two lines about how far the sending is.
_QUIET = 5.0
# Seconds that a run which is just being sent is waited for at the end of a sweep.
_LAST_RUN = 60.0


def lines(mode: str, clock: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """Return a function that prints now and then how many runs are sent, and the time left."""
    what = "runs sent to W&B" if mode == "online" else "runs written for W&B"
    start = printed = clock()

    def print_progress(done: int, of: int) -> None:
        nonlocal printed
        now, words = clock(), f"{done} of {of} {what}"
        if done == of - 1:
            words += "; the last has the report and the bundle"
        elif now - printed >= _QUIET and done < of:
            words += f", {estimate((now - start) / done * (of - done))} left"
        else:
            return
        say(words)
        printed = now

    return print_progress


def sync_command(places: Sequence[str]) -> str:
    """Return the command that sends offline runs, all in one folder."""
    # The shell takes a pattern for one only where it is not quoted.
    return f"wandb sync {shlex.quote(str(Path(places[0]).parent))}/offline-run-*"


def send_all(run: Run, live: Live | None, *, news: bool, last: bool) -> tuple[list[str], str]:
    """Send the records to W&B as the sweep says. Nothing that goes wrong there fails the sweep.

    Return the places that were written, and what the last words on the run are to say was lost.
    Only what brings `news` is sent; where several processes work in a run, the last one does it.
    """
    mode = run.plan.spec.tracking.wandb
    again = f"maxk-lab track {shlex.quote(str(run.folder.root))}"
    if mode == "disabled":
        if news:
            why = "as the sweep does not ask for it"
            say(f"Nothing was sent to W&B, {why}; to send it: {again}")
        return [], ""
    again += f" --mode {mode}"
    if not news:
        say(f"Nothing new to send to W&B; to send what is there: {again}")
        return [], ""
    sent = live.end(_LAST_RUN if last else 0.0) if live else {}
    if not last:
        say(
            "Not sent to W&B: another process still works in this run, and sends all when it ends; "
            f"or do so with: {again}"
        )
        return list(sent.values()), ""
    what = "the records, the report and the bundle"
    say(f"Sending {what} to W&B" if mode == "online" else f"Writing {what} for W&B")
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
