"""The kind of study in examples/ works by its files and one row in the catalogue of kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sweep_files import Write, plan_of, problems

from maxk_lab.execution.record import Record, content_of
from maxk_lab.reports.answer import answer_of_study
from maxk_lab.reports.drawing import figures
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report
from maxk_lab.sweep_file.studies import STUDIES, StudyRow

FOLDER = Path(__file__).parents[2] / "examples/silent_groups"
ROW = StudyRow(
    name="silent",
    meaning="the share of groups without a gradient",
    implementation="silent_groups",
    record="spec:Metrics",
)
SWEEP = """\
name: silence
seeds: [0, 1]
environment: {name: bandit, arms: 2, rewards: binary}
silent:
  grid: {estimator: maxk, baseline: BASELINES, n: 2, k: K}
"""


@pytest.fixture(autouse=True)
def catalogued(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the row, as one line in the catalogue of kinds does."""
    monkeypatch.syspath_prepend(FOLDER.parent)
    monkeypatch.setattr(STUDIES, "_own", (*STUDIES, ROW))
    monkeypatch.delattr(STUDIES, "_rows", raising=False)
    yield
    vars(STUDIES).pop("_rows", None)


def test_the_example_is_small() -> None:
    files = [path for path in FOLDER.iterdir() if path.is_file()]
    assert len(files) <= 4
    assert sum(len(path.read_text().splitlines()) for path in files) <= 100


def test_a_sweep_of_the_example_is_planned_measured_and_reported(write: Write) -> None:
    """Two samples are silent with `centred` if both are equal, without baseline if both are 0."""
    text = SWEEP.replace("BASELINES", "[none, centred]").replace("K}", "1}")
    plan = plan_of(write(text))
    records = []
    for unit in plan.units:
        cells = [cell.as_dict() for cell in unit.cells]
        measure = ROW.load_module("work").measure
        measured = dict(measure(unit.as_dict(), cells, cache=None, event=print))
        records += [Record(cell, "done", measured[cell["id"]]) for cell in cells]
    assert all(content_of(record.cell, record.metrics) for record in records)
    report = make_report([cell.as_dict() for cell in plan.cells], records, name="silence")
    lines = report.tables.estimates.set_index("baseline")
    shares = {name: lines.value[name] for name in ("none", "centred")}
    assert 0 < shares["none"] < shares["centred"] < 1
    assert all(lines.low[name] < lines.value[name] < lines.high[name] for name in shares)
    assert (
        answer_of_study(ROW, report.studies["silent"], report.origin)
        .sentences[0]
        .startswith("Silent: ")
    )
    assert "silent share" in rendered(report, "markdown")
    assert list(figures(report)) == []


def test_a_grid_of_the_example_that_cannot_run_is_refused(write: Write) -> None:
    text = SWEEP.replace("BASELINES", "none").replace("K}", "3}")
    assert any("silent.grid" in problem for problem in problems(write(text)))
