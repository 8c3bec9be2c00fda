"""Leases: one winner each, taken from the dead, lost by those that were taken for dead."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from run_drivers import FakeClock, Other
from run_processes import wait_until

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.files import StorageError
from maxk_lab.sweeps.run.leases import Driver, Fence, held

Drivers = Callable[..., Driver]
Others = Callable[..., Other]


def files(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "leases").iterdir())


def pass_seconds(clock: FakeClock, seconds: float, *awake: Driver) -> None:
    """Let time pass in which these drivers show that they live, and look at others' signs."""
    for _ in range(round(seconds / 5)):
        clock.now += 5
        for one in awake:
            one.beat()
            one.others()


def test_a_unit_has_one_driver_until_it_is_given_back(driver: Drivers, run: Path) -> None:
    one, two = driver(), driver()
    lease = one.take("unit")
    assert lease is not None
    assert lease.held
    assert two.take("unit") is None
    assert two.holder("unit").id == one.holder("unit").id == one.info.id
    assert two.take("another").held
    assert files(run) == ["another.1", "unit.1"]
    lease.release()
    assert not lease.held
    assert one.holder("unit") is None
    assert two.take("unit").held
    lease.release()
    assert files(run) == ["another.1", "unit.1"]


def test_other_processes_are_told_by_a_fence(driver: Drivers, run: Path) -> None:
    lease = driver().take("unit")
    fence = pickle.loads(pickle.dumps(lease.fence))
    assert fence.held
    (run / "leases" / "unit.2").write_text("another")
    assert not fence.held
    assert not Fence(str(run / "nowhere"), *fence[1:]).held


def test_leases_end_with_their_driver(run: Path, driver: Drivers) -> None:
    with Driver(run, spec_hash="a") as one:
        lease = one.take("unit")
    assert not lease.held
    assert files(run) == []
    assert list((run / "drivers").iterdir()) == []
    assert driver().take("unit").generation == 1


def test_a_unit_taken_twice_is_the_same_lease(driver: Drivers) -> None:
    one = driver()
    assert one.take("unit") is one.take("unit")


@pytest.mark.slow
def test_of_many_processes_one_wins_each_unit(other: Others) -> None:
    racers = [other() for _ in range(4)]
    for racer in racers:
        racer.process.stdin.write("race 300\n")
        racer.process.stdin.flush()
    won = [number for racer in racers for number in racer.hear().split()]
    assert sorted(map(int, won)) == list(range(300))


@pytest.mark.slow
def test_a_killed_driver_loses_its_units_at_once(other: Others, driver: Drivers, run: Path) -> None:
    killed, one = other(), driver()
    assert killed.say("take unit") == "Lease('unit', generation=1)"
    assert one.take("unit") is None
    assert one.holder("unit").pid == killed.pid
    killed.send(signal.SIGKILL)
    assert one.holder("unit") is None
    lease = one.take("unit")
    assert (lease.generation, files(run)) == (2, ["unit.1", "unit.2"])
    lease.release()
    assert files(run) == []


@pytest.mark.slow
def test_a_zombie_is_dead(other: Others, driver: Drivers) -> None:
    killed, one = other(), driver()
    killed.say("take unit")
    os.kill(killed.pid, signal.SIGKILL)
    wait_until(lambda: one.take("unit"))
    # Nobody has asked yet how it ended.
    assert Path(f"/proc/{killed.pid}").exists()


@pytest.mark.slow
def test_a_stopped_driver_loses_its_units_after_a_while_and_sees_that(
    other: Others, run: Path
) -> None:
    stopped = other()
    for unit in ("lost", "kept"):
        assert stopped.say(f"take {unit}") == f"Lease('{unit}', generation=1)"
    with Driver(run, spec_hash="a", beat=0.1, expiry=1) as one:
        stopped.send(signal.SIGSTOP)
        assert one.take("lost") is None
        wait_until(lambda: one.take("lost"))
        stopped.send(signal.SIGCONT)
        assert stopped.say("held lost") == "False"
        assert stopped.say("held kept") == "True"
        # It lives again, and its other unit is its own.
        wait_until(lambda: one.others())
        assert one.take("kept") is None
    # Given back by the other one, and still not its own again.
    assert files(run) == ["kept.1"]
    assert stopped.say("held lost") == "False"
    assert stopped.say("take lost") == "Lease('lost', generation=1)"


