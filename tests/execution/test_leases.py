"""Leases: processes that share a run seldom do the same work, and lose nothing where they do."""

import json
import multiprocessing
import os
import signal
import time

import pytest
from run_processes import wait_until

from maxk_lab.execution.leases import Driver, drivers


@pytest.fixture
def other(tmp_path):
    """Another process in the run, which has the task, and waits to be ended."""

    def work():
        with Driver(tmp_path, expiry=2.0) as driver:
            driver.take("task")
            time.sleep(100)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    wait_until(lambda: [info for info in drivers(tmp_path) if "task" in info.tasks])
    yield process
    process.kill()
    process.join()


def test_a_driver_has_a_task_until_its_release_and_shows_the_progress(tmp_path):
    with Driver(tmp_path) as first, Driver(tmp_path) as second:
        assert first.take("task")
        assert first.take("task")
        assert not second.take("task")
        assert second.take("another")
        first.show("task", {"step": 3})
        first.show("another", {"step": 3})
        tasks = {first.info.id: {"task": {"step": 3}}, second.info.id: {"another": {}}}
        wait_until(lambda: {info.id: info.tasks for info in drivers(tmp_path)} == tasks)
        assert (holder := second.holder("task")) is not None
        assert (holder.id, holder.pid) == (first.info.id, os.getpid())
        first.release("task")
        assert second.take("task")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_driver_is_followed_at_once(tmp_path, other):
    with Driver(tmp_path, expiry=2.0) as driver:
        assert not driver.take("task")
        assert f"process {other.pid} on " in str(driver.holder("task"))
        other.kill()
        other.join()
        (tmp_path / "leases" / "another").touch()  # of what it had measured when it was killed
        assert driver.take("task")
        assert driver.others() == []
    assert not (tmp_path / "leases").exists()


def test_a_stopped_driver_is_followed_in_time(tmp_path, other):
    with Driver(tmp_path, expiry=2.0) as driver:
        os.kill(other.pid or 0, signal.SIGSTOP)
        since = time.monotonic()
        wait_until(lambda: driver.take("task"))
        assert time.monotonic() - since > 1.5


def test_half_taken_leases_and_half_written_files_are_nobodys(tmp_path):
    lease, half = tmp_path / "leases" / "task", tmp_path / "cache" / ".partial-pool-1"
    for path in (lease, half):
        path.parent.mkdir()
        path.touch()
    with Driver(tmp_path) as first:
        with Driver(tmp_path):  # which may be at work on them
            assert not first.take("task")
            first.remove_leftovers()
            assert half.exists()
        assert first.take("task")
        first.remove_leftovers()
    assert not half.exists()


def test_files_of_dead_drivers_are_removed(tmp_path):
    """Of another machine after a while; of this one at once."""
    with Driver(tmp_path) as first:
        (sign,) = (tmp_path / "drivers").iterdir()
        path = sign.with_name("00000000.json")
        mine = json.loads(sign.read_text()) | {"id": "0" * 8, "pid": 2**22 + 1}
        sign.with_name("odd.json").write_text("[")
        path.write_text(json.dumps(mine | {"host": "node7"}))
        assert [info.host for info in first.others()] == ["node7"]
        os.utime(path, (1, 1))
        assert (first.others(), path.exists()) == ([], False)
        path.write_text(json.dumps(mine))
        assert (first.others(), path.exists()) == ([], False)


def test_where_nothing_can_be_written_everyone_works(tmp_path):
    for name in ("leases", "drivers"):
        (tmp_path / name).write_text("in the way")
    with Driver(tmp_path) as first, Driver(tmp_path) as second:
        assert first.take("task")
        assert second.take("task")
        first.release("task")
