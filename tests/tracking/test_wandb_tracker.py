"""W&B gets what the records say, and no failure of W&B breaks a sweep."""

import os
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from offline_runs import offline_run
from run_processes import wait_until
from stored import lines

from maxk_lab.errors import LabError
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.tracking import wandb_tracker
from maxk_lab.tracking.wandb_tracker import Live, NoKeyError, Sender, TrackingError, track

SWEEP = """
name: small
description: Which one?
seeds: [0, 1]
environment: {name: toy_llm, task: modular, max_length: 2}
policy: {embed_dim: 16}
training:
  steps: 100
  batch: 64
  evaluate: {every: 50, instances: 12, samples: 16}
  grid: {estimator: maxk, baseline: centred, n: 8, k: 4}
gradient:
  instances: 4
  pool: 32
  grid: {estimator: maxk, baseline: [none, centred], n: 8, k: 2}
tracking: {wandb: offline}
claims:
  - {name: equal, kind: equals, metric: scale, where: {baseline: centred}, value: 1, tolerance: 0.1}
"""
SECONDS = 60.0


@pytest.fixture
def run(tmp_path, lab):
    """Two trainings, the second failed, and gradient cells without a record."""
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    spec = load_spec(tmp_path / "sweep.yaml")
    directory = RunDirectory(tmp_path / "results" / "small")
    directory.write_spec(spec)
    trained = [cell.as_dict() for cell in make_plan(spec).cells if cell.study == "training"]
    for cell, status in zip(trained, ("done", "failed"), strict=True):
        directory.write(lab.training_record(cell, status=status))
    return directory


@pytest.fixture
def live(run):
    """Live tracking of the run, which has begun."""
    live = Live(run, make_plan(run.spec()), "offline")
    assert live.event("run_started", {"cell_ids": ["x"]}) == []
    return live


def raising(error):
    """A function that raises an error, whatever it is called with."""

    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.slow
def test_trainings_are_sent_live_and_the_rest_at_the_end_and_sending_again_replaces_all(
    run, live, capfd, tmp_path, monkeypatch
):
    """Settings in the current folder change nothing: they could send the key to another server."""
    import wandb

    names = {"PROJECT": "somewhere", "ENTITY": "me", "RUN_GROUP": "studies", "SWEEP_ID": "abc"}
    for name, value in names.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    monkeypatch.chdir(tmp_path)
    Path("wandb").mkdir()
    Path("wandb/settings").write_text("[default]\nbase_url = http://elsewhere.test\n")
    wandb.teardown()  # an earlier test may have read the settings of another folder
    for cell in make_plan(run.spec()).cells:
        live.event("cell_done", {"cell": cell.id})
    wait_until(lambda: len(live.sent) == 2)
    places = live.end(SECONDS)
    before = {place: Path(place).stat().st_mtime_ns for place in places.values()}
    steps = []
    first = track(run, "offline", sent=places, progress=lambda *step: steps.append(step))
    assert first[:2] == [*before]
    assert steps == [(3, 3)], "what was sent before is no progress"
    assert before == {place: Path(place).stat().st_mtime_ns for place in before}
    assert wandb.setup().settings.base_url.startswith("https://")

    foreign = run.root / "wandb" / "offline-run-20260101_000000-somebody"
    foreign.mkdir()
    time.sleep(1.1)  # wandb names its folders by the second
    folders = [Path(folder) for folder in track(run, "offline")]
    # The ids stay, and the files are replaced.
    assert [Path(place).name[-16:] for place in first] == [each.name[-16:] for each in folders]
    assert sorted(run.root.glob("wandb/offline-run-*")) == sorted([*folders, foreign])
    done, _, sweep = runs = [*map(offline_run, folders)]
    assert [(each.about.job_type, each.about.display_name) for each in runs] == [
        ("training", "maxk/centred n=8 k=4 seed 0"),
        ("training", "maxk/centred n=8 k=4 seed 1"),
        ("report", "small report"),
    ]
    ends = [(each.exit_code, each.summary.get("status")) for each in runs]
    assert ends == [(0, "done"), (1, "failed"), (0, None)]
    for each in runs:
        assert_private_and_of_the_environment(each)
    assert_curves(done, run.read(done.config["cell"]).metrics)
    assert_report(sweep, folders[-1])
    assert capfd.readouterr().out == ""


def assert_private_and_of_the_environment(one):
    """The run has what WANDB_ variables say, and neither host nor paths."""
    # A text of the format stands after its length.
    host = socket.gethostname().encode()
    assert bytes([len(host)]) + host not in one.bytes
    assert sys.executable.encode() not in one.bytes
    assert (one.about.run_group, one.about.project) == ("studies", "somewhere")
    assert (one.about.notes, one.about.entity) == ("Which one?", "me")


def assert_report(sweep, folder):
    """The run of the sweep has counts, tables and the files of the report."""
    counts = [sweep.summary[f"cells_{state}"] for state in ("planned", "done", "failed")]
    assert counts == [6, 1, 1]
    assert (sweep.summary["claims/equal"], sweep.summary["claims/nrows"]) == ("undecided", 1)
    assert sweep.summary["estimates/nrows"] > 1
    files = sweep.artifacts["report"].manifest.contents
    assert {file.path for file in files} == {"report.md", "report.json", "table.csv"}
    for file in files:
        assert Path(file.local_path).is_relative_to(folder.absolute())


