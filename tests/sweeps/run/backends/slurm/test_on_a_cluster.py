"""Runs on a real Slurm: detached, shared, killed, cancelled, requeued, preempted and refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_processes import wait_until
from slurm.cluster import Cluster

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.backends.slurm import placing, sbatch
from maxk_lab.sweeps.run.backends.slurm.history import History
from maxk_lab.sweeps.run.backends.slurm.jobs import cancel
from maxk_lab.sweeps.run.backends.slurm.submission import submissions
from maxk_lab.sweeps.run.execute import Outcome, execute
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.status import status_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
Go = Callable[..., Outcome]
MakePlan = Callable[..., Plan]
# Jobs that stay in the queue.
LATER = "execution.options={begin: now+1hour}"


def told(run: RunDirectory, name: str) -> list[dict[str, Any]]:
    """Every event of this name that any job of the run told."""
    lines = [
        json.loads(line)
        for path in sorted(run.root.glob("jobs/*/*/events.log"))
        for line in path.read_text().splitlines()
    ]
    return [line for line in lines if line["event"] == name]


def measured_once(run: RunDirectory) -> bool:
    """Whether no unit was begun twice."""
    return max(Counter(one["key"] for one in told(run, "unit_started")).values()) == 1


def test_a_detached_run_goes_on_and_the_same_command_joins_it(
    cluster: Cluster, go: Go, run: RunDirectory
) -> None:
    outcome = go("slow", "seeds=[0,1]", detach=True)
    assert len(outcome.missing) == 8
    assert len(cluster.jobs()) == 2
    joined = go("slow", "seeds=[0,1]")
    assert len(joined.done) + len(joined.reused) == 8
    assert len(submissions(run)) == 1
    assert measured_once(run)
    # All is done: nothing is submitted, nor asked.
    assert len(go("slow", "seeds=[0,1]").reused) == 8
    assert len(submissions(run)) == 1


def test_two_drivers_at_once_share_their_jobs(cluster: Cluster, go: Go, run: RunDirectory) -> None:
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
    assert len(submissions(run)) == 1
    assert measured_once(run)


def _killed_while_submitting(plan: Plan, run: RunDirectory, submit: bool) -> None:
    """Submit, and die before the number of the array is written down, or before sbatch."""
    number_of = sbatch.submit

    def die(*arguments: Any) -> str:
        if submit:
            number_of(*arguments)
            for pickled in arguments[2].glob("*_submitted.pkl"):
                pickled.unlink()
        os._exit(9)

    placing.sbatch.submit = die
    execute(plan, run, measure="fake_measures:slow", detach=True)


@pytest.mark.parametrize("submit", [True, False])
def test_a_driver_killed_while_it_submits_has_submitted_once(
    cluster: Cluster,
    planned: MakePlan,
    go: Go,
    run: RunDirectory,
    submit: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=_killed_while_submitting, args=(planned("seeds=[0,1]"), run, submit)
    )
    process.start()
    process.join(30)
    assert process.exitcode == 9
    assert [one.number for one in submissions(run)] == [""]
    assert len(cluster.jobs()) == (2 if submit else 0)
    monkeypatch.setattr(placing, "LATE", 2.0)
    outcome = go("slow", "seeds=[0,1]")
    assert len(outcome.done) == 8
    assert measured_once(run)
    assert len(submissions(run)) == (1 if submit else 2)


def test_a_job_that_comes_too_late_leaves_at_once(
    cluster: Cluster, go: Go, run: RunDirectory
) -> None:
    go("slow", LATER, detach=True)
    (submission,) = submissions(run)
    submission.changed(over=True)
    for job in cluster.jobs():
        cluster.let_start(job)
    wait_until(lambda: not cluster.jobs())
    assert not told(run, "job_started")


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
    again = go("slow", only="seed=0")
    assert len(again.done) == len(outcome.missing)
    assert not told(run, "job_requeued")


def test_status_tells_jobs_that_wait_and_run(
    cluster: Cluster, go: Go, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    go("slow", LATER, detach=True)
    wait_until(lambda: all(job.reason for job in status_of(run).jobs))
    found = status_of(run)
    assert dict(found.cells) == {"done": 0, "failed": 0, "running": 0, "queued": 12, "waiting": 0}
    assert [(job.state, job.reason, job.cells) for job in found.jobs] == [
        ("queued", "BeginTime", 4)
    ] * 3
    first = found.jobs[0]
    cluster.let_start(first.id)
    wait_until(lambda: status_of(run).running)
    found = status_of(run)
    assert found.cells["running"] + found.cells["done"] == 4
    assert found.jobs[0].state == "running"
    assert found.jobs[0].host in ("n1", "n2", "n3")
    assert Path(found.jobs[0].log).exists()
    wait_until(lambda: status_of(run).jobs[0].state == "finished")
    monkeypatch.setenv("PATH", "/nowhere")
    found = status_of(run)
    assert "squeue is not on this machine" in found.trouble
    assert [job.state for job in found.jobs] == ["finished", "not known", "not known"]
    assert found.cells["done"] == 4


def test_more_jobs_than_an_array_may_have_are_several_arrays(
    cluster: Cluster, planned: MakePlan, run: RunDirectory
) -> None:
    plan = planned("seeds=" + str(list(range(103))), "execution.pack=1", LATER)
    execute(plan, run, measure="fake_measures:quick", detach=True)
    assert sorted(len(one.packs) for one in submissions(run)) == [2, 101]
    assert len(cluster.jobs()) == 103
    assert len(cancel(run)) == 103
    assert not cluster.jobs()


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
    (submission,) = submissions(run)
    assert [one["job"] for one in told(run, "job_started")] == [submission.id(0)]


def test_what_sbatch_refuses_is_told_in_its_words_and_leaves_nothing(
    cluster: Cluster, go: Go, run: RunDirectory
) -> None:
    with pytest.raises(RefusedError, match=r"sbatch does not take the jobs: .*partition.*nowhere"):
        go("quick", "execution.partition=nowhere")
    assert not cluster.jobs()
    assert all(one.over for one in submissions(run))
    assert len(go("quick", only="seed=0").done) == 4


def test_a_job_that_cannot_begin_leaves_no_records_and_says_why(
    cluster: Cluster, go: Go, run: RunDirectory
) -> None:
    with pytest.raises(RefusedError, match=r"job \d+ ended as .*before it began.*no such module"):
        go("quick", "execution.setup=[echo no such module, exit 3]", only="seed=0")
    assert not run.ids()
    assert len(submissions(run)) == 1
    assert len(go("quick", only="seed=0").done) == 4


TRAINING = """
name: small
seeds: [0]
environment: {name: bandit, arms: 4}
tracking: {wandb: disabled}
training:
  steps: 800
  batch: 4
  checkpoint_every: 100000
  grid: {estimator: [maxk], baseline: [centred], n: [4], k: [2]}
  evaluate: {instances: 8, samples: 8}
