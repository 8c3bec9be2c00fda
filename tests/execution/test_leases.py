"""Leases: processes that share a run seldom do the same work, and lose nothing where they do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_processes import wait_until

from maxk_lab.execution.leases import Driver, drivers

# Another process in the run, which says that it has the task, and waits to be ended.
OTHER = """\
import sys, time
from pathlib import Path
from maxk_lab.execution.leases import Driver
with Driver(Path(sys.argv[1]), expiry=2.0) as driver:
    print(driver.take("task"), flush=True)
    time.sleep(100)
"""


@pytest.fixture
def other(tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    yield process
    process.kill()
    process.communicate()


def test_one_has_a_task_until_it_gives_it_free_and_shows_how_far_it_is(tmp_path: Path) -> None:
    with Driver(tmp_path) as one, Driver(tmp_path) as two:
        assert one.take("task")
        assert one.take("task")
        assert not two.take("task")
        assert two.take("another")
        one.show("task", {"step": 3})
        one.show("another", {"step": 3})
        tasks = {one.info.id: {"task": {"step": 3}}, two.info.id: {"another": {}}}
        wait_until(lambda: {info.id: info.tasks for info in drivers(tmp_path)} == tasks)
        assert (holder := two.holder("task")) is not None
        assert (holder.id, holder.pid) == (one.info.id, os.getpid())
        one.release("task")
        assert two.take("task")
    assert list(tmp_path.iterdir()) == []


def test_who_is_killed_is_followed_at_once(tmp_path: Path, other: subprocess.Popen) -> None:
    with Driver(tmp_path, expiry=2.0) as driver:
        wait_until(lambda: driver.holder("task") is not None)
        assert not driver.take("task")
        assert f"process {other.pid} on " in str(driver.holder("task"))
        other.kill()
        other.wait()
        (tmp_path / "leases" / "another").touch()  # of what it had measured when it was killed
        assert driver.take("task")
        assert driver.others() == []
    assert not (tmp_path / "leases").exists()


def test_who_is_stopped_is_followed_in_time(tmp_path: Path, other: subprocess.Popen) -> None:
    with Driver(tmp_path, expiry=2.0) as driver:
        os.kill(other.pid, signal.SIGSTOP)
        since = time.monotonic()
        wait_until(lambda: driver.take("task"))
        assert time.monotonic() - since > 1.5
        os.kill(other.pid, signal.SIGCONT)


def test_what_was_half_taken_or_half_written_is_nobody_s(tmp_path: Path) -> None:
    lease, half = tmp_path / "leases" / "task", tmp_path / "cache" / ".partial-pool-1"
    for path in (lease, half):
        path.parent.mkdir()
        path.touch()
    with Driver(tmp_path) as one:
        with Driver(tmp_path):  # which may be at work on them
            assert not one.take("task")
            one.remove_leftovers()
            assert half.exists()
        assert one.take("task")
        one.remove_leftovers()
    assert not half.exists()


def test_signs_of_those_who_are_gone_are_removed(tmp_path: Path) -> None:
    """Of another machine after a while; of this one at once."""
    with Driver(tmp_path) as one:
        (sign,) = (tmp_path / "drivers").iterdir()
        path = sign.with_name("00000000.json")
        mine = json.loads(sign.read_text()) | {"id": "0" * 8, "pid": 2**22 + 1}
        path.write_text(json.dumps(mine | {"host": "node7"}))
        sign.with_name("odd.json").write_text("[")
        assert [info.host for info in one.others()] == ["node7"]
        os.utime(path, (1, 1))
        assert one.others() == []
        assert not path.exists()
        path.write_text(json.dumps(mine))
        assert one.others() == []
        assert not path.exists()


def test_where_nothing_can_be_written_everyone_works(tmp_path: Path) -> None:
    for name in ("leases", "drivers"):
        (tmp_path / name).write_text("in the way")
    with Driver(tmp_path) as one, Driver(tmp_path) as two:
        assert one.take("task")
        assert two.take("task")
        assert one.others() == []
        one.release("task")
