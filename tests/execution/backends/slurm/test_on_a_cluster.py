"""Runs on a real Slurm: detached, shared, killed, cancelled, requeued, preempted and refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_processes import wait_until
from slurm.cluster import Cluster

from maxk_lab.errors import RefusedError
from maxk_lab.execution.backends.slurm import jobs as jobs_module
from maxk_lab.execution.backends.slurm.jobs import cancel, submitted
from maxk_lab.execution.execute import Outcome, execute
from maxk_lab.execution.leases import drivers
from maxk_lab.execution.progress import status_of
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
Go = Callable[..., Outcome]
MakePlan = Callable[..., Plan]
# Jobs that stay in the queue.
LATER = "execution.options={begin: now+1hour}"


def printed(run: RunDirectory, name: str) -> list[dict[str, Any]]:
    """Every event of this name that any job of the run has printed."""
    logs = sorted((run.root / "jobs").glob("*/*_log.out"))
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return [json.loads(line.split(name, 1)[1]) for line in lines if f" - {name} {{" in line]


def measured_once(run: RunDirectory) -> bool:
    """Whether no unit was begun twice."""
    return max(Counter(one["unit"] for one in printed(run, "unit_started")).values()) == 1


def arrays(run: RunDirectory) -> int:
    """The arrays that were submitted, also of those that have ended."""
    return len(list((run.root / "jobs").iterdir()))


def test_a_detached_run_goes_on_and_the_same_command_joins_it(
    cluster: Cluster, go: Go, run: RunDirectory
) -> None:
    assert len(go("slow", "seeds=[0,1]", detach=True).missing) == 8
    assert len(cluster.jobs()) == 2
    joined = go("slow", "seeds=[0,1]")
    assert len(joined.done) + len(joined.reused) == 8
    assert measured_once(run)
    # All is done: nothing is submitted, nor asked.
    assert len(go("slow", "seeds=[0,1]").reused) == 8
    assert arrays(run) == 1


def test_two_drivers_at_once_measure_all(cluster: Cluster, go: Go, run: RunDirectory) -> None:
    """Both may submit the same units: their jobs lease these, and each is measured once."""
    outcomes: list[Outcome] = []
    both = [
        threading.Thread(target=lambda: outcomes.append(go("slow", "seeds=[0,1]")))
        for _ in range(2)
    ]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    assert [len(outcome.done) for outcome in outcomes] == [8, 8]
    assert measured_once(run)


def _killed_while_submitting(plan: Plan, run: RunDirectory) -> None:
    """Submit, and die before it is written what was submitted."""
    sbatch = jobs_module.sbatch

    def die(*arguments: Any) -> str:
        sbatch(*arguments)
        os._exit(9)

    jobs_module.sbatch = die
    execute(plan, run, measure="fake_measures:slow", detach=True)


def test_where_a_driver_was_killed_while_it_submits_another_one_goes_on(
    cluster: Cluster, planned: MakePlan, go: Go, run: RunDirectory
) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=_killed_while_submitting, args=(planned("seeds=[0,1]"), run)
    )
    process.start()
    process.join(30)
    assert (process.exitcode, len(cluster.jobs())) == (9, 2)
    # What jobs measure of which nobody knows is passed over, or measured twice.
    assert len(go("slow", "seeds=[0,1]").done) == len(run.heads) == 8


def test_cancelled_jobs_leave_a_run_that_goes_on(
    cluster: Cluster, go: Go, run: RunDirectory
) -> None:
    ended: list[str] = []

    def cancel_once(name: str, payload: dict[str, Any]) -> None:
        if name == "cell_done" and not ended:
            ended.extend(cancel(run))

    outcome = go("slow", only="seed=0", on_event=cancel_once)
    assert ended
    assert outcome.missing
    assert not outcome.failed
    assert not cluster.jobs()
    assert len(go("slow", only="seed=0").done) == len(outcome.missing)


def test_status_tells_jobs_that_wait_and_run(
    cluster: Cluster, go: Go, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    go("slow", LATER, detach=True)
    wait_until(lambda: all(job.reason for job in status_of(run).jobs))
    status = status_of(run)
    assert dict(status.cells) == {"done": 0, "failed": 0, "running": 0, "queued": 12, "waiting": 0}
    assert [(job.state, job.reason, job.cells) for job in status.jobs] == [
        ("queued", "BeginTime", 4)
    ] * 3
    first = status.jobs[0]
    cluster.let_start(first.id)
    wait_until(lambda: status_of(run).running)
    status = status_of(run)
    assert status.cells["running"] + status.cells["done"] == 4
    assert status.jobs[0].state == "running"
    assert status.jobs[0].host in ("n1", "n2", "n3")
    assert Path(status.jobs[0].log).exists()
    wait_until(lambda: status_of(run).jobs[0].state == "finished")
    monkeypatch.setenv("PATH", "/nowhere")
    status = status_of(run)
    assert "no squeue on this machine" in status.trouble
    assert [job.state for job in status.jobs] == ["finished", "not known", "not known"]
    assert status.cells["done"] == 4


def test_jobs_are_found_whatever_the_environment_says_of_slurm(
    cluster: Cluster, go: Go, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a job of an array, of a user who has settings of their own."""
    for name, value in {
        "SBATCH_JOB_NAME": "mine",
        "SBATCH_EXPORT": "NONE",
        "SBATCH_WAIT": "1",
        "SBATCH_PARTITION": "nowhere",
        "SQUEUE_PARTITION": "urgent",
        "SQUEUE_USERS": "nobody",
        "SQUEUE_STATES": "FAILED",
        "SLURM_CLUSTERS": "another",
        "SLURM_EXPORT_ENV": "NONE",
        "SLURM_JOB_ID": "4711",
        "SLURM_ARRAY_JOB_ID": "4700",
        "SLURM_ARRAY_TASK_ID": "11",
    }.items():
        monkeypatch.setenv(name, value)
    go("slow", "seeds=[0]", detach=True)
    assert os.environ["SBATCH_JOB_NAME"] == "mine"
    assert len(go("slow", "seeds=[0]").done) == 4
    (job,) = submitted(run)
    assert Path(job.log).exists()


