"""What a command prints goes nowhere: it says so where it can, and ends without a traceback."""

from __future__ import annotations

import random
from pathlib import Path

from attack_figures import Figures
from attacked_runs import FILE, NAME, SWEEP, complaints, counted
from launched import HangError, Launch

COMMANDS_AT_SCALE_1 = 4
COMMANDS = [
    ["plan", FILE],
    ["plan", FILE, "--cells", "--json"],
    ["validate", FILE],
    ["show", NAME],
    ["show", NAME, "--json"],
    ["list", "baselines"],
    ["list", "runs", "--json"],
    ["report", NAME],
    ["report", NAME, "--format", "json"],
    ["report", NAME, "--out", "report"],
    ["run", FILE, "--json"],
    ["run", FILE, "--dry-run", "--force"],
    ["--help"],
]
# Each with whether the command must fail: what was asked for did not arrive. A pipe that nobody
# reads any more is how `| head -1` ends what it has read enough of.
WAYS = {
    'exec "$@" >/dev/full': True,
    'exec "$@" >&-': None,
    'exec "$@" 2>/dev/full': None,
    'exec "$@" 2>&-': None,
    'exec "$@" >&- 2>&- <&-': None,
    'set -o pipefail; "$@" | true': None,
    'set -o pipefail; "$@" | head -c 1 >/dev/null': None,
}


def test_outputs(
    launch: Launch,
    undisturbed: Path,
    tmp_path: Path,
    dice: random.Random,
    attack_scale: int,
    figures: Figures,
) -> None:
    (tmp_path / FILE).write_text(SWEEP, encoding="utf-8")
    (tmp_path / "results").symlink_to(undisturbed.parent)
    every = [(command, way) for command in COMMANDS for way in WAYS]
    chosen = dice.sample(every, min(COMMANDS_AT_SCALE_1 * attack_scale, len(every)))
    problems = []
    for command, way in chosen:
        launched = launch(*command, before=["bash", "-c", way, "bash"])
        try:
            code = launched.wait()
            found = [] if code or not WAYS[way] else ["exit code: 0 though nothing arrived"]
            found += complaints(launched, heard="2>" not in way and "|" not in way)
        except HangError as error:
            found = [f"hang: {error}"]
        problems += [f"{problem} ({' '.join(command)}, {way})" for problem in found]
    figures("outputs that lead nowhere", commands=len(chosen), **counted(problems))
    assert not problems, "\n".join(problems)
