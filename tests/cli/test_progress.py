"""The progress of a run: its cells, the phase of a unit, the time left, and repeated errors."""

import io

import pytest
from rich.console import Console

from maxk_lab.cli.progress import Display

STUDIES = dict.fromkeys("abcd", "gradient") | dict.fromkeys("efgh", "training")


class Watched(Display):
    """A display of eight cells with a clock that tests set."""

    def __init__(self):
        self.now = 0.0
        super().__init__(STUDIES, lambda: self.now)
        self("run_started", {"cell_ids": list(STUDIES)})

    def done(self, cells, seconds):
        for cell in cells:
            self("cell_done", {"cell": cell, "seconds": seconds})


def test_the_time_left_weighs_cells_by_their_study_and_counts_workers_at_once():
    display = Watched()
    display.now = 1000.0  # the start of the workers is not timed
    display("unit_started", {"unit": "first"})
    display.done("ab", 60.0)
    display.now = 1120.0
    assert display.line() == "2/8 cells"
    display("unit_finished", {"unit": "first"})
    assert display.line() == "2/8 cells, about 6 min left"
    display.now = 1420.0
    display.done("e", 300.0)
    # Two gradient cells at 1 min, three training cells at 5 min.
    assert display.line() == "3/8 cells, about 17 min left"
    display.done("f", 420.0)
    # Two workers: 840 s of cells in 420 s.
    assert display.line() == "4/8 cells, about 7 min left"
    # A failed cell takes as long as others of its study.
    display("cell_failed", {"cell": "g", "error": "no"})
    display.now = 1780.0
    assert display.line() == "5/8 cells, 1 failed, about 5 min left"
    for cell in "cdh":
        display("cell_failed", {"cell": cell, "error": "no"})
    assert display.line() == "8/8 cells, 4 failed"


@pytest.mark.parametrize("width", [80, 100])
def test_the_bar_is_of_cells_and_visible_beside_long_texts(monkeypatch, width):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    out = io.StringIO()
    screen = Console(file=out, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr("maxk_lab.cli.progress.console", lambda stderr: screen)
    display = Watched()
    (task,) = display._bar.tasks
    assert (task.description, task.fields["current"]) == ("0/8 cells", "starting the workers")
    display("unit_started", {"unit": "first"})
    display("progress", {"unit": "first", "phase": "warmup", "step": 1, "steps": 2})
    assert task.fields["current"] == "warm-up 1/2: first"
    display.done("abef", 720.0)
    assert (task.description, task.completed, task.total) == ("4/8 cells", 4, 8)
    display("cell_failed", {"cell": "c", "error": "no"})
    display("unit_finished", {"unit": "first"})
    unit = "tsp num_loc=20 start=iid policy.embed_dim=128, training, seed 0, maxk subloo n=8 k=4"
    display.now = 1440.0
    display("progress", {"unit": unit, "phase": "training", "step": 120, "steps": 300})
    screen.print(display._bar)
    (line,) = filter(None, out.getvalue().splitlines()[-1:])
    assert len(line) <= width
    assert line.startswith("━" * 10)
    assert "62% 5/8 cells, 1 failed, about 14 min left training" in line


def test_an_error_that_cells_repeat_is_printed_once_and_counted(capsys):
    with Display() as lines:
        for cell, error in {
            "a": "'own:reward' raised for sample 0, prompt 'd53'",
            "b": "'own:reward' raised for sample 12, prompt 'e4'",
            "c": "'own:another' raised for sample 0, prompt 'd53'",
            "d": "'own:reward' raised for sample 0, prompt \"'\"",
        }.items():
            lines("cell_failed", {"cell": cell, "error": error})
    assert capsys.readouterr().err.splitlines() == [
        "warning: cell a failed: 'own:reward' raised for sample 0, prompt 'd53'",
        "warning: cell c failed: 'own:another' raised for sample 0, prompt 'd53'",
        "warning: 2 more cells failed as cell a did",
    ]
