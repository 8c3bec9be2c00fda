"""The golden results are what their records say: each report and figure is rendered anew."""

from __future__ import annotations

import json
import re
from typing import Any

import golden
import pytest

from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.bundle import find_run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", golden.SWEEPS)
def test_the_report_and_the_figures_are_those_of_the_records(name: str) -> None:
    folder = golden.GOLDEN / name
    report, figures = golden.rendered(name)
    assert (folder / "report.md").read_text(encoding="utf-8") == report
    assert json.loads((folder / "figures.json").read_text(encoding="utf-8")) == figures
    linked = set(re.findall(r"\]\((figures/[^)]+)\)", report))
    drawn = {path.relative_to(folder).as_posix() for path in folder.glob("figures/*")}
    assert drawn == linked == {f"figures/{figure}.png" for figure in figures}
    (answer,) = re.findall(r"## Answer\n(.*?)\n## ", report, re.DOTALL)
    assert len(answer.split()) <= 150


@pytest.mark.parametrize("name", golden.SWEEPS)
def test_every_record_is_sound_and_planned(name: str) -> None:
    run = find_run(golden.bundle_of(name))
    plan = make_plan(run.spec())
    records = run.records(plan)
    assert all(record.content is not None for record in records)
    assert run.problems == []
    assert [record.cell["id"] for record in records] == [cell.id for cell in plan.cells]
    assert {record.status for record in records} == {"done"}


def test_every_golden_result_has_its_bundle_and_its_sweep() -> None:
    there = {path.name for path in golden.GOLDEN.iterdir() if path.is_dir()} - {"calibration"}
    assert there == set(golden.SWEEPS)
    assert all(golden.sweep_file(name).is_file() for name in golden.SWEEPS)
    assert all(golden.bundle_of(name).is_file() for name in golden.SWEEPS)


def test_a_figure_is_known_by_its_spec() -> None:
    def drawn(last: float, title: str = "one") -> dict[str, Any]:
        data = [{"x": 0.0, "y": 2.0}, {"x": 1.0, "y": last}]
        return {"title": title, "mark": "line", "datasets": {f"data-{hash(last):032x}": data}}

    told = golden.data_of(drawn(3.0))
    assert told == golden.data_of(drawn(3.0 + 1e-12))
    assert told["rows"] == 2
    assert golden.data_of(drawn(3.001)) != told != golden.data_of(drawn(3.0, "two"))
