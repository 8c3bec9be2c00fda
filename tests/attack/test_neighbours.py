"""Runs of other users, and runs at the same time."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attack_figures import Figures
from attacked_runs import FILE, NAME, SWEEP, complaints, counted, differences, laid_out, metrics
from launched import Launch
from stored import forget

NOBODY = 65_534
COMMANDS_AT_SCALE_1 = 3
COMMANDS = [
    ["run", FILE],
    ["plan", FILE],
    ["show", NAME],
    ["list", "runs"],
    ["report", NAME],
    ["report", NAME, "--out", "report"],
]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can look into."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users here")
def test_results_of_another_user(
    launch: Launch,
    undisturbed: Path,
    open_folder: Path,
    dice: random.Random,
    attack_scale: int,
    figures: Figures,
) -> None:
    """They can be read, and not be written to; nothing is half done."""
    (open_folder / FILE).write_text(SWEEP, encoding="utf-8")
    shutil.copytree(undisturbed, open_folder / "results" / NAME)
    forget(open_folder / "results" / NAME, min(metrics(undisturbed)))
    for path in [open_folder, *open_folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = (
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        if os.getuid() == 0
        else []
    )
    problems = []
    for words in dice.sample(COMMANDS, min(COMMANDS_AT_SCALE_1 * attack_scale, len(COMMANDS))):
        launched = launch(*words, folder=open_folder, before=before, env={"HOME": "/nonexistent"})
        code = launched.wait()
        writes = words[0] == "run" or "--out" in words
        if (code != 0) != writes:
            problems.append(f"exit code: {code} of {words}: {launched.err[-2000:]}")
        if writes and "ermission" not in launched.err:
            problems.append(f"silent: {words}: {launched.err[-2000:]}")
        problems += complaints(launched)
    for path in [open_folder, *open_folder.rglob("*")]:
        path.chmod(0o755)
    figures("results of another user", **counted(problems))
    assert not problems, "\n".join(problems)


def test_two_runs_at_once(
    launch: Launch,
    undisturbed: Path,
    tmp_path: Path,
    dice: random.Random,
    attack_scale: int,
    figures: Figures,
) -> None:
    problems = []
    for index in range(attack_scale):
        run = laid_out(tmp_path / str(index))
        one = launch("run", FILE, folder=run.parents[1])
        time.sleep(dice.choice([0, dice.uniform(0, 3)]))
        other = launch("run", FILE, folder=run.parents[1])
        codes = sorted((one.wait(), other.wait()))
        problems += [*complaints(one), *complaints(other)]
        if codes != [0, 0]:
            problems.append(f"exit code: {codes}: {one.err[-1000:]} {other.err[-1000:]}")
        problems += differences(run, undisturbed)
    figures("two runs at once", rounds=attack_scale, **counted(problems))
    assert not problems, "\n".join(problems)
