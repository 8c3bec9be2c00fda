"""W&B gets exactly what the records say, and nothing that it does can break a sweep."""

import base64
import json
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hand_written import gradient_metrics

from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.tracking.payload import payloads
from maxk_lab.tracking.wandb_tracker import NoKeyError, TrackingError, track

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
SWEEP = """
name: small
seeds: [0, 1]
environment: {name: bandit}
gradient:
  instances: 4
  pool: 32
  grid: {estimator: maxk, baseline: [none, centred], n: 8, k: 2}
tracking: {wandb: offline, project: somewhere}
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


def wandb_records(path):
    """The records of a `.wandb` file: LevelDB's log format behind a header of 7 bytes.

    That is blocks of 32 KiB with pieces of records, each after its checksum (4 bytes), length (2)
    and type (1: whole, 2: first, 3: middle, 4: last).
    """
    from wandb.proto import wandb_internal_pb2

    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        piece = data[at + 7 : at + 7 + length]
        at += 7 + length
        whole = piece if kind in (1, 2) else whole + piece
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(whole)


def summaries(folder):
    """The last value of every logged key in an offline run, and its config."""
    (path,) = folder.glob("*.wandb")
    # As a text of the format, after its length: a short name may be in anything.
    host = socket.gethostname().encode()
    assert bytes([len(host)]) + host not in path.read_bytes()
    assert sys.executable.encode() not in path.read_bytes()
    deadline = time.monotonic() + 30
    # wandb's own process may still be writing the end of the file when finish() returns.
    while not any(record.HasField("exit") for record in wandb_records(path)):
        assert time.monotonic() < deadline, f"{path} has no end"
        time.sleep(0.05)
    logged, config = {}, {}
    for record in wandb_records(path):
        for item in record.history.item:
            logged[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
        for item in (*record.run.config.update, *record.config.update):
            config[item.key] = json.loads(item.value_json)
    return logged, config


@pytest.mark.slow
def test_the_offline_files_contain_the_records(run, capfd):
    folders = [Path(folder) for folder in track(run, "offline")]
    assert len(folders) == 2
    assert {folder.parent for folder in folders} == {run.root / "wandb"}
    (first, config), (second, _) = map(summaries, folders)
    assert first["stage0/maxk/none/n8/k2/variance"] == 1.0
    assert first["stage0/maxk/centred/n8/k2/variance"] == 2.0
    assert first["stage0/maxk/centred/n8/k2/value"] == -1.5
    assert "stage0/maxk/centred/n8/k2/scale" not in first
    assert first["cells/nrows"] == 2
    assert second["stage0/maxk/none/n8/k2/variance"] == 3.0
    assert second["stage0/maxk/centred/n8/k2/status"] == "failed"
    assert "stage0/maxk/centred/n8/k2/variance" not in second
    assert (second["cells_done"], second["cells_failed"]) == (1, 1)
    assert config["spec"]["gradient"]["pool"] == 32
    assert config["provenance"] == {"platform": "Linux"}
    assert capfd.readouterr().out == ""


@pytest.mark.slow
def test_sending_again_is_the_same_run_with_the_figures_by_then(run):
    (first, _) = track(run, "offline")
    picture = run.report_path / "figures" / "variance.png"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(PIXEL)
    time.sleep(1.1)  # wandb names its folders by the second
    (again, second) = track(run, "offline")
    assert sorted(run.root.glob("wandb/offline-run-*")) == sorted(map(Path, (again, second)))
    assert first.rsplit("-", 1)[1] == again.rsplit("-", 1)[1]
    assert len(list(Path(again).rglob("variance*.png"))) == 1


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
        "training": {"steps": 10},
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
                  "ks": [1, 2, 3], "per_instance": [[0.3]] * 3},
        "log": {"step": [0, 9], "loss": [0.5, 0.25], "kl/token": [None, 0.1]},
    }  # fmt: skip
    return Record(
        cell, status, metrics, error=None if status == "done" else "Traceback\nMemoryError: no room"
    )


def test_a_training_study_sends_its_curves_as_tables():
    """Final values for each K, and every evaluation; a failed cell has its status only."""
    records = [trained(0, 2), trained(1, 2), trained(1, 4, status="failed")]
    first, second = payloads("small", {}, records)
    assert (first.name, second.name) == ("small-training-seed0", "small-training-seed1")
    assert first.metrics == {
        "cells_done": 1,
        "cells_failed": 0,
        "training/maxk/centred/n8/k2/status": "done",
        "training/maxk/centred/n8/k2/final/max@1": 0.3,
        "training/maxk/centred/n8/k2/final/max@3": 0.5,
    }
    assert second.metrics["training/maxk/centred/n8/k4/status"] == "failed"
    assert "training/maxk/centred/n8/k4/final/max@1" not in second.metrics

    def lines(table):
        return [dict(zip(table.columns, line, strict=True)) for line in table.lines]

    assert [(c["k"], c["status"], c["steps"]) for c in lines(second.tables["cells"])] == [
        (2, "done", 10),
        (4, "failed", None),
    ]
    assert [
        (line["at_k"], line["value"], line["low"], line["high"])
        for line in lines(first.tables["final"])
    ] == [
        (1, 0.3, 0.2, 0.4),
        (2, None, None, None),
        (3, 0.5, 0.4, 0.6),
    ]
    evaluations = [
        (e["step"], e["rollouts"], e["at_k"], e["value"], e["low"], e["high"])
        for e in lines(first.tables["evaluations"])
    ]
    assert evaluations == [
        (0, 0, 1, 0.1, 0.0, 0.2),
        (0, 0, 2, 0.2, 0.1, 0.3),
        (10, 640, 1, 0.3, 0.2, 0.4),
        (10, 640, 2, None, None, None),
    ]


def test_the_training_log_is_a_table_with_a_column_per_metric():
    """A line per cell and step; what a cell did not log has no value."""
    other, lost = trained(0, 4), trained(0, 8, status="failed")
    other.metrics["log"] = {"step": [5], "loss": [0.75], "entropy": [2.0]}
    (payload,) = payloads("small", {}, [trained(0, 2), other, lost])
    log = payload.tables["log"]
    place = ("cell", "seed", "estimator", "baseline", "n", "k", "step", "rollouts")
    assert log.columns == (*place, "entropy", "kl/token", "loss")
    first, second = ("0-2", 0, "maxk", "centred", 8, 2), ("0-4", 0, "maxk", "centred", 8, 4)
    assert [tuple(line) for line in log.lines] == [
        (*first, 0, 0, None, None, 0.5),
        (*first, 9, 576, None, 0.1, 0.25),
        (*second, 5, 320, 2.0, None, 0.75),
    ]


def test_a_training_study_without_a_log_has_an_empty_table():
    record = trained(0, 2)
    del record.metrics["log"]
    (payload,) = payloads("small", {}, [record])
    assert payload.tables["log"].lines == []


def test_two_studies_of_one_seed_are_two_runs(run):
    gradient = run.records(make_plan(run.spec()))
    found = payloads("small", {}, [*gradient, trained(0, 2)])
    assert [payload.name for payload in found] == [
        "small-gradient-seed0",
        "small-gradient-seed1",
        "small-training-seed0",
    ]
    assert len({payload.run_id for payload in found}) == 3
    assert [sorted(payload.tables) for payload in found] == [
        ["cells"],
        ["cells"],
        ["cells", "evaluations", "final", "log"],
    ]


@pytest.mark.parametrize("error", [RuntimeError("server on fire"), SystemExit(1)])
def test_a_failing_wandb_is_told(run, monkeypatch, error):
    import wandb

    def fail(**_):
        raise error

    before = {path.name: path.read_bytes() for path in run.cells_path.iterdir()}
    monkeypatch.setattr(wandb, "init", fail)
    told = f"0 of 2 runs sent: {type(error).__name__}: {error}; the records are safe"
    with pytest.raises(TrackingError, match=told) as caught:
        track(run, "offline")
    assert f"maxk-lab track {run.root} --mode offline" in str(caught.value)
    assert caught.value.sent == []
    assert {path.name: path.read_bytes() for path in run.cells_path.iterdir()} == before


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
    with pytest.raises(TrackingError, match="1 of 2 runs sent: SystemExit: 3") as caught:
        track(run, "offline")
    (place,) = caught.value.sent
    assert list(Path(place).glob("*.wandb"))


def test_online_without_a_key_asks_nobody(run, monkeypatch, tmp_path):
    import wandb

    monkeypatch.setattr(wandb, "login", lambda *, prompt, verify: prompt)
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("started without a key"))
    with pytest.raises(NoKeyError, match=r"needs an API key of W&B, .* set WANDB_API_KEY or run"):
        track(run, "online")
    for path in run.cells_path.iterdir():
        path.unlink()
    with pytest.raises(NoKeyError):
        track(run, "online")


@pytest.mark.slow
def test_settings_in_the_current_folder_change_nothing(run, tmp_path):
    """They could name another server, which would get the key."""
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "settings").write_text("[default]\nbase_url = http://elsewhere.test\n")
    code = (
        "import wandb; from maxk_lab.tracking.wandb_tracker import _set_up; _set_up(); "
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
