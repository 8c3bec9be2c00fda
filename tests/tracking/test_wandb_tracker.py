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
from maxk_lab.execution.records import Record, RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.charts import Figure, Panel
from maxk_lab.studies.gradient import charts
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.tracking.payload import payloads
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
tracking: {wandb: offline}
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
def test_the_offline_files_contain_the_records(run, capfd, monkeypatch):
    for name, value in {"PROJECT": "somewhere", "ENTITY": "me", "RUN_GROUP": "studies"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
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
    assert [(one.about.job_type, one.about.display_name) for one in (first, second, whole)] == [
        ("gradient", "gradient stage 0 seed 0"),
        ("gradient", "gradient stage 0 seed 1"),
        ("report", "small report"),
    ]
    assert list(first.about.tags) == ["maxk", "none", "centred", "bandit"]
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
    assert whole.config["spec"]["tracking"] == {"wandb": "offline"}
    assert capfd.readouterr().out == ""


@pytest.mark.slow
def test_the_sweep_as_a_whole_has_verdicts_figures_and_the_report_and_is_replaced(run, monkeypatch):
    """Sending again is the same run; what goes with it lies in its folder, and goes with it."""
    chart = alt.layer(alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="x:Q"))
    drawn = Figure("variance", "Which is least", "Lower is better.", "", (Panel("", chart),))
    monkeypatch.setattr(charts, "charts", lambda pooled, origin: [drawn])
    *_, first = track(run, "offline")
    of_no_cell = run.root / "wandb" / f"offline-run-20260101_000000-{'a' * 16}"
    own = run.root / "wandb" / "offline-run-20260101_000000-somebody"
    for folder in (of_no_cell, own):
        folder.mkdir()
    time.sleep(1.1)  # wandb names its folders by the second
    places = track(run, "offline")
    assert sorted(run.root.glob("wandb/offline-run-*")) == sorted([*map(Path, places), own])
    assert first.rsplit("-", 1)[1] == places[-1].rsplit("-", 1)[1]
    whole = offline_run(places[-1])
    assert (whole.about.run_group, whole.about.project) == ("small", "maxk-lab")
    assert whole.summary["claims/equal"] == "undecided"
    assert [whole.summary[f"cells_{state}"] for state in ("planned", "done", "failed")] == [4, 3, 1]
    assert whole.summary["figures/variance/path"].endswith(".png")
    assert whole.summary["figures/variance/caption"] == "Which is least. Lower is better."
    assert whole.summary["estimates/nrows"] == 12
    page = Path(places[-1]) / "files" / whole.summary["report/path"]
    assert "<figure" in page.read_text(encoding="utf-8")
    assert {file.path for file in whole.artifacts["bundle"].manifest.contents} == {"small.zip"}
    sent = {file.path for file in whole.artifacts["report"].manifest.contents}
    assert {"report.md", "report.json", "table.csv", "figures/variance.svg"} <= sent
    for file in whole.artifacts["report"].manifest.contents:
        assert Path(file.local_path).is_relative_to(Path(places[-1]).absolute())
    assert not run.report_path.exists()


@pytest.mark.slow
def test_a_training_is_a_run_whose_curves_are_steps(run, lab):
    """Log and evaluations of a step are one line; failed cells are failed runs."""
    sender = Sender(run, make_plan(run.spec()), "offline")
    cells = lab.training_cells(points=[("maxk", "centred", 8, 8)], seeds=(0, 1))
    records = [lab.training_record(cells[0]), lab.training_record(cells[1], status="failed")]
    done, lost = payloads("small", {}, records)
    set_up()
    one, failed = (offline_run(sender.send(payload)) for payload in (done, lost))
    assert one.about.display_name == "maxk/centred n=8 k=8 seed 0"
    assert [line["_step"] for line in one.lines] == [*range(0, 100, 5), 100]
    metrics = records[0].metrics
    start = {"step": 0, "rollouts": 0, "train/loss": metrics["log"]["loss"][0]}
    start |= {"eval/max@2": metrics["evaluations"]["value"][0][1], "seconds": 0.0}
    assert start.items() <= one.lines[0].items()
    assert (one.lines[1]["train/length/mean"], one.lines[1]["rollouts"]) == (4.0, 320)
    assert "train/kl/token" not in one.lines[0]
    assert "eval/max@2" not in one.lines[1]
    of_k, loss = one.defined["eval/max@1"], one.defined["train/loss"]
    assert (of_k.step_metric, of_k.summary.max, of_k.summary.last) == ("rollouts", True, True)
    assert (loss.step_metric, loss.summary.max, loss.summary.last) == ("step", False, True)
    hidden = {name for name, metric in one.defined.items() if metric.options.hidden}
    assert {"step", "rollouts", "seconds", "eval/max@1/low"} <= hidden
    values = [line[0] for line in metrics["evaluations"]["value"]]
    assert one.summary["eval/max@1"] == {"max": max(values), "last": values[-1]}
    assert one.summary["final/max@4"] == pytest.approx(metrics["final"]["value"][3])
    assert (one.config["k"], one.config["baseline"]) == (8, "centred")
    assert one.config["cell"] == cells[0]["id"]
    assert (one.exit_code, one.summary["status"]) == (0, "done")
    assert (failed.exit_code, failed.summary["status"]) == (1, "failed")
    assert failed.summary["error"] == "FloatingPointError: loss at step 3"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("server on fire"), "0 of 3 runs sent: RuntimeError: server on fire"),
        (SystemExit(1), "0 of 3 runs sent: SystemExit: 1"),
        (None, "ModuleNotFoundError"),
    ],
    ids=["failing", "ending the process", "not installed"],
)
def test_a_failing_wandb_is_told(run, monkeypatch, error, said):
    import wandb

    def fail(**_):
        raise error

    before = lines(run.root)
    monkeypatch.setattr(wandb, "init", fail)
    if error is None:
        monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TrackingError, match=f"{said}.*; the records are safe") as caught:
        track(run, "offline")
    assert f"maxk-lab track {run.root} --mode offline" in str(caught.value)
    assert caught.value.sent == []
    assert lines(run.root) == before


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
        "import sys; from maxk_lab.execution.records import RunDirectory; "
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
