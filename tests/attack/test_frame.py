"""The tools of the attacks themselves: a tool that sees nothing would find nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from attack_figures import together
from launched import HangError, Launch, Launched

# A process that leaves its group, told to stay for longer than any test.
STAYS = "import os, time; os.fork() or os.setsid(); print('stays', flush=True); time.sleep(600)"


def stays(launch: Launch) -> Launched:
    """Starts a program that stays, in place of `maxk-lab`, and one of its own in another group."""
    launched = launch(before=[sys.executable, "-c", STAYS], limit=30)
    launched.wait_for(lambda: launched.out.count("stays") == 2)
    return launched


def test_a_process_in_another_group_is_seen_and_ended(launch: Launch) -> None:
    launched = stays(launch)
    assert len(launched.started()) == 1
    launched.send_group(signal.SIGTERM)
    assert launched.wait() == -signal.SIGTERM
    assert launched.gone_after(0.1) > 0.1
    launched.end()
    assert launched.started() == []


def test_what_does_not_end_is_a_hang(launch: Launch) -> None:
    launched = stays(launch)
    with pytest.raises(HangError, match="is still there; it said: stays"):
        launched.wait(0.05)
    assert launched.running()


def test_the_program_is_started_as_it_is_installed(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('imported from the current folder')")
    launched = launch("--version")
    assert (launched.wait(), launched.out[:9], launched.err) == (0, "maxk-lab ", "")


def test_figures_of_one_attack_are_put_together() -> None:
    kept = [
        ("kills", {"rounds": 2, "slowest_end": 0.5}),
        ("disk", {"rounds": 1}),
        ("kills", {"rounds": 3, "slowest_end": 0.25}),
    ]
    assert together(kept) == {"disk": {"rounds": 1}, "kills": {"rounds": 5, "slowest_end": 0.5}}


def test_figures_are_printed(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """Those of workers, and of tests that fail, too."""
    (tmp_path / "test_it.py").write_text(
        "def test_it(figures):\n    figures('kills', rounds=3, slowest=0.51)\n    assert False\n"
    )
    options = ["-p", "attack_figures", "-n", "1", "--attack-scale", "3", "--attack-seed", "7"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_it.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(pytestconfig.rootpath / "tests" / "fixtures")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1
    assert " attacks, scale 3, seed 7 " in done.stdout
    assert "kills: rounds 3, slowest 0.5 s" in done.stdout.splitlines()
