"""A test that rejects what is unbiased by proof, end to end: every reader of a run says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from compared_runs import measured
from synthetic_records import make_metrics

from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.report import read_report
from maxk_lab.studies.gradient.record import Metrics
from maxk_lab.studies.gradient.table import ALARM
from maxk_lab.tracking.payload import sweep_payload
from maxk_lab.visible import json_value

Lab = Callable[..., Result]
SWEEP = """\
name: rejected
seeds: [0, 1, 2]
environment: {name: bandit, arms: 4}
gradient:
  instances: 16
  pool: 64
  grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}
tracking: {wandb: disabled}
claims:
  - {name: centring is unbiased, kind: unbiased, where: {baseline: centred}, detectable: 1}
"""
ROW = "stage0/maxk/centred/n4/k2"


def made(folder: Path, *, off: float) -> RunDirectory:
    """A run whose estimates with `centred` lie `off` across the gradient."""
    run = measured(folder, sweep=SWEEP)
    for cell in run.ids():
        record = run.read(cell)
        assert record is not None
        across = off if record.cell["baseline"] == "centred" else 0.0
        metrics = json_value(make_metrics(record.cell, bias_off_gradient=across))
        points = Metrics.model_validate(metrics).shown
        run.write(replace(record, metrics=metrics | dict(points), content=None))
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDirectory, RunDirectory]:
    """A sound run, and one whose test rejects."""
    folder = tmp_path_factory.mktemp("pair")
    return made(folder / "sound", off=0.0), made(folder / "rejected", off=0.5)


def told(lab: Lab, *arguments: object) -> str:
    done = lab(*map(str, arguments))
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_reports_and_comparisons_say_it_and_no_report_of_a_sound_run_does(
    lab: Lab, runs: tuple[RunDirectory, RunDirectory]
) -> None:
    sound, alarmed = (run.root for run in runs)
    for form in ("terminal", "markdown", "json"):
        report = told(lab, "report", alarmed, "--format", form)
        assert re.search(r"Alarm\W+the test of bias rejects centred in 1 row, although", report)
        assert "alarm" not in told(lab, "report", sound, "--format", form).lower()
    compared = told(lab, "compare", sound, alarmed)
    assert "claim centring is unbiased: supported -> undecided (worse)" in compared
    assert f"bias {ROW} relative_bias: no bias seen -> alarm" in compared
    content = json.loads(told(lab, "compare", sound, alarmed, "--format", "json"))
    states = {(line["kind"], line["b"]): line["state"] for line in content["findings"]}
    assert states["claim", "undecided"] == "worse"
    assert states["bias", "alarm"] == "changed"
    assert not content["missing"]


def test_what_is_sent_to_wandb_has_the_reason_and_leaves_the_row_among_the_methods(
    runs: tuple[RunDirectory, RunDirectory],
) -> None:
    _, alarmed = runs
    plan = make_plan(alarmed.spec())
    records = alarmed.records(plan)
    report = read_report(alarmed, plan)
    payload = sweep_payload("rejected", {}, report, records[0])
    assert payload.summary["claims/centring is unbiased"] == "undecided"
    assert report.tables.claims.detail.tolist() == [f"{ROW}: alarm ({ALARM})"]