"""


# Long enough that it is preempted before it ends, also on a fast machine.
LONG = TRAINING.replace("steps: 800", "steps: 3000")


def begun(run: RunDirectory) -> bool:
    """Whether the training is well under way."""
    progress = told(run, "progress")
    return bool(progress) and progress[-1].get("step", 0) > 150


def test_a_job_whose_time_is_nearly_up_leaves_a_checkpoint_and_requeues_itself(
    cluster: Cluster, planned: MakePlan, run: RunDirectory
) -> None:
    """Slurm counts in minutes: here the signal that it is asked for comes by its own command."""
    execute(planned("training.steps=200000", sweep=TRAINING), run, detach=True)
    (job,) = cluster.jobs()
    wait_until(lambda: begun(run))
    cluster.run("scancel", "--signal=USR2", job)
    wait_until(lambda: told(run, "job_requeued"))
    wait_until(lambda: cluster.jobs().get(job) == "PENDING")
    assert any(run.cache_path.glob("training-*"))
    assert told(run, "left")
    assert not told(run, "worker_died")
    assert not run.ids()
    (found,) = status_of(run).jobs
    assert (found.state, found.id) == ("queued", job)


def test_a_cancelled_training_has_a_checkpoint(
    cluster: Cluster, planned: MakePlan, run: RunDirectory
) -> None:
    execute(planned(sweep=TRAINING), run, detach=True)
    wait_until(lambda: begun(run))
    assert cancel(run)
    wait_until(lambda: not cluster.jobs())
    assert any(run.cache_path.glob("training-*"))
    assert not told(run, "worker_died")
    assert not told(run, "job_requeued")


@pytest.mark.deep
def test_a_preempted_training_goes_on_where_it_was_with_the_same_numbers(
    cluster: Cluster, planned: MakePlan, run: RunDirectory, tmp_path: Path
) -> None:
    plan = planned(sweep=LONG)
    execute(plan, run, detach=True)
    (job,) = cluster.jobs()
    wait_until(lambda: begun(run))
    urgent = ["-purgent", f"-w{cluster.node_of(job)}", "--exclusive", "-o/dev/null"]
    cluster.run("sbatch", *urgent, "--wrap", "sleep 1")
    wait_until(lambda: cluster.jobs().get(job) == "PENDING")
    cluster.let_start(job)
    assert len(execute(plan, run).done) == 1
    assert len(submissions(run)) == 1
    log = submissions(run)[0].events(0)
    history = History.read(log)
    assert list(history.starts.values()) == [2]
    assert not history.losses
    lines = log.read_text().rpartition("job_started")[2].splitlines()[1:]
    steps = [event["step"] for line in lines if "step" in (event := json.loads(line))]
    assert steps[0] > 150
    alone = RunDirectory(tmp_path / "alone")
    execute(planned(sweep=LONG, here=True), alone)
    assert [r.metrics for r in run.records(plan)] == [r.metrics for r in alone.records(plan)]
