"""The program around the application."""

from __future__ import annotations

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
