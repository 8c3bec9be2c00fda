"""What a job gets and asks of Slurm, and the files of submissions, without any Slurm."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.backends.slurm import queue, sbatch
from maxk_lab.sweeps.run.backends.slurm.jobs import jobs
from maxk_lab.sweeps.run.backends.slurm.log import last_words
from maxk_lab.sweeps.run.backends.slurm.placing import Place, packed
from maxk_lab.sweeps.run.backends.slurm.submission import Submission, submissions
from maxk_lab.sweeps.run.backends.slurm.watched import Watched
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.tasks import tasks_of
from maxk_lab.sweeps.spec.execution import Execution

MakePlan = Callable[..., Plan]


def execution(**settings: object) -> Execution:
    return Execution.model_validate({"backend": "slurm", **settings})


@pytest.mark.parametrize(
    ("settings", "most", "expected"),
    [
        ({}, 1000, [1, 1, 1]),
        ({"array": 2}, 1000, [3]),
        ({"pack": 2}, 1000, [1, 2]),
        ({"pack": 1}, 2, [1, 2]),
    ],
)
def test_units_are_packed_as_the_plan_says_within_the_limits_of_the_site(
    planned: MakePlan,
    run: RunDirectory,
    settings: dict[str, object],
    most: int,
    expected: list[int],
) -> None:
    plan = planned()
    run.write_spec(plan.spec)
    tasks = tasks_of(plan, {cell.id for cell in plan.cells}, run, None, run.heads)
    found = packed(run, tasks, execution(**settings), most)
    assert sorted(len(pack) for pack in found) == expected
    assert sorted(one.key for pack in found for one in pack) == sorted(one.key for one in tasks)


def test_the_keys_of_execution_are_the_parameters_of_the_jobs() -> None:
    asked = sbatch.parameters(
        execution(
            partition="gpu",
            account="lab",
            qos="long",
            constraint="a100",
            time="1-12:00:00",
            cpus=4,
            gpus=2,
            memory="4GB",
            signal=60,
            setup=["module load cuda"],
            options={"reservation": "course", "mail-user": "me@there"},
        ),
        at_once=7,
    )
    assert asked == {
        "partition": "gpu",
        "account": "lab",
        "qos": "long",
        "constraint": "a100",
        "time": 36 * 60,
        "cpus_per_task": 4,
        "gpus_per_node": 2,
        # That of the cells, and of the process that watches over them.
        "mem": f"{-(-(4 * 10**9 + 2**30) // 2**20)}M",
        "setup": ["module load cuda"],
        "array_parallelism": 7,
        "stderr_to_stdout": True,
        "wckey": None,
        "srun_args": ["--export=ALL"],
        "additional_parameters": {
            "requeue": True,
            "signal": "USR2@60",
            "reservation": "course",
            "mail-user": "me@there",
        },
    }


def test_what_is_not_said_is_left_to_the_site() -> None:
    asked = sbatch.parameters(execution(), at_once=1)
    unsaid = ("partition", "account", "qos", "constraint", "time", "gpus_per_node", "mem", "setup")
    assert all(asked[name] is None for name in unsaid)


def test_units_that_share_a_device_share_a_job() -> None:
    asked = sbatch.parameters(execution(gpus=0.25, cpus=2, memory="1GB"), at_once=1)
    assert sbatch.workers_of(execution(gpus=0.25)) == 4
    assert (asked["gpus_per_node"], asked["cpus_per_task"]) == (1, 8)
    assert asked["mem"] == f"{-(-(4 * 10**9 + 2**30) // 2**20)}M"


def test_an_option_counts_for_more_than_the_key_that_says_the_same() -> None:
    asked = sbatch.parameters(execution(memory="1GB", options={"mem": "9G"}), at_once=1)
    assert "mem" not in asked
    assert asked["additional_parameters"]["mem"] == "9G"


@pytest.mark.parametrize("name", ["array", "job_name", "no-requeue", "signal"])
def test_options_that_a_run_needs_are_not_for_the_user(name: str) -> None:
    with pytest.raises(LabError, match=f"a run sets {name.replace('_', '-')} itself"):
        sbatch.parameters(execution(options={name: "1"}), at_once=1)


def test_no_logs_are_asked_for_in_a_folder_that_slurm_would_rename() -> None:
    with pytest.raises(LabError, match="a folder with % in its name"):
        sbatch.submit("maxk-lab-x", [], Path("/runs/50%"), {})


@pytest.fixture
def submission(planned: MakePlan, run: RunDirectory) -> Submission:
    plan = planned()
    tasks = tasks_of(plan, {cell.id for cell in plan.cells}, run, None, run.heads)
    return Submission.write_new(run, [tasks[:2], tasks[2:]], plan.spec.execution)


def test_a_submission_is_read_as_it_was_written(submission: Submission, run: RunDirectory) -> None:
    changed = submission.changed(number="17")
    assert submissions(run) == [changed]
    assert changed.limits() == submission.limits()
    assert [changed.id(0), changed.id(1)] == ["17_0", "17_1"]
    assert str(changed.log(1)).endswith("/slurm/17_1_0_log.out")
    assert (submission.id(0), submission.log(0)) == ("", None)
    tasks = changed.tasks(0)
    assert [one.key for one in tasks] == list(changed.packs[0])
    assert tasks[0].cells
    assert changed.cells == (8, 4)


@pytest.mark.parametrize(
    ("state", "started", "refused"),
    [
        ("COMPLETED", False, True),
        ("FAILED", False, True),
        ("FAILED", True, False),
        ("NODE_FAIL", False, False),
        ("PREEMPTED", False, False),
    ],
)
def test_a_job_that_ended_by_itself_before_it_began_is_refused_something(
    submission: Submission, state: str, started: bool, refused: bool
) -> None:
    watched = Watched(Place(submission.changed(number="17"), 1))
    watched.started = started
    submission.logs.mkdir()
    (submission.logs / "17_1_0_log.out").write_text("module: no such module\n\x1b[0m\nbye\n")
    why = watched.refusal(queue.Job(submission.name, "17", 1, state, "n1"))
    assert bool(why) == refused
    if refused:
        assert why.startswith(f"job 17_1 ended as {state} on n1 before it began: mend execution")
        assert why.endswith("_log.out: module: no such module; [0m; bye")


def test_a_lost_job_is_told_without_the_folders_of_this_machine(submission: Submission) -> None:
    """Records travel: they have the place of the log in the run."""
    watched = Watched(Place(submission.changed(number="17"), 1))
    assert watched.ending(None) == (
        "job 17_1 is no longer known to Slurm; its log in the folder of the run: "
        f"jobs/{submission.name}/slurm/17_1_0_log.out"
    )
    assert last_words(None) == last_words(submission.logs / "none") == ""


@pytest.mark.parametrize(
    "change",
    [
        {"name": "maxk-lab-000000000000"},
        {"number": "17; rm -rf"},
        {"number": "-a"},
        {"packs": 7},
        {"made": "now"},
    ],
)
def test_a_submission_that_makes_no_sense_is_left_out(
    submission: Submission, run: RunDirectory, change: dict[str, object]
) -> None:
    path = submission.folder / "submission.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert submissions(run) == []
    path.write_text("[]")
    assert submissions(run) == []


def test_the_jobs_of_a_site_that_does_not_answer_are_not_known(
    submission: Submission, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(names: object) -> list[queue.Job]:
        raise queue.QueueError("squeue: Unable to contact slurm controller")

    monkeypatch.setattr(queue, "jobs", asked)
    found = jobs(run)
    assert found.trouble == "squeue: Unable to contact slurm controller"
    assert [job.state for job in found.found] == ["not known", "not known"]
    submission.changed(over=True)
    assert jobs(run).found == ()