def test_a_driver_elsewhere_is_dead_after_a_silence(
    driver: Drivers, clock: FakeClock, elsewhere: Callable[..., Path], run: Path
) -> None:
    lost, one = driver(), driver()
    lease = lost.take("unit")
    elsewhere(lost)
    assert one.take("unit") is None
    pass_seconds(clock, 55, one)
    assert one.take("unit") is None
    assert one.holder("unit").host == "node7"
    pass_seconds(clock, 5, one)
    assert one.take("unit").generation == 2
    assert not lease.held
    # What has lost it removes nothing of its successor's.
    lease.release()
    assert one.take("unit").held
    assert files(run) == ["unit.1", "unit.2"]


def test_a_lease_is_lost_also_where_a_third_driver_has_made_its_file_anew(
    driver: Drivers, clock: FakeClock, elsewhere: Callable[..., Path], run: Path
) -> None:
    lost, one = driver(), driver()
    lease = lost.take("unit")
    elsewhere(lost)
    one.take("unit")
    pass_seconds(clock, 60, one)
    one.take("unit").release()
    third = one.take("unit")
    assert files(run) == ["unit.1"]
    assert not lease.held
    lease.release()
    assert third.held


def test_a_driver_elsewhere_that_beats_lives_for_ever(
    driver: Drivers, clock: FakeClock, elsewhere: Callable[..., Path]
) -> None:
    busy, one = driver(), driver()
    busy.take("unit")
    for _ in range(40):
        busy.beat()
        elsewhere(busy)
        pass_seconds(clock, 20, one)
        assert one.take("unit") is None


def test_it_does_not_matter_how_often_one_looks(
    driver: Drivers, clock: FakeClock, elsewhere: Callable[..., Path]
) -> None:
    lost, one = driver(), driver()
    lost.take("unit")
    elsewhere(lost)
    assert one.take("unit") is None
    for _ in range(20):
        clock.now += 5
        one.beat()
    assert one.take("unit").generation == 2


@pytest.mark.parametrize("jump", [1e9, -1e9])
def test_no_clock_that_jumps_makes_anybody_dead(
    driver: Drivers, clock: FakeClock, elsewhere: Callable[..., Path], jump: float
) -> None:
    """Nor a machine that slept, with the drivers on both sides of it."""
    asleep, one = driver(), driver()
    asleep.take("unit")
    elsewhere(asleep)
    assert one.take("unit") is None
    clock.now += jump
    assert one.take("unit") is None
    one.check()
    pass_seconds(clock, 40, one)
    assert one.take("unit") is None
    one.check()


def test_a_clock_that_stands_still_makes_nobody_dead(
    driver: Drivers, elsewhere: Callable[..., Path]
) -> None:
    lost, one = driver(), driver()
    lost.take("unit")
    elsewhere(lost)
    for _ in range(100):
        one.beat()
        assert one.take("unit") is None


def test_another_process_with_the_number_of_a_dead_one_is_not_it(
    driver: Drivers, run: Path
) -> None:
    dead, one = driver(), driver()
    dead.take("unit")
    path = run / "drivers" / f"{dead.info.id}.json"
    started = f'"started":"{dead.info.started}"'
    assert started in path.read_text()
    path.write_text(path.read_text().replace(started, '"started":"1"'))
    assert one.take("unit").generation == 2


