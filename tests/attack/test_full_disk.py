"""Too little room on the disk is told in a line; the same command goes on after it."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from attacked_runs import (
    CELLS,
    FILE,
    NAME,
    complaints,
    differences,
    laid_out,
    metrics,
)
from launched import HangError


def has_mounts():
    """Whether this user may mount a small disk of its own."""
    asked = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return shutil.which("unshare") is not None and (
        subprocess.run(asked, capture_output=True, check=False).returncode == 0
    )


ON_A_SMALL_DISK = """\
mkdir results && mount -t tmpfs -o size=$SIZE none results || exit 99
"$@" > first.out 2> first.err
echo $? > first.code
cp -r results first
mount -o remount,size=50m results
"$@" --retry-failed
code=$?
cp -r results/. kept
exit $code
"""


@pytest.mark.skipif(not has_mounts(), reason="no disk can be mounted here")
def test_full_disk(attack, undisturbed, tmp_path, dice, attack_scale):
    problems = []
    # One disk in `make test`, 20 in `make attack`.
    for index in range(attack_scale * 5 if attack_scale > 1 else 1):
        folder = laid_out(tmp_path / str(index), undisturbed).parents[1]
        (folder / "kept").mkdir()
        size = 4096 * dice.randint(1, 60)
        launched = attack(
            *["run", FILE, "--jobs", str(dice.choice([1, 2]))],
            folder=folder,
            env={"SIZE": str(size)},
            before=["unshare", "-rm", "bash", "-c", ON_A_SMALL_DISK, "bash"],
        )
        try:
            found = [*judged(folder, launched.wait()), *complaints(launched)]
            found += differences(folder / "kept" / NAME, undisturbed)
        except HangError as error:
            found = [f"hang: {error}"]
        problems += [f"{problem} ({size} bytes)" for problem in found]
    assert not problems, "\n".join(problems)


def judged(folder, code):
    """Yield what is wrong with the run on a full disk, and with the one after room was made."""
    first, err = int((folder / "first.code").read_text()), (folder / "first.err").read_text()
    before, after = metrics(folder / "first" / NAME), metrics(folder / "kept" / NAME)
    if (first == 0) != (len(before) == CELLS):
        yield f"exit code: {first} with {len(before)} of {CELLS} cells: {err[-2000:]}"
    if first and f"maxk-lab run {FILE}" not in err:
        yield f"silent: not told how to go on: {err[-2000:]}"
    if "Traceback" in err:
        yield f"traceback: {err[-2000:]}"
    yield from (f"lost: {cell}" for cell in before if cell not in after)
    if code:
        yield f"exit code: {code} after room was made"
