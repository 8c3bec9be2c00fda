"""Verbs over a tiny run: measured, traced by its cells, failing, interrupted, gone on with."""

import errno
import json
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from compared_runs import measured
from launched import launching

from maxk_lab.execution.records import RunDirectory
from maxk_lab.files import StorageError

from .conftest import TAUGHT

pytestmark = pytest.mark.slow


def test_a_page_is_not_printed_in_a_terminal(lab, monkeypatch):
    terminal = SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("maxk_lab.cli.verbs.report.sys", terminal)
    refused = lab("report", "tiny", "--format", "html")
    assert refused.exit_code == 2
    assert "maxk-lab report tiny --format html > report.html" in refused.stderr


def test_show_traces_the_cells_of_a_run(lab, tmp_path):
    """By the beginning of an id: numbers with intervals, formulas, files of a policy."""
    run = measured(tmp_path / "taught", "seeds=[0]", sweep=TAUGHT)
    run.cache_path.mkdir()
    for id_ in run.ids():
        record = run.read(id_)
        files = {}
        words = ["computed by maxk_lab.estimators.baselines:"]
        words.append(f"baseline {record.cell['baseline']}")
        if record.cell["study"] == "training":
            last = run.cache_path / f"training-{id_}.pt"
            snapshots = {f"step {at}": run.cache_path / f"policy-{id_}-{at}.pt" for at in (2, 10)}
            for path in (last, *snapshots.values()):
                path.touch()
            names = {step: str(path) for step, path in snapshots.items()}
            files = {"checkpoint": str(last), "snapshots": names}
            words += [str(last), *names.values(), "maxk_lab.estimators.value:maxk_curve"]
            for k in (1, 2, 4):
                ends = (record.metrics["final"][end][k - 1] for end in ("value", "low", "high"))
                words.append("max@{}  {:.4g} [{:.4g}, {:.4g}]".format(k, *ends))
        command = ("show", id_[:10], "--results", str(run.root.parent))
        view = json.loads(lab(*command, "--json").stdout)
        assert (view["name"], view["files"]) == (id_, files)
        assert (view["metrics"], view["provenance"]) == (record.metrics, record.provenance)
        text = lab(*command).stdout
        squeezed = " ".join(text.split())
        assert [word for word in words if word not in text and word not in squeezed] == []
        assert "per_instance" not in text


def test_a_failed_cell_exits_with_1_and_the_retry_command_comes_last(lab, own_rewards):
    """The cell fails because its reward function ends the program with exit code 0."""
    works = own_rewards.read_text()
    own_rewards.write_text(works.replace("return", "raise SystemExit(0) or"))
    result = lab("run", "sweep.yaml", "--only", "seed=0,baseline=none,n=4", "--jobs", "2")
    assert result.exit_code == 1
    retry = "maxk-lab run sweep.yaml --jobs 2 --only seed=0,baseline=none,n=4 --retry-failed"
    assert result.stderr.splitlines()[-1] == f"Next: {retry}"
    (cell,) = RunDirectory(Path("results/small")).ids()
    assert "'own_rewards:short' raised SystemExit for sample 0" in lab("show", cell).stdout
    own_rewards.write_text(works)
    mended = lab(*retry.split()[1:])
    assert mended.exit_code == 0, mended.stderr


@pytest.mark.parametrize(
    ("place", "error", "code", "line", "options"),
    [
        ("cli.progress.execute", KeyboardInterrupt(), 130, "Interrupted; every finished", ""),
        ("cli.progress.execute", KeyboardInterrupt(), 130, "Interrupted", " --force"),
        ("cli.progress.execute", OSError(errno.ENOSPC, "No space"), 1, "error: No space", ""),
        (
            *("execution.pool.Worker", OSError(errno.EMFILE, "Too many open files"), 1),
            *("error: no worker process can be started: Too many open files", ""),
        ),
        (
            *("execution.records.write_atomically", StorageError("x cannot be written"), 1),
            *("error: x cannot be written", ""),
        ),
    ],
)
def test_a_run_that_ends_early_names_the_command_that_goes_on(
    lab, sweep, monkeypatch, place, error, code, line, options
):
    def stop(*_, **__):
        raise error

    monkeypatch.setattr(f"maxk_lab.{place}", stop)
    result = lab("run", sweep, "--jobs", "2", *options.split())
    assert result.exit_code == code, result.stderr
    first, *_, last = result.stderr.splitlines()
    assert first.startswith(line)
    assert last == f"maxk-lab run tiny.yaml --jobs 2{options}"


def test_a_terminated_run_exits_with_130_and_can_be_resumed(lab, sweep, tmp_path):
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
    done = len(run.ids())
    assert 0 < done < 10
    planned = json.loads(lab("plan", sweep, "--set", "seeds=[0]", "--json").stdout)
    assert planned["counts"] == {"done": done, "failed": 0, "missing": 10 - done}


def test_online_tracking_without_a_key_is_a_mistake(finished, monkeypatch, lab):
    monkeypatch.setattr("wandb.login", lambda **_: False)
    monkeypatch.setenv("WANDB_MODE", "online")
    result = lab("track", "tiny", "--results", str(finished / "results"))
    assert result.exit_code == 2
    assert "\nerror: online tracking needs an API key of W&B" in result.stderr
