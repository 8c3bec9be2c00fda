"""W&B gets what the records say, and no failure of W&B breaks a sweep."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from offline_runs import offline_run
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
def sent(monkeypatch):
    """Names of the runs that are sent, without wandb."""
    names: list[str] = []

    def send(sender, payload, tables=None, files=None):
        names.append(payload.name)
        return f"place of {payload.name}"

    monkeypatch.setattr(wandb_tracker, "set_up", lambda mode: None)
    monkeypatch.setattr(Sender, "send", send)
    return names


def until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_offline_files_have_curves_tables_and_the_report_and_are_replaced(run, capfd, monkeypatch):
    names = {"PROJECT": "somewhere", "ENTITY": "me", "RUN_GROUP": "studies", "SWEEP_ID": "abc"}
    for name, value in names.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    first = track(run, "offline")
    other = run.root / "wandb" / "offline-run-20260101_000000-somebody"
    other.mkdir()
    time.sleep(1.1)  # wandb names its folders by the second
    folders = [Path(folder) for folder in track(run, "offline")]
    # The ids stay, and the files are replaced.
    assert [Path(place).name[-16:] for place in first] == [each.name[-16:] for each in folders]
    assert sorted(run.root.glob("wandb/offline-run-*")) == sorted([*folders, other])
    one, failed, sweep = map(offline_run, folders)
    for each in (one, failed, sweep):
        # A text of the format stands after its length.
        host = socket.gethostname().encode()
        assert bytes([len(host)]) + host not in each.bytes
        assert sys.executable.encode() not in each.bytes
        assert (each.about.run_group, each.about.project) == ("studies", "somewhere")
        assert (each.about.notes, each.about.entity) == ("Which one?", "me")
    names = [(each.about.job_type, each.about.display_name) for each in (one, failed, sweep)]
    assert names == [
        ("training", "maxk/centred n=8 k=4 seed 0"),
        ("training", "maxk/centred n=8 k=4 seed 1"),
        ("report", "small report"),
    ]
    assert_curves(one, run.read(one.config["cell"]).metrics)
    assert (one.exit_code, one.summary["status"]) == (0, "done")
    assert (failed.exit_code, failed.summary["status"]) == (1, "failed")
    counts = [sweep.summary[f"cells_{state}"] for state in ("planned", "done", "failed")]
    assert counts == [6, 1, 1]
    assert sweep.summary["claims/equal"] == "undecided"
    assert sweep.summary["claims/nrows"] == 1
    assert sweep.summary["estimates/nrows"] > 1
    files = sweep.artifacts["report"].manifest.contents
    assert {file.path for file in files} == {"report.md", "report.json", "table.csv"}
    for file in files:
        assert Path(file.local_path).is_relative_to(folders[-1].absolute())
    assert capfd.readouterr().out == ""


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


@pytest.mark.slow
def test_each_training_is_sent_when_its_record_appears_and_not_again(run):
    plan = make_plan(run.spec())
    live = Live(run, plan, "offline")
    ids = [cell.id for cell in plan.cells]
    assert live.event("run_started", {"cell_ids": ids}) == []
    for cell in ids:
        live.event("cell_done", {"cell": cell})
    until(lambda: len(live.sent) == 2)
    places = live.end(SECONDS)
    before = {place: Path(place).stat().st_mtime_ns for place in places.values()}
    *again, sweep = track(run, "offline", plan=plan, sent=places)
    assert again == [*places.values()]
    assert before == {place: Path(place).stat().st_mtime_ns for place in again}
    assert offline_run(sweep).about.display_name == "small report"


def test_only_cells_with_curves_and_a_record_are_sent(run, sent):
    plan = make_plan(run.spec())
    live = Live(run, plan, "offline")
    live.event("run_started", {"cell_ids": ["x"]})
    for cell in (*plan.cells, plan.cells[0]):
        live.event("cell_failed", {"cell": cell.id})
    until(lambda: len(sent) >= 2)
    assert len(live.end(SECONDS)) == 2
    assert {name[-6:] for name in sent} == {"seed 0", "seed 1"}
    assert track(run, "offline", sent=live.sent) == [*live.sent.values(), "place of small report"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("nobody there"), "ConnectionError: nobody there"),
        (SystemExit(1), "SystemExit: 1"),
        (NoKeyError("there is no key"), "there is no key"),
    ],
)
def test_a_failure_of_wandb_is_reported_once_and_the_sweep_goes_on(run, monkeypatch, error, words):
    def fail(mode):
        raise error

    monkeypatch.setattr(wandb_tracker, "set_up", fail)
    plan = make_plan(run.spec())
    live = Live(run, plan, "online")
    live.event("run_started", {"cell_ids": ["x"]})
    trained = [cell.id for cell in plan.cells if cell.study == "training"]
    notes = live.event("cell_done", {"cell": trained[0]})
    until(lambda: not live._thread.is_alive())
    for cell in trained:
        notes += live.event("cell_done", {"cell": cell})
    assert notes == [f"W&B failed, and the sweep continues: {words}"]
    assert live.end(SECONDS) == {}


def test_the_sweep_does_not_wait_for_a_network_that_hangs(run, monkeypatch):
    hung, free = threading.Event(), threading.Event()

    def hang(mode):
        hung.set()
        free.wait(SECONDS)
        raise ConnectionError("at last")

    monkeypatch.setattr(wandb_tracker, "set_up", hang)
    plan = make_plan(run.spec())
    live = Live(run, plan, "online")
    live.event("run_started", {"cell_ids": ["x"]})
    for cell in plan.cells:
        assert live.event("cell_done", {"cell": cell.id}) == []
    assert hung.wait(SECONDS)
    assert live.end(0.0) == {}
    free.set()
    # A sweep with nothing to measure starts no thread.
    idle = Live(run, plan, "online")
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
    import wandb

    def fail(**_):
        raise error

    before = lines(run.root)
    monkeypatch.setattr(wandb, "init", fail)
    if error is None:
        monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TrackingError, match=f"{message}.*; the records are safe") as caught:
        track(run, "offline")
    assert f"WANDB_MODE=offline maxk-lab track {run.root}" in str(caught.value)
    assert caught.value.sent == []
    assert lines(run.root) == before


def test_the_places_sent_before_a_failure_are_kept(run, sent, monkeypatch):
    def fail(sender, record):
        raise SystemExit(3)

    monkeypatch.setattr(Sender, "send_sweep", fail)
    with pytest.raises(TrackingError, match="2 of 3 runs sent: SystemExit: 3") as caught:
        track(run, "offline")
    assert len(caught.value.sent) == 2


def test_online_without_a_key_asks_nobody(run, monkeypatch):
    import wandb

    monkeypatch.setattr(wandb, "login", lambda *, prompt, verify: prompt)
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("started without a key"))
    with pytest.raises(NoKeyError, match=r"needs an API key of W&B, .* set WANDB_API_KEY or run"):
        track(run, "online")
    for path in run.records_path.iterdir():
        path.unlink()
    with pytest.raises(NoKeyError):
        track(run, "online")


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


@pytest.mark.slow
def test_settings_in_the_current_folder_change_nothing(run, tmp_path):
    """They could name another server, which would get the key."""
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "settings").write_text("[default]\nbase_url = http://elsewhere.test\n")
    code = (
        "import wandb; from maxk_lab.tracking.wandb_tracker import set_up; set_up('offline'); "
        "print(wandb.setup().settings.base_url)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "elsewhere" not in done.stdout
    assert done.stdout.startswith("https://")


def test_disabled_imports_no_wandb(run):
    code = (
        "import sys; from maxk_lab.execution.records import RunDirectory; "
        "from maxk_lab.tracking.wandb_tracker import track; "
        f"assert track(RunDirectory({str(run.root)!r}), 'disabled') == []; "
        "assert not {'wandb', 'torch'} & set(sys.modules), 'imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (run.root / "wandb").exists()


def test_an_unknown_mode_is_the_users_mistake(run):
    with pytest.raises(LabError, match=r"unknown W&B mode 'ofline' \(did you mean offline\?\)"):
        track(run, "ofline")
