"""Who may work in a run beside whom, and how that is shown, refused and ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from select import select

import pytest
from run_drivers import FakeClock, Other
from run_processes import wait_until

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.files import StorageError
from maxk_lab.sweeps.run.leases import Driver, exclusive, registered

Drivers = Callable[..., Driver]
Others = Callable[..., Other]


def test_who_is_registered_is_told(driver: Drivers, run: Path) -> None:
    one = driver()
    two = driver()
    assert [info.id for info in one.others()] == [two.info.id]
    assert {info.id for info in registered(run)} == {one.info.id, two.info.id}
    host = os.uname().nodename
    assert str(one.info).startswith(f"process {os.getpid()} on {host}, since 20")


@pytest.mark.slow
def test_the_beat_goes_on_beside_other_work(run: Path) -> None:
    with Driver(run, spec_hash="a", beat=0.02, expiry=1) as one:
        path = run / "drivers" / f"{one.info.id}.json"
        seen = set()
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            seen.add(path.read_bytes())
    assert len(seen) > 5
    assert not path.exists()


def test_two_sweeps_do_not_share_a_run(driver: Drivers, run: Path) -> None:
    driver("a")
    with pytest.raises(LabError) as caught:
        driver("b")
    assert str(caught.value).startswith(
        f"{run} is in use by another run, with another sweep file (process {os.getpid()} on "
    )
    assert str(caught.value).endswith("or stop it, or give this sweep a name of its own")
    # Who was refused leaves nothing, and nobody is disturbed.
    assert len(list((run / "drivers").iterdir())) == 1
    driver("a").check()


@pytest.mark.slow
def test_another_sweep_may_follow_a_killed_one_at_once(other: Others, driver: Drivers) -> None:
    other("b").end()
    assert driver("a").others() == []


@pytest.mark.slow
def test_another_sweep_waits_for_what_may_be_dead_elsewhere(
    run: Path, elsewhere: Callable[..., Path]
) -> None:
    with Driver(run, spec_hash="a"):
        path = elsewhere()
        with Driver(run, spec_hash="b", beat=0.05, expiry=0.5) as two:
            assert two.others() == []
        assert not path.exists()


@pytest.mark.slow
def test_another_sweep_is_refused_once_a_beat_from_elsewhere_is_seen(
    run: Path, elsewhere: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Driver(run, spec_hash="a", beat=0.1, expiry=20):
        monkeypatch.setattr("maxk_lab.sweeps.run.leases.info._boot", lambda: "another")
        since = time.monotonic()
        with pytest.raises(LabError, match="with another sweep file"):
            Driver(run, spec_hash="b", beat=0.1, expiry=20).__enter__()
    assert time.monotonic() - since < 60


def test_a_repair_bears_no_driver(driver: Drivers, run: Path) -> None:
    driver()
    with pytest.raises(LabError) as caught, exclusive(run, "fsck --repair"):
        pass
    assert str(caught.value).startswith(
        f"{run} is in use by another run (process {os.getpid()} on {os.uname().nodename}, since 20"
    )
    assert len(list((run / "drivers").iterdir())) == 1


def test_no_driver_begins_during_a_repair(driver: Drivers, run: Path) -> None:
    with exclusive(run, "fsck --repair"):
        with pytest.raises(LabError) as caught:
            driver()
        with pytest.raises(LabError, match="is in use by fsck --repair"), exclusive(run):
            pass
    assert str(caught.value).startswith(f"{run} is in use by fsck --repair (process {os.getpid()}")
    assert driver().take("unit").held


def test_what_bears_no_other_is_refused_beside_one(driver: Drivers, run: Path) -> None:
    one, two = driver(), driver()
    with pytest.raises(LabError) as caught, one.alone("--force"):
        pass
    assert str(caught.value).startswith(
        f"--force bears no other run beside it, and {run} is in use by another run (process "
    )
    # It goes on as one of two.
    assert one.info.alone == two.others()[0].alone == ""


def test_what_cannot_be_beside_others_waits_to_learn_whether_they_live(
    driver: Drivers, elsewhere: Callable[..., Path]
) -> None:
    """A file that a crash on another machine has left is in nobody's way for ever."""
    elsewhere(driver())
    one = driver(clock=time.monotonic, beat=0.1, expiry=0.5)
    with pytest.raises(LabError, match="bears no other run"), one.alone("the packing"):
        pass
    with one.alone("--force", patient=True):
        assert one.others() == []


