"""The progress of a run: its cells, the phase of a unit, the time left, and repeated errors."""

from __future__ import annotations

import pytest

from maxk_lab.cli.progress import Display


def test_the_time_left_is_the_mean_of_the_measured_units() -> None:
    now = [0.0]
    display = Display(lambda: now[0])
    display("run_started", {"cell_ids": list("abcdef"), "units": 3})
    now[0] = 1000.0  # the start of the workers is not timed
    display("unit_started", {"unit": "one"})
    display("cell_done", {"cell": "a"})
    now[0] = 1240.0
    display("progress", {"unit": "one", "phase": "training", "step": 2, "steps": 4})
    assert display.line() == "1/6 cells"
    display("unit_finished", {"unit": "one"})
    assert display.line() == "1/6 cells, about 8 min left"
    now[0] = 1480.0
    display("unit_finished", {"unit": "two"})
    assert display.line() == "1/6 cells, about 4 min left"
    display("unit_finished", {"unit": "three"})
    assert display.line() == "1/6 cells"


def test_a_bar_shows_cells_and_the_phase_of_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Display() as bar:
        (task,) = bar._bar.tasks
        bar("run_started", {"cell_ids": ["a", "b"], "units": 1})
        assert (task.description, task.fields["current"]) == ("0/2 cells", "starting the workers")
        bar("progress", {"unit": "one", "phase": "warmup", "step": 1, "steps": 2})
        assert task.fields["current"] == "one: warm-up 1/2"
        bar("cell_done", {"cell": "a"})
        assert (task.completed, task.total) == (1, 2)


def test_an_error_that_cells_repeat_is_printed_once_and_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Display() as lines:
        for cell, error in [
            ("a", "'own:reward' raised for sample 0, prompt 'd53'"),
            ("b", "'own:reward' raised for sample 12, prompt 'e4'"),
            ("c", "'own:another' raised for sample 0, prompt 'd53'"),
            ("d", "'own:reward' raised for sample 0, prompt \"'\""),
        ]:
            lines("cell_failed", {"cell": cell, "error": error})
    assert capsys.readouterr().err.splitlines() == [
        "warning: cell a failed: 'own:reward' raised for sample 0, prompt 'd53'",
        "warning: cell c failed: 'own:another' raised for sample 0, prompt 'd53'",
        "warning: 2 more cells failed as cell a did",
    ]
