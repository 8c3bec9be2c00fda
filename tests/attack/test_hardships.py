"""Circumstances that must not matter: a run under several of them at once measures the same."""

from __future__ import annotations

import os
import random
from pathlib import Path

from attack_figures import Figures
from attacked_runs import FILE, NAME, SWEEP, complaints, differences
from launched import HangError, Launch

HARDSHIPS_AT_ONCE = 6
# Put before the program by a shell; {folder} is that of the test.
HARDSHIPS = {
    "no HOME": "unset HOME",
    "a HOME that cannot be written to": "export HOME=/proc",
    "no place for temporary files": "export TMPDIR=/proc",
    "32 files at a time": "ulimit -n 32",
    "a plain language": "export LANG=C LC_ALL=C PYTHONUTF8=0",
    "one column": "export COLUMNS=1 LINES=1",
    "no columns": "export COLUMNS=x TERM=nonsense",
    "files for nobody else": "umask 077",
    "stdin closed": "exec <&-",
    "stdout closed": "exec >&-",
    "stdout full": "exec >/dev/full",
    "stderr closed": "exec 2>&-",
    "stderr full": "exec 2>/dev/full",
    "results elsewhere": 'mkdir -p "{folder}/far" && ln -sfn "{folder}/far" results',
    "a clock of 1971": "export CLOCK_BEHIND=1700000000",
    "a clock that runs backwards": "export CLOCK_BACKWARDS=1",
    "an odd folder": 'mkdir -p "[b] \'x\'\u00e9 $HOME" && cp {file} "$_" && cd "$_"',
}
SITE = """\
import os, time
real = time.time
if "CLOCK_BEHIND" in os.environ:
    time.time = lambda: real() - float(os.environ["CLOCK_BEHIND"])
if "CLOCK_BACKWARDS" in os.environ:
    time.time = lambda: 2 * 1.7e9 - real()
"""


def test_hardships(
    launch: Launch,
    undisturbed: Path,
    tmp_path: Path,
    dice: random.Random,
    attack_scale: int,
    figures: Figures,
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    problems = []
    for index in range(attack_scale):
        folder = tmp_path / str(index)
        folder.mkdir()
        (folder / FILE).write_text(SWEEP, encoding="utf-8")
        names = dice.sample(list(HARDSHIPS), HARDSHIPS_AT_ONCE)
        # What goes to another folder goes last, and what a shell itself needs.
        lines = [HARDSHIPS[name] for name in sorted(names, key=list(HARDSHIPS).index)]
        shell = " && ".join(lines).replace("{folder}", str(folder)).replace("{file}", FILE)
        launched = launch(
            "run",
            FILE,
            "--jobs",
            str(dice.choice([1, 2])),
            folder=folder,
            before=["bash", "-c", f'{shell} && exec "$@"', "bash"],
            env={"PYTHONPATH": path},
        )
        try:
            code = launched.wait()
            found = [f"exit code: {code}: {launched.err[-2000:]}"] if code else []
            found += complaints(launched, heard="exec 2>" not in shell)
            [run] = [
                path.parent for path in folder.rglob(f"{NAME}/records") if path.parent.is_dir()
            ]
            found += differences(run, undisturbed)
        except (HangError, ValueError) as error:
            found = [f"hang or nothing there: {error}"]
        problems += [f"{problem} ({', '.join(names)})" for problem in found]
    figures(
        "hardships",
        runs=attack_scale,
        hardships=HARDSHIPS_AT_ONCE * attack_scale,
        problems=len(problems),
    )
    assert not problems, "\n".join(problems)
