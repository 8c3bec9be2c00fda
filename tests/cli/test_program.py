"""The program around the application."""

from __future__ import annotations

import subprocess
import sys

import pytest

from maxk_lab.cli import main


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


INTERRUPTED_BY_AN_ENDING_OBJECT = """\
import signal
import maxk_lab.cli.application as application

class Ending:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def verb():
    Ending()
    import time
    time.sleep(60)

application.app.command("verb")(verb)
from maxk_lab.cli import main
main()
"""
INTERRUPTED_AT_THE_COMMAND_LINE = """\
import typer.core

def parse(*arguments):
    raise KeyboardInterrupt

typer.core.TyperGroup.parse_args = parse
from maxk_lab.cli import main
main()
"""


@pytest.mark.parametrize(
    "script", [INTERRUPTED_BY_AN_ENDING_OBJECT, INTERRUPTED_AT_THE_COMMAND_LINE]
)
def test_ctrl_c_is_told_wherever_it_comes(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, "verb"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted\n")
