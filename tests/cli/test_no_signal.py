"""Runs without a signal, and a test that rejects a proof: every reader of a run says so."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from compared_runs import measured
from synthetic_records import make_metrics

import maxk_lab
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.report import read_report
from maxk_lab.studies.gradient.record import Metrics
from maxk_lab.studies.gradient.table import ALARM
from maxk_lab.tracking.payload import sweep_payload
from maxk_lab.visible import json_value

# All rewards are 1: centred weights are 0, other weights are equal, and no training is the best.
BANDIT = """\
name: saturated
seeds: [0, 1]
environment: {name: bandit, arms: 4, rewards: binary}
policy: {success_probability: 0.999999}
gradient:
  instances: 2
  pool: 64
  grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}
training:
  steps: 4
  batch: 8
  grid: {estimator: maxk, baseline: [centred, subloo], n: 8, k: [2, 4]}
  evaluate: {instances: 8, samples: 16}
claims:
  - {name: unbiased, kind: unbiased, where: {baseline: centred}, detectable: 1}
tracking: {wandb: disabled}
"""
# Of 16 samples two or more are right: none would be missed, and `subloo` has only weights of 0.
MIXED = ("policy.success_probability=0.7", "gradient.grid.n=16", "gradient.grid.k=16")
MIXED += ("gradient.grid.baseline=[none, subloo]", "claims=[]")


@pytest.fixture(scope="module")
def saturated(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("no_signal") / "saturated", sweep=BANDIT)


def printed(lab, *arguments):
    done = lab(*map(str, arguments))
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_a_run_without_signal_is_a_sentence_in_every_format(lab, saturated, tmp_path):
    mixed = measured(tmp_path / "mixed", *MIXED, sweep=BANDIT)
    for run in (saturated, mixed):
        for form in ("json", "csv", "terminal"):
            report = printed(lab, "report", run.root, "--format", form)
            assert "no signal: every group had weight 0" in report.lower()
        assert "any method. All 4 end at pass@16 = 1.00" in report
        # Only the mixed run has a row whose bias is tested.
        assert ("Holm" in report.split("In short")[0]) == (run is not saturated)
    printed(lab, "compare", saturated.root, mixed.root)


def test_a_run_without_signal_has_no_number(lab, saturated, monkeypatch):
    frame = maxk_lab.load(saturated.root).query("study == 'gradient'")
    silent = frame[~frame.measure.isin(["dead_gradient_rate", "instances", "pool"])]
    assert {"variance", "snr", "scale", "value_variance"} <= {*silent.measure}
    assert silent.value.isna().all()
    assert silent.reason.str.startswith("no signal: ").all()
    dead = frame[(frame.measure == "dead_gradient_rate") & (frame.baseline == "centred")]
    assert (dead.value == 1).all()
    monkeypatch.chdir(saturated.root.parent)
    shown = printed(lab, "show", frame.cell.iloc[0], "--results", ".", "--json")
    assert json.loads(shown)["metrics"]["variance"] is None
    Path("results").mkdir()
    Path("results/saturated").symlink_to(saturated.root)
    output = lab("recommend", "sweep.yaml", "--budget", "8").output
    assert "No candidate for max@2: every row was left out." in output
    assert "no signal: every group had weight 0" in output


def test_a_rejected_proof_is_in_reports_comparisons_and_wandb(lab, tmp_path):
    settings = ("policy={}", "seeds=3", "gradient.instances=16", "environment.rewards=gaussian")
    sound, alarmed = (measured(tmp_path / name, *settings, sweep=BANDIT) for name in "ab")
    for run, off in ((sound, 0.0), (alarmed, 0.5)):
        for cell in run.ids():
            record = run.read(cell)
            if record is None or record.cell["study"] != "gradient":
                continue
            across = off * (record.cell["baseline"] == "centred")
            metrics = json_value(make_metrics(record.cell, bias_off_gradient=across))
            metrics |= dict(Metrics.model_validate(metrics).shown)
            run.write(replace(record, metrics=metrics, content=None))
    line = "Alarm: the test of bias rejects centred in 1 row, although"
    assert line in printed(lab, "report", alarmed.root, "--format", "json")
    assert "alarm" not in printed(lab, "report", sound.root).lower()
    output = printed(lab, "compare", sound.root, alarmed.root, "--format", "json")
    states = {(line["kind"], line["b"]): line["state"] for line in json.loads(output)["findings"]}
    assert states["claim", "undecided"] == "worse"
    assert states["bias", "alarm"] == "changed"
    plan = make_plan(alarmed.spec())
    report = read_report(alarmed, plan)
    payload = sweep_payload("rejected", {}, report, alarmed.records(plan)[0])
    assert payload.summary["claims/unbiased"] == "undecided"
    row = "stage0/maxk/centred/n4/k2"
    assert report.tables.claims.detail.tolist() == [f"{row}: alarm ({ALARM})"]
