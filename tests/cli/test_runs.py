"""Verbs over a tiny run: run, report, show, list runs, track; resuming, failing, interrupted."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

import maxk_lab
from maxk_lab.errors import LabError
from maxk_lab.files import StorageError
from maxk_lab.sweeps.run.records import RunDirectory

from .conftest import PROGRAM, SWEEP, program

pytestmark = pytest.mark.slow

Lab = Callable[..., Result]


@pytest.fixture
def there(finished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the finished run, as working directory."""
    monkeypatch.chdir(finished)
    return finished


def any_cell(folder: Path) -> str:
    return RunDirectory(folder / "results" / "tiny").ids()[0]


def test_run_reports_on_stderr_and_names_the_next_command(finished: Path) -> None:
    view = json.loads((finished / "run.json").read_text(encoding="utf-8"))
    assert len(view["done"]) == 20
    assert (view["failed"], view["reused"]) == ([], [])
    lines = (finished / "run.stderr").read_text(encoding="utf-8").splitlines()
    assert sum("finished bandit, stage 0, seed" in line for line in lines) == 2
    assert lines[-1] == "Next: maxk-lab report tiny"


def test_a_page_is_not_printed_in_a_terminal(
    there: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("maxk_lab.cli.verbs.report.sys", terminal)
    refused = lab("report", "tiny", "--format", "html")
    assert refused.exit_code == 2
    assert "maxk-lab report tiny --format html > report.html" in refused.stderr


def test_a_chart_is_an_object_of_altair(there: Path) -> None:
    report = maxk_lab.report("tiny")
    assert report.chart("variance").properties(title="mine").to_dict()["title"] == "mine"
    with pytest.raises(LabError, match="no chart 'varience'; this run has variance"):
        report.chart("varience")


def test_a_refuted_claim_makes_report_exit_with_1(there: Path, lab: Lab, tmp_path: Path) -> None:
    claim = (
        "claims: [{name: wrong, kind: equals, metric: scale, where: {baseline: [none, centred]},"
        " value: 50.0, tolerance: 0.01}]\n"
    )
    (tmp_path / "wrong.yaml").write_text(SWEEP + claim, encoding="utf-8")
    results = str(tmp_path / "results")
    assert lab("run", str(tmp_path / "wrong.yaml"), "--results", results).exit_code == 0
    result = lab("report", "--results", results, "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert result.stdout.startswith("All 20 cells measured.\nREFUTED    wrong\n")
    assert lab("report", "--results", results).exit_code == 1


def test_show_traces_a_cell_by_a_prefix_of_its_id(there: Path, lab: Lab) -> None:
    cell = any_cell(there)
    view = json.loads(lab("show", cell[:8], "--json").stdout)
    record = RunDirectory(there / "results" / "tiny").read(cell)
    assert record is not None
    assert view["name"] == cell
    assert view["metrics"] == record.metrics
    assert view["provenance"] == record.provenance
    baseline = record.cell["baseline"]
    text = " ".join(lab("show", cell).stdout.split())
    for word in (
        f"baseline {baseline}",
        "computed by maxk_lab.estimators.",
        "versions",
        "seconds",
    ):
        assert word in text


REWARDED = """\
name: tiny
seeds: [0]
environment: {name: toy_llm, vocab_size: 4, max_length: 3, prompt_length: 3, rewards: ["mine:exam"]}
gradient:
  instances: 2
  pool: 16
  grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}
tracking: {wandb: disabled}
"""
EXAM = """\
import pathlib

def exam(prompts, completions, **columns):
    if not pathlib.Path("mended").exists():
        raise SystemExit(0)
    return [float(len(text)) for text in completions]
"""


def test_a_failed_cell_exits_with_1_and_the_retry_command_comes_last(
    lab: Lab, sweep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells fail here because their reward function ends the program, as if all were well."""
    Path(sweep).write_text(REWARDED, encoding="utf-8")
    Path("mine.py").write_text(EXAM, encoding="utf-8")
    monkeypatch.syspath_prepend(".")
    result = lab("run", sweep, "--only", "seed=0,baseline=none", "--jobs", "2")
    assert result.exit_code == 1
    retry = "maxk-lab run tiny.yaml --jobs 2 --only seed=0,baseline=none --retry-failed"
    assert result.stderr.splitlines()[-1] == f"Next: {retry}"
    cell = any_cell(Path.cwd())
    assert "'mine:exam' raised SystemExit for sample 0" in lab("show", cell).stdout
    assert lab("run", sweep, "--only", "seed=0,baseline=none").exit_code == 1
    Path("mended").touch()
    mended = lab(*retry.split()[1:])
    assert mended.exit_code == 0, mended.stderr


def test_a_function_of_ones_own_may_lie_beside_the_sweep_file(lab: Lab, sweep: str) -> None:
    folder = Path("sweeps")
    folder.mkdir()
    (folder / "s.yaml").write_text(REWARDED.replace("mine:", "beside:"), encoding="utf-8")
    (folder / "beside.py").write_text(
        "def exam(prompts, completions, **columns):\n    return [1.0]*len(completions)\n"
    )
    result = lab("run", str(folder / "s.yaml"), "--only", "seed=0,baseline=none")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("place", "error", "code", "words", "more"),
    [
        ("cli.progress.execute", KeyboardInterrupt(), 130, "Interrupted", ""),
        ("cli.progress.execute", OSError(errno.ENOSPC, "No space"), 1, "error: No space", ""),
        ("cli.progress.execute", KeyboardInterrupt(), 130, "Interrupted", " --force"),
        ("sweeps.run.supervisor.local.ForkServer", OSError(errno.EMFILE, "Too many open files"), 1,
         "error: no worker process can be started: Too many open files\n", ""),
        ("sweeps.run.records.write_atomically", StorageError("x cannot be written: File exists"), 1,
         "error: x cannot be written: File exists\n", ""),
    ],
)  # fmt: skip
def test_a_run_that_ends_early_names_the_command_that_goes_on(
    lab: Lab,
    sweep: str,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    error: BaseException,
    code: int,
    words: str,
    more: str,
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"maxk_lab.{place}", stop)
    result = lab("run", sweep, "--jobs", "2", *more.split())
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
    assert result.stderr.splitlines()[-1] == f"maxk-lab run tiny.yaml --jobs 2{more}"
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_exits_with_130_and_can_be_resumed(
    tmp_path: Path, number: signal.Signals
) -> None:
    """A warm-up of many steps is interrupted; the last line is the command that goes on."""
    spec = SWEEP.replace("  pool: 32\n", "  pool: 32\n  stages: [0, 200000]\n")
    (tmp_path / "long.yaml").write_text(spec, encoding="utf-8")
    process = subprocess.Popen(
        [*PROGRAM, "run", "long.yaml", "--set", "seeds=[0]"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    run = RunDirectory(tmp_path / "results" / "tiny")
    deadline = time.monotonic() + 100
    while len(run.ids()) < 10:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-1] == "maxk-lab run long.yaml --set 'seeds=[0]'"
    assert "Traceback" not in err
    counts = json.loads(
        program(["plan", "long.yaml", "--set", "seeds=[0]", "--json"], tmp_path).stdout
    )["counts"]
    assert counts == {"done": 10, "failed": 0, "missing": 10}


def test_online_tracking_without_a_key_is_a_mistake(
    there: Path, monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    import wandb

    monkeypatch.setattr(wandb, "login", lambda **_: False)
    told = lab("track", "tiny", "--mode", "online")
    assert told.exit_code == 2
    assert told.stderr.startswith("error: online tracking needs an API key of W&B")
    assert "or track offline" in told.stderr
    assert len(told.stderr.splitlines()) == 1