def test_a_job_that_cannot_begin_leaves_no_records_and_says_why(
    cluster: Cluster, go: Go, run: RunDirectory
) -> None:
    with pytest.raises(RefusedError, match=r"job \d+ ended as .*before it began.*no such module"):
        go("quick", "execution.setup=[echo no such module, exit 3]", only="seed=0")
    assert not run.ids()
    assert arrays(run) == 1
    assert len(go("quick", only="seed=0").done) == 4


TRAINING = """
name: small
seeds: [0]
environment: {name: bandit, arms: 4}
tracking: {wandb: disabled}
training:
  steps: 3000
  batch: 4
  checkpoint_every: 100000
  grid: {estimator: [maxk], baseline: [centred], n: [4], k: [2]}
  evaluate: {instances: 8, samples: 8}
"""


def begun(run: RunDirectory) -> bool:
    """Whether the training is well under way."""
    shown = (one for driver in drivers(run.root) for one in driver.tasks.values())
    return any(one.get("step", 0) > 150 for one in shown)


@pytest.mark.parametrize("preempted", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_training_goes_on_where_it_was_with_the_same_numbers(
    cluster: Cluster,
    planned: MakePlan,
    run: RunDirectory,
    tmp_path: Path,
    preempted: bool,
) -> None:
    plan = planned(sweep=TRAINING)
    execute(plan, run, detach=True)
    (job,) = cluster.jobs()
    wait_until(lambda: begun(run))
    if preempted:
        urgent = ["-purgent", f"-w{cluster.node_of(job)}", "--exclusive", "-o/dev/null"]
        cluster.run("sbatch", *urgent, "--wrap", "sleep 1")
    else:  # Slurm counts in minutes: the signal before the limit comes by a command
        cluster.run("scancel", "--signal=USR2", job)
    wait_until(lambda: cluster.jobs().get(job) == "PENDING")
    assert any(run.cache_path.glob("training-*"))
    assert not run.ids()
    assert [(one.id, one.state) for one in status_of(run).jobs] == [(job, "queued")]
    # Within the second a node refuses what it has just been told to end.
    time.sleep(1.1)
    cluster.let_start(job)
    steps: list[int] = []

    def note(name: str, payload: dict[str, Any]) -> None:
        steps.extend(payload[key] for key in payload if name == "progress" and key == "step")

    assert len(execute(plan, run, on_event=note).done) == 1
    assert arrays(run) == 1
    assert steps[0] > 150
    assert len(printed(run, "unit_started")) == 2
    assert not printed(run, "worker_died")
    alone = RunDirectory(tmp_path / "alone")
    execute(planned(sweep=TRAINING, here=True), alone)
    assert [r.metrics for r in run.records(plan)] == [r.metrics for r in alone.records(plan)]
