"""The program around the application."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import Result

from maxk_lab.cli import main, verbs
from maxk_lab.cli.application import PANELS

from .conftest import PROGRAM


@pytest.mark.parametrize(
    "early",
    [
        "installed.close_current_folder",
        "cli.application.LabGroup.parse_args",
        "cli.application.load",
        "cli.verbs.list.print_line",
    ],
)
def test_ctrl_c_before_a_run_is_there_is_a_word_and_no_traceback(
    early: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    import_module("maxk_lab.cli.verbs.list")
    monkeypatch.setattr(f"maxk_lab.{early}", interrupted)
    monkeypatch.setattr("sys.argv", ["maxk-lab", "list", "baselines"])
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


@pytest.mark.slow
def test_closed_streams_change_no_exit_code_and_mix_no_output(tmp_path: Path) -> None:
    program = f"{sys.executable} -m maxk_lab"
    for words, code in {"list baselines none": 0, "plan nowhere.yaml": 2}.items():
        for closed in (">&-", "2>&-", ">&- 2>&-"):
            done = subprocess.run(
                f"{program} {words} {closed}",
                shell=True,
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
            )
            assert done.returncode == code, (words, closed, done.stderr)
            assert "Traceback" not in done.stderr + done.stdout
            assert "error" not in done.stdout