def test_what_a_dead_driver_left_goes_with_the_last_one(driver: Drivers, run: Path) -> None:
    (run / "leases").mkdir(parents=True)
    (run / "leases" / "old.1").write_text("nobody")
    (run / "leases" / "old.3").write_text("nobody")
    (run / "leases" / "empty.1").touch()
    (run / "leases" / "notes").touch()
    with Driver(run, spec_hash="a") as one:
        assert one.take("old").generation == 4
    assert files(run) == ["notes"]


def test_a_lease_that_is_being_made_is_somebodys(driver: Drivers, clock: FakeClock) -> None:
    one, _ = driver(), driver()
    one.take("another")
    (one.root / "leases" / "unit.1").touch()
    assert one.take("unit") is None
    pass_seconds(clock, 55, one)
    assert one.take("unit") is None
    pass_seconds(clock, 5, one)
    assert one.take("unit").generation == 2


def test_who_is_late_by_a_generation_withdraws(driver: Drivers, run: Path) -> None:
    """A lower generation is gone, as when its driver awoke and gave back what it had lost."""
    one, two = driver(), driver()
    one.take("unit")
    (run / "leases" / "unit.1").rename(run / "leases" / "unit.2")
    assert two.take("unit") is None
    assert files(run) == ["unit.2"]


def test_deleted_leases_are_lost_and_can_be_taken(driver: Drivers, run: Path) -> None:
    one, two = driver(), driver()
    lease = one.take("unit")
    (run / "leases" / "unit.1").unlink()
    (run / "leases").rmdir()
    assert not lease.held
    assert two.take("unit").held
    assert not lease.held


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/passwd")])
def test_a_lease_is_a_file(driver: Drivers, run: Path, make: Callable[[Path], None]) -> None:
    one = driver()
    (run / "leases").mkdir()
    make(run / "leases" / "unit.1")
    with pytest.raises(RefusedError, match=r"unit\.1 must be a regular file"):
        one.take("unit")
    assert one.take("another").held


@pytest.mark.parametrize("name", ["", "a/b", "..", "a.b", "ä", "x" * 201])
def test_a_unit_has_a_plain_name(driver: Drivers, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be named"):
        driver().take(name)


def test_a_lease_that_cannot_be_written_is_told(driver: Drivers, run: Path) -> None:
    (one := driver()).take("another")

    def full(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.write", full)
        with pytest.raises(StorageError, match=r"unit\.1 cannot be written: No space left"):
            one.take("unit")
    assert files(run) == ["another.1"]


def test_a_folder_in_the_way_is_told(driver: Drivers, run: Path) -> None:
    one = driver()
    (run / "leases").touch()
    with pytest.raises(LabError, match=r"unit\.1 cannot be written: Not a directory"):
        one.take("unit")


def test_all_own_leases_are_looked_at_in_one_listing(
    driver: Drivers, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = driver(), driver()
    names = [f"unit{number}" for number in range(20)]
    leases = {name: one.take(name) for name in names}
    two.take("another")
    assert one.lost() == []
    (run / "leases" / "unit3.2").write_text(two.info.id)
    (run / "leases" / "unit5.1").unlink()
    (run / "leases" / "unit7.1").write_text(two.info.id)  # made anew where all were deleted
    leases["unit9"].release()
    listings = []
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: listings.append(1) or listed(folder))
    assert one.lost() == ["unit3", "unit5", "unit7"]
    assert len(listings) == 1
    assert {name for name, lease in leases.items() if not lease.held} == {
        *one.lost(),
        "unit9",
    }
    assert {unit: info.id for unit, info in held(run).items()} == {
        **{name: one.info.id for name in names if name not in ("unit3", "unit5", "unit7", "unit9")},
        **{"unit3": two.info.id, "unit7": two.info.id, "another": two.info.id},
    }


def test_who_has_what_is_told_from_few_listings(
    driver: Drivers, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = driver()
    for number in range(20):
        one.take(f"unit{number}")
    listings = []
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: listings.append(1) or listed(folder))
    assert len(held(run)) == 20
    assert len(listings) <= 2  # the leases, and the drivers
