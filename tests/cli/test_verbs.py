"""Verbs that read: the lists of catalogues, unreadable records, the time of a plan, tables."""

import csv
import json
import math
from pathlib import Path
from statistics import fmean

import pytest
from stored import damage

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.language.tasks import REWARDS, TASKS
from maxk_lab.errors import LabWarning
from maxk_lab.estimators.catalogue import BASELINES
from maxk_lab.execution.archive import write_bundle
from maxk_lab.reports.answer import times

from .conftest import write_logs


def test_list_prints_the_rows_of_the_catalogue(lab):
    described = {"meaning": "meaning", "computed by": "implementation"}
    catalogues = {
        "baselines": (BASELINES, {"unbiased": "unbiased", "formula": "formula"}),
        "tasks": (TASKS, described),
        "rewards": (REWARDS, described),
        "environments": (ENVIRONMENTS, {"exact": "exact_when"}),
    }
    for what, (catalogue, columns) in catalogues.items():
        rows = json.loads(lab("list", what, "--json").stdout)
        for key, field in {"name": "name", **columns}.items():
            assert [row[key] for row in rows] == [getattr(row, field) for row in catalogue]
        text = lab("list", what).stdout
        assert all(row.name in text and row.implementation in text for row in catalogue)


def test_every_verb_warns_of_an_unreadable_record(lab, write_run):
    run, plan = write_run()
    path = damage(run.root, plan.cells[0].id)
    for words in (["show"], ["plan", "sweep.yaml"], ["report", "small"]):
        with pytest.warns(LabWarning, match=rf"{path}:\d+: unreadable record: its checksum"):
            lab(*words)


def test_plan_estimates_the_time_from_the_run_else_from_its_golden_run(lab, write_run):
    run, plan = write_run()
    seconds = [head.seconds for head in run.heads.values()]
    assert "time unknown: no unit is measured" in lab("plan", "sweep.yaml", "--results", "x").stdout
    write_bundle(run, Path("x/golden/small/small.zip"))
    shown = lab("plan", "sweep.yaml", "--results", "x")
    assert "with one worker, at the mean time of the cells in x/golden/small" in shown.stdout
    answer = json.loads(lab("plan", "sweep.yaml", "--results", "x", "--json").stdout)
    assert answer["seconds_left"] == pytest.approx(len(plan.cells) * fmean(seconds))


def test_the_tables_of_an_audit_are_written_as_json_and_files(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_logs(tmp_path)
    words = ("audit", "base.jsonl", "--budget", "16", "-k", "2", "--out", "plan", "--json")
    result = lab(*words)
    plan = json.loads(result.stdout)["plan"]
    with open("plan/plan.csv", encoding="utf-8") as file:
        losses = [float(line["loss"]) for line in csv.DictReader(file)]
    assert losses == [row["loss"] for row in plan]
    assert "Wrote plan/plan.csv, plan/plan.html, plan/plan.png" in result.stderr
    assert Path("plan/plan.png").read_bytes().startswith(b"\x89PNG")
    compared = lab("audit", "base.jsonl", "--compare", "other.jsonl", "--json")
    curve = json.loads(compared.stdout)["curve"]
    assert [line["k"] for line in curve] == [*range(1, 9)]
    assert all(line["low"] < line["difference"] < line["high"] for line in curve[:4])


def test_the_plan_of_a_source_without_signal_is_left_out(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"prompt": f"{source}{i}", "reward": reward, "source": source}
        for source, rewards in {"flat": [0.5] * 4, "steep": [0.1, 0.2, 0.4, 0.9]}.items()
        for i in range(3)
        for reward in rewards
    ]
    Path("log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = lab("audit", "log.jsonl", "--budget", "8", "-k", "2", "--by", "source")
    assert result.exit_code == 0
    assert "A step at K = 2, steep" in result.stdout
    assert "A step at K = 2, flat" not in result.stdout
    assert "flat, K = 2: no signal" in result.stdout


def test_two_runs_of_one_name_are_not_written_into_one_folder(lab, write_run):
    run, _ = write_run()
    result = lab("report", "small", str(run.root), "--out", "out")
    assert (result.exit_code, Path("out").exists()) == (2, False)
    assert "two runs are named small" in result.stderr


def test_every_problem_of_several_files_is_in_their_json(lab, small):
    text = Path(small).read_text() + "".join(f"key{i}: 1\n" for i in range(25))
    Path("bad.yaml").write_text(text)
    _, bad = json.loads(lab("plan", small, "bad.yaml", "--json").stdout)
    assert len(bad["problems"]) == 25


def test_check_refuses_formulas_beside_a_function(lab):
    done = lab("check", "mine:f", "--estimator", "maxk")
    assert done.exit_code == 2
    assert "leave them out with FUNCTION" in done.output


def test_a_ratio_without_an_end_is_printed():
    assert [times(ratio) for ratio in (math.inf, 26_010.0, 2.4, 0.0)] == [
        "∞",
        "26,000",
        "2.40",
        "0.00",
    ]
