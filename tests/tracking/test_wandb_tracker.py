"""W&B gets exactly what the records say, and nothing that it does can break a sweep."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import altair as alt
import pytest
from hand_written import gradient_metrics
from offline_runs import offline_run
from stored import lines

from maxk_lab.errors import LabError
from maxk_lab.report.charts import Figure, finished
from maxk_lab.studies.gradient import charts
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.tracking.payload import payloads, tables_of_single_cells
from maxk_lab.tracking.wandb_tracker import (
    NoKeyError,
    Sender,
    TrackingError,
    set_up,
    track,
)

SWEEP = """
name: small
description: Which one?
seeds: [0, 1]
environment: {name: bandit}
gradient:
  instances: 4
  pool: 32
  grid: {estimator: maxk, baseline: [none, centred], n: 8, k: 2}
tracking: {wandb: offline, project: somewhere, entity: me, group: studies, tags: mine}
claims:
  - {name: equal, kind: equals, metric: scale, where: {baseline: centred}, value: 1, tolerance: 0.1}
"""


@pytest.fixture
def run(tmp_path):
    """Four cells: variance 1, 2, 3 and a failed one."""
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    spec = load_spec(tmp_path / "sweep.yaml")
    directory = RunDirectory(tmp_path / "results" / "small")
    directory.write_spec(spec)
    for number, cell in enumerate(make_plan(spec).cells, start=1):
        if number == 4:
            error = "Traceback\nMemoryError: no room"
            directory.write(Record(cell.as_dict(), "failed", error=error))
        else:
            points = {"variance": float(number), "scale": None, "value": -1.5}
            metrics = gradient_metrics(cell.as_dict(), **points)
            directory.write(
                Record(
                    cell.as_dict(),
                    "done",
                    metrics,
                    provenance={"platform": "Linux", "host": "here", "argv": ["run"]},
                )
            )
    return directory


@pytest.mark.slow
def test_the_offline_files_contain_the_records(run, capfd):
    folders = [Path(folder) for folder in track(run, "offline")]
    assert {folder.parent for folder in folders} == {run.root / "wandb"}
    first, second, whole = map(offline_run, folders)
    for one in (first, second, whole):
        # As a text of the format, after its length: a short name may be in anything.
        host = socket.gethostname().encode()
        assert bytes([len(host)]) + host not in one.bytes
        assert sys.executable.encode() not in one.bytes
        assert (one.about.run_group, one.about.project) == ("studies", "somewhere")
        assert (one.about.notes, one.about.entity) == ("Which one?", "me")
    assert [one.about.display_name for one in (first, second, whole)] == [
        "gradient stage 0 seed 0",
        "gradient stage 0 seed 1",
        "small report",
    ]
    assert [one.about.job_type for one in (first, second, whole)] == [
        "gradient",
        "gradient",
        "report",
    ]
    assert list(first.about.tags) == ["maxk", "none", "centred", "bandit", "mine"]
    assert list(whole.about.tags) == ["mine"]
    (line,) = first.lines
    assert (line["cells/nrows"], line["cells/_type"]) == (2, "table-file")
    # Nothing is left in the home of whoever writes it.
    (copy,) = first.artifacts["run_table"].manifest.contents
    assert Path(copy.local_path).is_relative_to(folders[0].absolute())
    assert (second.summary["cells_done"], second.summary["cells_failed"]) == (1, 1)
    assert (first.config["n"], first.config["seed"], first.config["stage"]) == (8, 0, 0)
    assert first.config["environment"] == {"name": "bandit", "arms": 10, "reward_shift": 0.0}
    assert first.config["spec"]["gradient"]["pool"] == 32
    assert "baseline" not in first.config
    assert (first.config["provenance"], first.config["commit"]) == ({"platform": "Linux"}, None)
    assert whole.config["spec"]["tracking"]["tags"] == ["mine"]
    assert capfd.readouterr().out == ""


@pytest.mark.slow
def test_the_sweep_as_a_whole_has_verdicts_figures_and_the_report_and_is_replaced(run, monkeypatch):
    """Sending again is the same run; what goes with it lies in its folder, and goes with it."""
    chart = finished(alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="x:Q"), "it")
    drawn = Figure("variance", "Which is least", "Lower is better.", chart)
    monkeypatch.setattr(charts, "charts", lambda found, summary, more: [drawn])
    *_, first = track(run, "offline")
    of_no_cell = run.root / "wandb" / f"offline-run-20260101_000000-{'a' * 16}"
    own = run.root / "wandb" / "offline-run-20260101_000000-somebody"
    for folder in (of_no_cell, own):
        folder.mkdir()
    time.sleep(1.1)  # wandb names its folders by the second
    places = track(run, "offline", "elsewhere", entity="them")
    assert sorted(run.root.glob("wandb/offline-run-*")) == sorted([*map(Path, places), own])
    assert first.rsplit("-", 1)[1] == places[-1].rsplit("-", 1)[1]
    whole = offline_run(places[-1])
    assert (whole.about.project, whole.about.entity) == ("elsewhere", "them")
    assert whole.summary["claims/equal"] == "undecided"
    assert [whole.summary[f"cells_{state}"] for state in ("planned", "done", "failed")] == [4, 3, 1]
    assert whole.summary["figures/variance/path"].endswith(".png")
    assert whole.summary["figures/variance/caption"] == "Which is least. Lower is better."
    assert whole.summary["estimates/nrows"] == 8
    page = Path(places[-1]) / "files" / whole.summary["report/path"]
    assert 'id="figure-0"' in page.read_text(encoding="utf-8")
    assert {file.path for file in whole.artifacts["bundle"].manifest.contents} == {"small.zip"}
    sent = {file.path for file in whole.artifacts["report"].manifest.contents}
    assert {"report.md", "report.json", "table.csv", "figures/variance.svg"} <= sent
    for file in whole.artifacts["report"].manifest.contents:
        assert Path(file.local_path).is_relative_to(Path(places[-1]).absolute())
    assert not run.report_path.exists()


@pytest.mark.slow
def test_a_training_is_a_run_whose_curves_are_steps(run):
    """Log and evaluations of a step are one line; failed cells are failed runs."""
    sender = Sender(run, make_plan(run.spec()), "offline")
    done, lost = payloads("small", {}, [trained(0, 2), trained(0, 4, status="failed")])
    set_up()
    one, failed = (offline_run(sender.send(payload)) for payload in (done, lost))
    assert one.about.display_name == "maxk/centred n=8 k=2 seed 0"
    assert [line["_step"] for line in one.lines] == [0, 9, 10]
    start = {"step": 0, "rollouts": 0, "train/loss": 0.5, "eval/max@1": 0.1, "eval/max@2": 0.2}
    assert start.items() <= one.lines[0].items()
    assert (one.lines[1]["train/kl/token"], one.lines[1]["rollouts"]) == (0.1, 576)
    assert "train/kl/token" not in one.lines[0]
    assert "eval/max@2" not in one.lines[2]
    of_k, loss = one.defined["eval/max@1"], one.defined["train/loss"]
    assert (of_k.step_metric, of_k.summary.max, of_k.summary.last) == ("rollouts", True, True)
    assert (loss.step_metric, loss.summary.max, loss.summary.last) == ("step", False, True)
    hidden = {name for name, metric in one.defined.items() if metric.options.hidden}
    assert {"step", "rollouts", "seconds", "eval/max@1/low"} <= hidden
    assert one.summary["eval/max@1"] == {"max": 0.3, "last": 0.3}
    assert (one.summary["final/max@3"], one.summary["final/max@3/low"]) == (0.5, 0.4)
    assert (one.config["k"], one.config["baseline"], one.config["cell"]) == (2, "centred", "0-2")
    assert (one.exit_code, one.summary["status"]) == (0, "done")
    assert (failed.exit_code, failed.summary["status"]) == (1, "failed")
    assert failed.summary["error"] == "MemoryError: no room"


def test_the_run_id_says_what_was_studied(run):
    spec = run.spec()
    records = run.records(make_plan(spec))
    ids = [payload.run_id for payload in payloads("small", {}, records)]
    assert ids == [payload.run_id for payload in payloads("small", {"more": 1}, records[::-1])]
    assert len(set(ids)) == 2
    assert not set(ids) & {payload.run_id for payload in payloads("other", {}, records)}


def trained(seed, k, status="done"):
    """A record of a training cell: two evaluations at K = 1, 2 and 3 samples each."""
    cell = {
        "id": f"{seed}-{k}",
        "identity_version": 1,
        "study": "training",
        "seed": seed,
        "environment": {"name": "toy_llm"},
        "policy": {},
        "training": {"steps": 10, "evaluate": {}},
        "estimator": "maxk",
        "baseline": "centred",
        "n": 8,
        "k": k,
    }
    metrics = {
        "steps": 10,
        "rollouts": 640,
        "evaluations": {
            "step": [0, 10],
            "rollouts": [0, 640],
            "ks": [1, 2],
            "value": [[0.1, 0.2], [0.3, None]],
            "low": [[0.0, 0.1], [0.2, None]],
            "high": [[0.2, 0.3], [0.4, None]],
        },
        "final": {"value": [0.3, None, 0.5], "low": [0.2, None, 0.4], "high": [0.4, None, 0.6],
                  "ks": [1, 2, 3], "per_instance": [[0.2, 0.4]] * 3},
        "log": {"step": [0, 9], "loss": [0.5, 0.25], "kl/token": [None, 0.1]},
    }  # fmt: skip
    return Record(
        cell, status, metrics, error=None if status == "done" else "Traceback\nMemoryError: no room"
    )


def test_a_training_study_has_a_run_per_cell():
    """They have no tables; the sweep as a whole has those of all. Failed, a run has its status."""
    records = [trained(0, 2), trained(1, 2), trained(1, 4, status="failed")]
    first, second, failed = payloads("small", {}, records, ["mine"])
    assert [one.name.partition(" ")[2] for one in (first, second, failed)] == [
        "n=8 k=2 seed 0",
        "n=8 k=2 seed 1",
        "n=8 k=4 seed 1",
    ]
    assert first.tags == ("maxk", "centred", "toy_llm", "mine")
    assert (first.tables, first.job_type) == ({}, "training")
    assert first.metrics["final/max@1"] == 0.3
    assert "final/max@2" not in first.metrics
    assert failed.metrics == {"status": "failed", "error": "MemoryError: no room"}
    assert failed.history.lines == ()
    tables = tables_of_single_cells(records)
    assert {name: len(table.lines) for name, table in tables.items()} == {
        "training/cells": 3,
        "training/evaluations": 2 * 2 * 2,
    }


def test_lines_of_a_training_have_what_is_there():
    timed, bare = trained(0, 2), trained(0, 4)
    timed.metrics["log"] = {"step": [5], "loss": [0.75]}
    timed.timings["evaluations_seconds"] = [0.0, 1.5]
    del bare.metrics["log"]
    lines, others = (payload.history.lines for payload in payloads("small", {}, [timed, bare]))
    steps = [(line["step"], line["rollouts"], line.get("seconds")) for line in lines]
    assert steps == [(0, 0, 0.0), (5, 320, None), (10, 640, 1.5)]
    assert [line.get("train/loss") for line in lines] == [None, 0.75, None]
    assert [line["step"] for line in others] == [0, 10]


def test_two_studies_of_one_seed_have_runs_of_their_own(run):
    gradient = run.records(make_plan(run.spec()))
    found = payloads("small", {}, [*gradient, trained(0, 2)])
    assert [payload.job_type for payload in found] == ["gradient", "gradient", "training"]
    assert len({payload.run_id for payload in found}) == 3


@pytest.mark.parametrize("error", [RuntimeError("server on fire"), SystemExit(1)])
def test_a_failing_wandb_is_told(run, monkeypatch, error):
    import wandb

    def fail(**_):
        raise error

    before = lines(run.root)
    monkeypatch.setattr(wandb, "init", fail)
    told = f"0 of 3 runs sent: {type(error).__name__}: {error}; the records are safe"
    with pytest.raises(TrackingError, match=told) as caught:
        track(run, "offline")
    assert f"maxk-lab track {run.root} --mode offline" in str(caught.value)
    assert caught.value.sent == []
    assert lines(run.root) == before


def test_no_wandb_at_all_is_told(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TrackingError, match="the records are safe"):
        track(run, "offline")


@pytest.mark.slow
def test_what_was_sent_before_a_failure_is_told(run, monkeypatch):
    import wandb

    start, started = wandb.init, []

    def fail_at_the_second(**settings):
        started.append(settings["name"])
        if len(started) == 2:
            raise SystemExit(3)
        return start(**settings)

    monkeypatch.setattr(wandb, "init", fail_at_the_second)
    with pytest.raises(TrackingError, match="1 of 3 runs sent: SystemExit: 3") as caught:
        track(run, "offline")
    (place,) = caught.value.sent
    assert list(Path(place).glob("*.wandb"))


def test_online_without_a_key_asks_nobody(run, monkeypatch, tmp_path):
    import wandb

    monkeypatch.setattr(wandb, "login", lambda *, prompt, verify: prompt)
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("started without a key"))
    with pytest.raises(NoKeyError, match=r"needs an API key of W&B, .* set WANDB_API_KEY or run"):
        track(run, "online")
    for path in run.records_path.iterdir():
        path.unlink()
    with pytest.raises(NoKeyError):
        track(run, "online")


@pytest.mark.slow
def test_settings_in_the_current_folder_change_nothing(run, tmp_path):
    """They could name another server, which would get the key."""
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "settings").write_text("[default]\nbase_url = http://elsewhere.test\n")
    code = (
        "import wandb; from maxk_lab.tracking.wandb_tracker import set_up; set_up(); "
        "print(wandb.setup().settings.base_url)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "elsewhere" not in done.stdout
    assert done.stdout.startswith("https://")


def test_disabled_imports_no_wandb(run):
    code = (
        "import sys; from maxk_lab.sweeps.run.records import RunDirectory; "
        "from maxk_lab.tracking import track; "
        f"assert track(RunDirectory({str(run.root)!r}), 'disabled') == []; "
        "assert not {'wandb', 'torch'} & set(sys.modules), 'imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (run.root / "wandb").exists()


def test_an_unknown_mode_is_the_users_mistake(run):
    with pytest.raises(LabError, match=r"unknown W&B mode 'ofline' \(did you mean offline\?\)"):
        track(run, "ofline")
