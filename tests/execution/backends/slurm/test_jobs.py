"""What Slurm's programs say, read from programs of these names, and what they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from maxk_lab.errors import LabError
from maxk_lab.execution.backends.backend import Job
from maxk_lab.execution.backends.slurm import jobs
from maxk_lab.execution.backends.slurm.jobs import QueueError, packed, parameters, sbatch
from maxk_lab.execution.execute import tasks_of
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan
from maxk_lab.sweep_file.execution import Execution

JOB = Job("1", "a/log", {})


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH, but for the shell that its programs need."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_jobs_are_read_line_by_line(programs: Path) -> None:
    lines = [
        "12_3|RUNNING|n1|None",
        "12_[0-2,4]|CANCELLED|n2|Resources",
        "13|PENDING||a | in a reason",
        "slurm_load_jobs: a warning on the way",
        "",
    ]
    put(programs, "squeue", f"/bin/cat <<'END'\n{chr(10).join(lines)}\nEND")
    found = jobs.queue([Job(id_, "a/log", {}) for id_ in ("12_1", "12_3", "13", "14_0")])
    assert [(job.state, job.host, job.reason) for job in found] == [
        ("ended", "n2", "CANCELLED"),
        ("running", "n1", ""),
        ("queued", "", "a | in a reason"),
        # Slurm has forgotten it.
        ("ended", "", ""),
    ]


def test_a_program_that_refuses_or_is_not_there_is_told(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(QueueError, match=r"^no squeue on this machine: .*login node"):
        jobs.queue([JOB])
    put(programs, "squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(QueueError, match=r"^squeue: Unable to contact slurm controller$"):
        jobs.queue([JOB])
    monkeypatch.setattr(jobs, "_PATIENCE", 0.2)
    put(programs, "squeue", "exec /bin/sleep 60")
    with pytest.raises(QueueError, match="squeue does not answer within 0 s"):
        jobs.queue([JOB])


def test_what_a_sweep_leaves_open_a_user_may_say_for_all_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = {"SLURM_CONF": "/conf", "SBATCH_ACCOUNT": "lab", "SBATCH_QOS": "long"}
    dropped = {"SBATCH_PARTITION": "gpu", "SBATCH_REQUEUE": "0", "SLURM_ARRAY_TASK_ID": "3"}
    for name, value in (kept | dropped).items():
        monkeypatch.setenv(name, value)
    said = jobs.environment(["partition", "mem"])
    assert {name for name in kept | dropped if name in said} == kept.keys()
    assert {name for name in kept | dropped if name in jobs.environment()} == {"SLURM_CONF"}


def execution(**settings: object) -> Execution:
    return Execution.model_validate({"backend": "slurm", **settings})


def test_units_are_packed_as_the_plan_says(planned: Callable[..., Plan], run: RunDirectory) -> None:
    plan = planned()
    run.write_spec(plan.spec)
    tasks = tasks_of(plan, {cell.id for cell in plan.cells}, run, None, run.heads)
    for settings, sizes in [({}, [1, 1, 1]), ({"array": 2}, [3]), ({"pack": 2}, [1, 2])]:
        found = packed(run, tasks, execution(**settings))
        assert sorted(map(len, found)) == sizes
        assert sorted(one.key for pack in found for one in pack) == sorted(t.key for t in tasks)


def test_the_keys_of_execution_are_the_parameters_of_the_jobs() -> None:
    said = {"partition": "gpu", "account": "lab", "qos": "long", "constraint": "a100"}
    more = {"reservation": "course", "mail-user": "me@there"}
    setup = ["module load cuda"]
    asked = parameters(
        execution(
            **said,
            **{"time": "1-12:00:00", "cpus": 4, "gpus": 2, "memory": "4GB", "signal": 60},
            **{"array": 7, "setup": setup, "options": more},
        )
    )
    assert asked == {
        **said,
        "time": 36 * 60,
        "cpus_per_task": 4,
        "gpus_per_node": 2,
        # That of the cells, and of the process that watches over them.
        "mem": f"{-(-(4 * 10**9 + 2**30) // 2**20)}M",
        "setup": setup,
        "array_parallelism": 7,
        "stderr_to_stdout": True,
        "wckey": None,
        "srun_args": ["--export=ALL"],
        "signal_delay_s": 60,
        "additional_parameters": {"requeue": True, **more},
    }


def test_what_is_not_said_is_left_to_the_site_and_an_option_counts_for_more_than_a_key() -> None:
    asked = parameters(execution())
    unsaid = ("partition", "account", "qos", "constraint", "time", "gpus_per_node", "mem", "setup")
    assert all(asked[name] is None for name in unsaid)
    # A job works for half of its time at least.
    asked = [parameters(execution(time=time))["signal_delay_s"] for time in ("1min", "4min", "1h")]
    assert asked == [30, 120, 120]
    # Slurm counts in minutes.
    assert parameters(execution(time="61s"))["time"] == 2
    asked = parameters(execution(memory="1GB", options={"mem": "9G"}))
    assert "mem" not in asked
    assert asked["additional_parameters"]["mem"] == "9G"
    # Units that share a device share a job.
    asked = parameters(execution(gpus=0.25, cpus=2, memory="1GB"))
    assert (asked["gpus_per_node"], asked["cpus_per_task"]) == (1, 8)
    assert asked["mem"] == f"{-(-(4 * 10**9 + 2**30) // 2**20)}M"


def test_no_logs_are_asked_for_in_a_folder_that_slurm_would_rename() -> None:
    with pytest.raises(LabError, match="a folder with % in its name"):
        sbatch([], Path("/runs/50%"), {})
