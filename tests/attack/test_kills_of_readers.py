"""Reports and tracking that are killed leave the records as they are, and nothing half written."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from attack_figures import Figures
from attacked_runs import NAME, SECONDS_TO_END, complaints, counted, partials
from launched import HangError, Launch

SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
# Python has its own end of a process that no handler is there for.
INTERRUPTED = 130
LONGEST = 4.0  # seconds that either takes


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below by its name there."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def killed(launch: Launch, words: list[str], folder: Path, dice: random.Random) -> Iterator[str]:
    """Start a command, kill it at any moment, and yield what is wrong with its end."""
    launched = launch(*words, folder=folder, env={"WANDB_SILENT": "true"})
    time.sleep(dice.uniform(0, LONGEST))
    number = dice.choice(SIGNALS)
    launched.send_group(number)
    try:
        code = launched.wait(2 * SECONDS_TO_END)
        if code not in (0, INTERRUPTED, -number):
            yield f"exit code: {code} after {number.name}: {launched.err[-2000:]}"
        yield from complaints(launched)
        if launched.gone_after(2 * SECONDS_TO_END) > 2 * SECONDS_TO_END:
            yield f"leftover: {len(launched.started())} processes after {number.name}"
    except HangError as error:
        yield f"hang: {error}"


def test_reports(
    launch: Launch,
    undisturbed: Path,
    tmp_path: Path,
    dice: random.Random,
    attack_scale: int,
    figures: Figures,
) -> None:
    (tmp_path / "results").symlink_to(undisturbed.parent)
    before = contents(undisturbed)
    assert launch("report", NAME, "--out", "in_peace").wait() == 0
    words, problems = ["report", NAME, "--out", "out"], []
    for _ in range(attack_scale):
        problems += killed(launch, words, tmp_path, dice)
    again = launch(*words)
    code = again.wait()
    problems += [*complaints(again)] + [f"exit code: {code}: {again.err[-2000:]}"] * (code != 0)
    problems += [f"leftover: {path}" for path in partials(tmp_path / "out")]
    if contents(tmp_path / "out") != contents(tmp_path / "in_peace"):
        problems.append("wrong: the report is another one")
    if contents(undisturbed) != before:
        problems.append("wrong: the run is another one")
    figures("kills of report", kills=attack_scale, **counted(problems))
    assert not problems, "\n".join(problems)


def test_tracking(
    launch: Launch,
    undisturbed: Path,
    tmp_path: Path,
    dice: random.Random,
    attack_scale: int,
    figures: Figures,
) -> None:
    shutil.copytree(undisturbed, tmp_path / "results" / NAME)
    cells = contents(undisturbed / "records")
    words, problems = ["track", NAME], []
    for _ in range(attack_scale):
        problems += killed(launch, words, tmp_path, dice)
    again = launch(*words)
    code = again.wait()
    problems += [*complaints(again)] + [f"exit code: {code}: {again.err[-2000:]}"] * (code != 0)
    if contents(tmp_path / "results" / NAME / "records") != cells:
        problems.append("wrong: the records are others")
    if again.gone_after(SECONDS_TO_END) > SECONDS_TO_END:
        problems.append(f"leftover: {len(again.started())} processes")
    figures("kills of track", kills=attack_scale, **counted(problems))
    assert not problems, "\n".join(problems)
