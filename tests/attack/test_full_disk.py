"""Too little room on the disk is told in a line; the same command goes on after it."""

import shutil
import subprocess

import pytest
from attacked_runs import CELLS, FILE, NAME, complaints, differences, laid_out, metrics


def has_mounts():
    """Whether this user may mount a small disk of its own."""
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return shutil.which("unshare") and not subprocess.run(command, capture_output=True).returncode


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
    # One disk in `make test`, 20 in `make attack`.
    for index in range(attack_scale * 5 if attack_scale > 1 else 1):
        folder = laid_out(tmp_path / str(index), undisturbed).parents[1]
        (folder / "kept").mkdir()
        size = str(4096 * dice.randint(1, 60))
        launched = attack(
            *["run", FILE, "--jobs", str(dice.choice([1, 2]))],
            folder=folder,
            env={"SIZE": size},
            before=["unshare", "-rm", "bash", "-c", ON_A_SMALL_DISK, "bash"],
        )
        assert launched.wait() == 0, size
        first, err = int((folder / "first.code").read_text()), (folder / "first.err").read_text()
        before, after = metrics(folder / "first" / NAME), metrics(folder / "kept" / NAME)
        assert (first == 0) == (len(before) == CELLS), (size, err)
        assert first == 0 or f"maxk-lab run {FILE}" in err, size
        assert "Traceback" not in err, (size, err)
        assert before.items() <= after.items(), size
        problems = [*complaints(launched), *differences(folder / "kept" / NAME, undisturbed)]
        assert problems == [], size
