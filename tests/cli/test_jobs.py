"""Jobs of a cluster at the command line: detached, shown, joined, interrupted and cancelled."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from launched import Launch, Launched
from slurm.cluster import Cluster
from slurm.site import slurm
from sweep_files import plan_of

from maxk_lab.execution.execute import tasks_of
from maxk_lab.execution.records import RunDirectory

from .conftest import SWEEP, program

Lab = Callable[..., Result]
HERE = [
    "--set",
    "execution.backend=slurm",
    "--set",
    "execution.partition=main",
    "--set",
    "execution.time=5min",
]
# Jobs that stay in the queue.
LATER = ["--set", "execution.options={begin: now+1hour}"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A Slurm of three nodes."""
    with slurm() as found:
        yield found


def test_a_machine_without_slurm_says_where_to_run(
    sweep: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    refused = lab("run", sweep, "--set", "execution.backend=slurm")
    assert refused.exit_code == 1
    assert 'Could not detect "srun"' in refused.stderr
    assert "such as on a login node" in refused.stderr


def test_jobs_are_spoken_of_only_where_there_are_any(
    lab: Lab, sweep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("maxk_lab.cli.progress.execute", stop)
    monkeypatch.setenv("PATH", "/nowhere")
    nothing = lab("run", sweep, "--set", "execution.backend=slurm")
    assert (nothing.exit_code, "maxk-lab status" in nothing.stderr) == (130, False)
    run = RunDirectory(Path("results/tiny"))
    plan = plan_of(sweep)
    run.write_spec(plan.spec)
    tasks = tasks_of(plan, {plan.cells[0].id}, run, None, run.heads)
    units = [{tasks[0].key: {plan.cells[0].id: 1}}]
    path = run.root / "jobs" / "a" / "submission.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"number": "1", "units": units}))
    assert (
        "maxk-lab status tiny --cancel"
        in lab("run", sweep, "--set", "execution.backend=slurm").stderr
    )


@pytest.mark.slow
def test_a_detached_run_is_shown_joined_interrupted_and_cancelled(
    cluster: Cluster, tmp_path: Path, launch: Launch
) -> None:
    (tmp_path / "tiny.yaml").write_text(SWEEP, encoding="utf-8")
    run = ["run", "tiny.yaml", *HERE, *LATER]
    detached = program([*run, "--detach"], tmp_path)
    assert detached.returncode == 0, detached.stderr
    assert "tiny: jobs measure 20 cells, and go on by themselves" in detached.stderr
    assert "maxk-lab status tiny" in detached.stderr
    assert len(cluster.jobs()) == 2
    told = program(["status", "tiny"], tmp_path).stdout
    assert "20 cells: 0 done, 0 failed, 0 running, 20 queued, 0 waiting" in told
    assert re.search(r"^\d+_0 +queued .* 0/10 .*/\d+_0_0_log\.out", told, re.MULTILINE)

    def waiting() -> Launched:
        started = launch(*run)
        assert started.wait_for(
            lambda: "at work: process" in program(["status", "tiny"], tmp_path).stdout
        )
        return started

    joined = waiting()
    joined.send(signal.SIGINT)
    assert joined.wait() == 130
    assert "The jobs that were submitted wait and run on." in joined.err
    assert "To end its jobs: maxk-lab status tiny --cancel" in joined.err
    assert len(cluster.jobs()) == 2

    left = waiting()
    cancelled = program(["status", "tiny", "--cancel"], tmp_path)
    assert "tiny: 2 jobs cancelled; every finished cell is kept" in cancelled.stderr
    assert left.wait() == 1
    assert re.search(r"20 cells have no record: job \d+_0 was cancelled; job", left.err)
    assert not cluster.jobs()


@pytest.mark.slow
def test_the_words_of_sbatch_end_the_command_with_how_to_go_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "tiny.yaml").write_text(SWEEP, encoding="utf-8")
    run = ["run", "tiny.yaml", *HERE, "--set", "execution.partition=nowhere"]
    refused = program(run, tmp_path)
    assert refused.returncode == 1
    assert "sbatch does not take the jobs: " in refused.stderr
    assert "invalid partition specified: nowhere" in refused.stderr
    assert "go on with:\nmaxk-lab run tiny.yaml --set" in refused.stderr
    assert refused.stdout == ""
