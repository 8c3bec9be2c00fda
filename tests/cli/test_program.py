"""The program around the application."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from maxk_lab.cli import main, verbs
from maxk_lab.cli.application import PANELS


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
