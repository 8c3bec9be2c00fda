"""Verbs over a tiny run: measured, traced by its cells, failing, interrupted, gone on with."""

from __future__ import annotations

import errno
import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result
from compared_runs import measured
from launched import launching

from maxk_lab.execution.records import RunDirectory
from maxk_lab.files import StorageError

from .conftest import TAUGHT

pytestmark = pytest.mark.slow
Lab = Callable[..., Result]


def test_run_reports_on_stderr_and_names_the_next_command(finished: Path) -> None:
    view = json.loads((finished / "run.json").read_text(encoding="utf-8"))
    assert (len(view["done"]), view["failed"], view["reused"]) == (20, [], [])
    lines = (finished / "run.stderr").read_text(encoding="utf-8").splitlines()
    assert sum("finished bandit, stage 0, seed" in line for line in lines) == 2
    assert lines[-1] == "Next: maxk-lab report tiny"


def test_a_page_is_not_printed_in_a_terminal(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("maxk_lab.cli.verbs.report.sys", terminal)
    refused = lab("report", "tiny", "--format", "html")
    assert refused.exit_code == 2
    assert "maxk-lab report tiny --format html > report.html" in refused.stderr


def test_show_traces_the_cells_of_a_run(lab: Lab, tmp_path: Path) -> None:
    """By the beginning of an id: numbers with intervals, formulas, files of a policy."""
    run = measured(tmp_path / "taught", "seeds=[0]", sweep=TAUGHT)
    run.cache_path.mkdir()
    for id_ in run.ids():
        record = run.read(id_)
        assert record is not None
        assert record.metrics is not None
        files: dict[str, object] = {}
        words = [
            f"baseline {record.cell['baseline']}",
            "computed by maxk_lab.estimators.baselines:",
        ]
        if record.cell["study"] == "training":
            paths = {step: run.cache_path / f"policy-{id_}-{step}.pt" for step in (2, 10)}
            last = run.cache_path / f"training-{id_}.pt"
            for path in (last, *paths.values()):
                path.touch()
            snapshots = {f"step {step}": str(path) for step, path in paths.items()}
            files = {"checkpoint": str(last), "snapshots": snapshots}
            words += [str(last), *snapshots.values(), "maxk_lab.estimators.value:maxk_curve"]
            for k in (1, 2, 4):
                ends = (record.metrics["final"][end][k - 1] for end in ("value", "low", "high"))
                words.append("max@{}  {:.4g} [{:.4g}, {:.4g}]".format(k, *ends))
        found = ("show", id_[:10], "--results", str(run.root.parent))
        view = json.loads(lab(*found, "--json").stdout)
        assert (view["name"], view["files"]) == (id_, files)
        assert (view["metrics"], view["provenance"]) == (record.metrics, record.provenance)
        text = lab(*found).stdout
        squeezed = " ".join(text.split())
        assert [word for word in words if word not in text and word not in squeezed] == []
        assert "per_instance" not in text


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


def test_a_failed_cell_exits_with_1_and_the_retry_command_comes_last(lab: Lab, sweep: str) -> None:
    """It fails since its reward, beside the sweep, ends the program as if all were well."""
    Path("sweeps").mkdir()
    Path("sweeps/s.yaml").write_text(REWARDED, encoding="utf-8")
    Path("sweeps/mine.py").write_text(EXAM, encoding="utf-8")
    result = lab("run", "sweeps/s.yaml", "--only", "seed=0,baseline=none", "--jobs", "2")
    assert result.exit_code == 1
    retry = "maxk-lab run sweeps/s.yaml --jobs 2 --only seed=0,baseline=none --retry-failed"
    assert result.stderr.splitlines()[-1] == f"Next: {retry}"
    (cell,) = RunDirectory(Path("results/tiny")).ids()
    assert "'mine:exam' raised SystemExit for sample 0" in lab("show", cell).stdout
    Path("mended").touch()
    mended = lab(*retry.split()[1:])
    assert mended.exit_code == 0, mended.stderr


@pytest.mark.parametrize(
    ("place", "error", "code", "words", "more"),
    [
        ("cli.progress.execute", KeyboardInterrupt(), 130, "Interrupted", ""),
        ("cli.progress.execute", OSError(errno.ENOSPC, "No space"), 1, "error: No space", ""),
        ("cli.progress.execute", KeyboardInterrupt(), 130, "Interrupted", " --force"),
        ("execution.pool.Worker", OSError(errno.EMFILE, "Too many open files"), 1,
         "error: no worker process can be started: Too many open files\n", ""),
        ("execution.records.write_atomically", StorageError("x cannot be written: File exists"), 1,
         "error: x cannot be written: File exists\n", ""),
    ],
)  # fmt: skip
def test_a_run_that_ends_early_names_the_command_that_goes_on(
    lab: Lab, sweep: str, monkeypatch: pytest.MonkeyPatch,
    place: str, error: BaseException, code: int, words: str, more: str,
) -> None:  # fmt: skip
    def stop(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"maxk_lab.{place}", stop)
    result = lab("run", sweep, "--jobs", "2", *more.split())
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
    assert result.stderr.splitlines()[-1] == f"maxk-lab run tiny.yaml --jobs 2{more}"
    assert "Traceback" not in result.stderr


def test_a_terminated_run_exits_with_130_and_can_be_resumed(sweep: str, tmp_path: Path) -> None:
    """It stops in the middle of a cell; the last line is the command that goes on."""
    run = RunDirectory(tmp_path / "results" / "tiny")
    with launching(tmp_path, stand_in="trains") as launch:
        process = launch("run", sweep, "--set", "seeds=[0]", env={"STEP_SECONDS": "0.1"})
        assert process.wait_for(run.ids)
        process.send(signal.SIGTERM)
        assert process.wait(60) == 130
        assert process.out == ""
        assert process.err.splitlines()[-1] == "maxk-lab run tiny.yaml --set 'seeds=[0]'"
        assert "Traceback" not in process.err
        planned = launch("plan", sweep, "--set", "seeds=[0]", "--json")
        assert planned.wait() == 0
        counts = json.loads(planned.out)["counts"]
    assert counts == {"done": len(run.ids()), "failed": 0, "missing": 10 - len(run.ids())}
    assert 0 < counts["done"] < 10


def test_online_tracking_without_a_key_is_a_mistake(
    finished: Path, monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    import wandb

    monkeypatch.setattr(wandb, "login", lambda **_: False)
    monkeypatch.setenv("WANDB_MODE", "online")
    result = lab("track", "tiny", "--results", str(finished / "results"))
    assert result.exit_code == 2
    mode, error = result.stderr.splitlines()
    assert mode == "W&B mode: online (WANDB_MODE is set)"
    assert error.startswith("error: online tracking needs an API key of W&B")
    assert "or track offline" in error