@pytest.mark.slow
def test_who_comes_meanwhile_waits_for_what_is_brief(driver: Drivers, other: Others) -> None:
    one = driver(clock=time.monotonic)
    with one.alone("--force"):
        two = other(waits=True)
        wait_until(lambda: one.others())
        assert not select([two.process.stdout], [], [], 0.5)[0]
    assert two.hear() == "ready"


def test_leftovers_are_removed_by_the_only_driver(driver: Drivers, run: Path) -> None:
    one, left = driver(), run / ".partial-record"
    left.touch()
    with Driver(run, spec_hash="a"):
        one.remove_leftovers([run])
        assert left.exists()
    one.remove_leftovers([run])
    assert not left.exists()
    assert one.info.alone == ""
    one.beat()
    one.check()


def test_who_cannot_show_that_it_lives_is_told_to_end(
    driver: Drivers, clock: FakeClock, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = driver()

    def full(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    for _ in range(5):
        clock.now += 5
        one.beat()
        one.check()
    clock.now += 5
    one.beat()
    with pytest.raises(StorageError) as caught:
        one.check()
    assert "others may measure what it is at" in str(caught.value)
    assert str(caught.value).endswith("written there for 30 s: No space left on device")
    monkeypatch.undo()
    one.beat()
    one.check()


def test_a_disk_that_does_not_answer_is_told(driver: Drivers, clock: FakeClock) -> None:
    one = driver()
    for _ in range(5):
        clock.now += 5
        one.check()
    clock.now += 5
    with pytest.raises(StorageError, match="the disk does not answer"):
        one.check()


def test_who_was_taken_for_dead_goes_on_if_it_may(driver: Drivers, run: Path) -> None:
    one, two = driver(), driver()
    (run / "drivers" / f"{one.info.id}.json").unlink()
    assert two.others() == []
    one.beat()
    one.check()
    assert [info.id for info in two.others()] == [one.info.id]


def test_who_was_taken_for_dead_ends_where_another_sweep_came(driver: Drivers, run: Path) -> None:
    one = driver("a")
    (run / "drivers" / f"{one.info.id}.json").unlink()
    two = driver("b")
    one.beat()
    assert one.info.beat == 1  # it did not show itself to the other one
    with pytest.raises(StorageError, match="it was taken for dead, and process "):
        one.check()
    two.beat()
    two.check()
    assert two.others() == []


def test_the_folders_of_a_run_may_be_deleted(driver: Drivers, run: Path) -> None:
    one = driver()
    for path in (run / "drivers").iterdir():
        path.unlink()
    (run / "drivers").rmdir()
    run.rmdir()
    one.beat()
    one.check()
    assert driver().others()[0].id == one.info.id


@pytest.mark.parametrize("content", [b"", b"\0" * 300, b"[1]", b'{"id": "of another"}'])
def test_what_a_power_cut_leaves_is_dead_after_a_silence(
    driver: Drivers, clock: FakeClock, run: Path, content: bytes
) -> None:
    (run / "drivers").mkdir(parents=True)
    (run / "drivers" / "left.json").write_bytes(content)
    one = driver()
    assert str(one.others()[0]) == "an unknown process, left"
    for _ in range(12):
        clock.now += 5
        one.beat()
    assert one.others() == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/passwd")])
def test_a_driver_is_a_file(driver: Drivers, run: Path, make: Callable[[Path], None]) -> None:
    (run / "drivers").mkdir(parents=True)
    make(run / "drivers" / "x.json")
    with pytest.raises(RefusedError, match=r"x\.json must be a regular file"):
        driver()


def test_a_run_that_cannot_be_written_to_is_refused(run: Path, driver: Drivers) -> None:
    run.mkdir()
    (run / "drivers").touch()
    with pytest.raises(StorageError, match="cannot be written: "):
        driver()