def assert_curves(one, metrics):
    """The run of a training has its log, evaluations and final numbers."""
    assert [line["_step"] for line in one.lines] == [*range(0, 100, 5), 100]
    start = {"step": 0, "rollouts": 0, "train/loss": metrics["log"]["loss"][0]}
    start |= {"eval/max@2": metrics["evaluations"]["value"][0][1], "seconds": 0.0}
    assert start.items() <= one.lines[0].items()
    assert "eval/max@2" not in one.lines[1]
    max_1, loss = one.defined["eval/max@1"], one.defined["train/loss"]
    assert (max_1.step_metric, max_1.summary.max, max_1.summary.last) == ("rollouts", True, True)
    assert (loss.step_metric, loss.summary.max, loss.summary.last) == ("step", False, True)
    hidden = {name for name, metric in one.defined.items() if metric.options.hidden}
    assert {"step", "rollouts", "seconds", "eval/max@1/low"} <= hidden
    assert one.summary["final/max@4"] == pytest.approx(metrics["final"]["value"][3])
    assert (one.config["k"], one.config["baseline"]) == (4, "centred")
    assert one.config["spec"]["training"]["steps"] == 100


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("nobody there"), "ConnectionError: nobody there"),
        (SystemExit(1), "SystemExit: 1"),
        (NoKeyError("there is no key"), "there is no key"),
    ],
)
def test_a_failure_of_wandb_is_reported_once_and_the_sweep_goes_on(
    run, live, monkeypatch, error, words
):
    monkeypatch.setattr(wandb_tracker, "set_up", raising(error))
    notes = []
    trained = [cell.id for cell in make_plan(run.spec()).cells if cell.study == "training"]
    for cell in (trained[0], *trained):
        notes += live.event("cell_done", {"cell": cell})
        wait_until(lambda: not live._thread.is_alive())
    assert notes == [f"W&B failed, and the sweep continues: {words}"]
    assert live.end(SECONDS) == {}


def test_the_sweep_does_not_wait_for_a_network_that_hangs(run, live, monkeypatch):
    hung, free = threading.Event(), threading.Event()

    def hang(mode):
        hung.set()
        free.wait(SECONDS)
        raise ConnectionError("at last")

    monkeypatch.setattr(wandb_tracker, "set_up", hang)
    for cell in make_plan(run.spec()).cells:
        assert live.event("cell_done", {"cell": cell.id}) == []
    assert hung.wait(SECONDS)
    assert live.end(0.0) == {}
    free.set()
    # A sweep with nothing to measure starts no thread.
    idle = Live(run, make_plan(run.spec()), "offline")
    assert idle.event("run_started", {"cell_ids": []}) == []
    assert not idle._thread.is_alive()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("server on fire"), "0 of 3 runs sent: RuntimeError: server on fire"),
        (SystemExit(1), "0 of 3 runs sent: SystemExit: 1"),
        (None, "ModuleNotFoundError"),
    ],
    ids=["failing", "ending the process", "not installed"],
)
def test_a_failing_wandb_is_an_error_that_keeps_the_records(run, monkeypatch, error, message):
    before = lines(run.root)
    monkeypatch.setattr("wandb.init", raising(error))
    if error is None:
        monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TrackingError, match=f"{message}.*; the records are safe") as caught:
        track(run, "offline")
    assert f"WANDB_MODE=offline maxk-lab track {run.root}" in str(caught.value)
    assert (caught.value.sent, lines(run.root)) == ([], before)


def test_the_places_sent_before_a_failure_are_kept(run, monkeypatch):
    monkeypatch.setattr(wandb_tracker, "set_up", lambda mode: None)
    monkeypatch.setattr(Sender, "send_cell", lambda sender, record: "place")
    monkeypatch.setattr(Sender, "send_sweep", raising(SystemExit(3)))
    with pytest.raises(TrackingError, match="2 of 3 runs sent: SystemExit: 3") as caught:
        track(run, "offline")
    assert caught.value.sent == ["place", "place"]


def test_modes_that_send_nothing(run, monkeypatch):
    monkeypatch.setattr("wandb.login", lambda *, prompt, verify: prompt)
    monkeypatch.setattr("wandb.init", lambda **_: pytest.fail("started without a key"))
    with pytest.raises(NoKeyError, match=r"needs an API key of W&B, .* set WANDB_API_KEY or run"):
        track(run, "online")
    for path in run.records_path.iterdir():
        path.unlink()
    with pytest.raises(NoKeyError):
        track(run, "online")
    with pytest.raises(LabError, match=r"unknown W&B mode 'ofline' \(did you mean offline\?\)"):
        track(run, "ofline")
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert track(run, "disabled") == []


def test_the_files_lie_in_the_first_folder_that_can_be_written(run, monkeypatch, tmp_path):
    plan = make_plan(run.spec())
    assert Sender(run, plan, "offline").folder == run.root
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    assert Sender(run, plan, "offline").folder == tmp_path
    monkeypatch.delenv("WANDB_DIR")
    monkeypatch.chdir(tmp_path)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != run.root and access(path, mode))
    assert Sender(run, plan, "offline").folder == tmp_path
