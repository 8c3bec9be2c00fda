"""The kind of study in examples/ works by its files and one row in the catalogue of kinds."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_files import Write, measured_here, plan_of, problems

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
  grid: {estimator: maxk, baseline: [none, centred], n: 2, k: 1}
"""


def test_the_example_is_a_kind_of_study(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples are silent with `centred` if both are equal, without baseline if both are 0."""
    files = [path for path in FOLDER.iterdir() if path.is_file()]
    assert sum(len(path.read_text().splitlines()) for path in files) <= 100
    monkeypatch.syspath_prepend(FOLDER.parent)
    monkeypatch.setattr(STUDIES, "_rows", {row.name: row for row in (*STUDIES, ROW)})
    plan = plan_of(write(SWEEP))
    metrics = {
        cell: numbers for unit in plan.units for cell, numbers in measured_here(unit).items()
    }
    cells = [cell.as_dict() for cell in plan.cells]
    records = [Record(cell, "done", metrics[cell["id"]]) for cell in cells]
    assert all(content_of(record.cell, record.metrics) for record in records)
    report = make_report(cells, records, name="silence")
    lines = report.tables.estimates.set_index("baseline")
    shares = {name: lines.value[name] for name in ("none", "centred")}
    assert 0 < shares["none"] < shares["centred"] < 1
    assert all(lines.low[name] < lines.value[name] < lines.high[name] for name in shares)
    answer = answer_of_study(ROW, report.studies["silent"], report.origin)
    assert answer.sentences[0].startswith("Silent: ")
    assert "silent share" in rendered(report, "markdown")
    assert list(figures(report)) == []
    refused = problems(write(SWEEP.replace("k: 1", "k: 3").replace(", centred", "")))
    assert any("silent.grid" in problem for problem in refused)
