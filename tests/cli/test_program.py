"""The program around the application."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from maxk_lab.cli import main, verbs
from maxk_lab.cli.application import PANELS

from .conftest import PROGRAM


def test_ctrl_c_before_the_application_is_there_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("maxk_lab.installed.close_current_folder", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "Interrupted\n")


def test_the_help_has_every_verb_in_its_panel_with_a_line_of_its_own(
    lab: Callable[..., Result],
) -> None:
    said = lab("--help").stdout
    places = [said.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    files = {path.stem for path in (Path(verbs.__file__).parent).glob("[!_]*.py")}
    assert {name for lines in PANELS.values() for name in lines} == files
    assert all(f"│ {name} " in said for name in files)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("list baselines >/dev/full", 2, "error: No space left on device\n"),
        ("list baselines 2>&1 | true", 0, ""),
        ("list baselines | head -1", 0, ""),
        ("list baselines >&- 2>&-", 0, ""),
    ],
)
def test_a_stream_that_takes_nothing_leaves_no_traceback(words: str, code: int, said: str) -> None:
    command = ["bash", "-c", f"{shlex.join(PROGRAM)} {words}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (code, said)
