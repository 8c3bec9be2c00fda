"""What Slurm's programs say, read from programs of these names that say what a test wants."""

from __future__ import annotations

from pathlib import Path

import pytest

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.run.backends.slurm import queue
from maxk_lab.sweeps.run.backends.slurm.queue import Job, Limits, QueueError


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
        "maxk-lab-a|12|3|RUNNING|n1|None",
        "maxk-lab-a|12|4|PENDING||Resources",
        "maxk-lab-b|13|N/A|COMPLETED|n2|a | in a reason",
        "slurm_load_jobs: a warning on the way",
        "",
    ]
    put(programs, "squeue", f"/bin/cat <<'END'\n{chr(10).join(lines)}\nEND")
    found = queue.jobs(["maxk-lab-a", "maxk-lab-b"])
    assert found == [
        Job("maxk-lab-a", "12", 3, "RUNNING", "n1", "None"),
        Job("maxk-lab-a", "12", 4, "PENDING", "", "Resources"),
        Job("maxk-lab-b", "13", None, "COMPLETED", "n2", "a | in a reason"),
    ]
    assert [job.id for job in found] == ["12_3", "12_4", "13"]
    assert [job.has_ended for job in found] == [False, False, True]


def test_a_line_without_an_index_stands_for_all_jobs_that_have_none_of_their_own() -> None:
    one, rest = Job("a", "12", 1, "RUNNING"), Job("a", "12", None, "CANCELLED")
    assert queue.by_index([one, rest], "a", 3) == {0: rest, 1: one, 2: rest}
    assert queue.by_index([one], "a", 3) == {1: one}
    assert queue.by_index([one, rest], "b", 3) == {}


def test_no_names_ask_nothing(programs: Path) -> None:
    assert queue.jobs([]) == []


def test_limits_are_those_of_the_site_or_of_slurm_itself(programs: Path) -> None:
    put(programs, "scontrol", "echo 'MaxArraySize            = 101'; echo 'MaxJobCount = 1000'")
    assert queue.limits() == Limits(101, 1000)
    put(programs, "scontrol", "echo 'ClusterName = lab'")
    assert queue.limits() == Limits(1001, 10_000)


def test_a_program_that_refuses_is_quoted(programs: Path) -> None:
    put(programs, "squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(QueueError, match=r"^squeue: Unable to contact slurm controller$"):
        queue.jobs(["maxk-lab-a"])


def test_a_program_that_does_not_answer_is_given_up(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "_PATIENCE", 0.2)
    put(programs, "squeue", "exec /bin/sleep 60")
    with pytest.raises(QueueError, match="squeue does not answer within 0 s"):
        queue.jobs(["maxk-lab-a"])


def test_programs_are_asked_without_variables_that_change_the_question(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SQUEUE_PARTITION", "SQUEUE_USERS", "SLURM_CLUSTERS", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.setenv(name, "other")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    put(programs, "scontrol", 'echo "MaxJobCount=${SLURM_CONF:+7}"')
    put(programs, "squeue", "/usr/bin/env | /bin/grep -c =other >&2; exit 3")
    assert queue.limits() == Limits(1001, 7)
    with pytest.raises(QueueError, match=r"^squeue: 0$"):
        queue.count()


def test_a_machine_without_slurm_is_told_from_a_login_node(programs: Path) -> None:
    put(programs, "squeue", "true")
    with pytest.raises(RefusedError, match=r"^no sbatch, scontrol on this machine: .*login node"):
        queue.check_there()
    with pytest.raises(QueueError, match=r"^scontrol is not on this machine$"):
        queue.limits()
