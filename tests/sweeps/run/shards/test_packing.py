"""Packing: whenever it is stopped, whoever reads meanwhile, every record is there as it was."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maxk_lab.files import StorageError, remove_partials
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.events import Teller
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards import archive, packing, telling


def files(run: RunDirectory) -> Counter[str]:
    return Counter(path.suffix for path in there(run))


def there(run: RunDirectory) -> list[Path]:
    return sorted(run.cells_path.glob("[!.]*"))


def ages(run: RunDirectory, plan: Plan) -> list[int]:
    return [record.timings["age"] for record in RunDirectory(run.root).records(plan)]


def test_a_packed_record_is_the_same(run: RunDirectory, plan: Plan, put) -> None:
    put()
    whole, loose = run.records(plan), {p.name: p.read_bytes() for p in there(run)}
    assert run.pack() == 8
    assert files(run) == {".zip": 2}
    for seen in (run, RunDirectory(run.root)):
        assert seen.records(plan) == whole
        assert [seen.read(cell.id) for cell in plan.cells] == whole
        assert seen.ids() == sorted(cell.id for cell in plan.cells)
        assert len(seen.outlines(plan)) == len(seen.checked_outlines(plan)) == 8
        assert seen.problems == []
    packed = {}
    for path in there(run):
        with zipfile.ZipFile(path) as members:
            packed |= {name: members.read(name) for name in members.namelist()}
    assert packed == loose


def test_a_packed_record_is_opened_with_common_tools(run, plan, put) -> None:
    put()
    before = {path.name: path.read_bytes() for path in there(run)}
    run.pack()
    name, data = min(before.items())
    shard = there(run)[0]
    with zipfile.ZipFile(shard) as members:
        assert members.testzip() is None
    found = subprocess.run(
        ["python3", "-m", "zipfile", "-l", str(shard)], check=True, capture_output=True, text=True
    )
    assert name in found.stdout
    assert zipfile.Path(shard, name).read_bytes() == data


def test_few_records_stay_files(run: RunDirectory, put) -> None:
    put(0, 1, 2)
    assert run.pack() == 0
    assert files(run) == {".json": 3}
    put(0, 1, 2, 3, 4, 5)
    assert run.pack() == 4
    assert files(run) == {".json": 2, ".zip": 1}


def test_large_records_fill_a_shard_sooner(run, plan, put, monkeypatch) -> None:
    put()
    monkeypatch.setattr(packing, "FULL", 1)
    assert run.pack() == 8
    assert files(run) == {".zip": 8}
    assert len(run.records(plan)) == 8


def test_equal_records_give_equal_files(run, plan, put, tmp_path) -> None:
    put()
    run.pack()
    other = RunDirectory(tmp_path / "other")
    for record in reversed(run.records(plan)):
        other.write(record)
    time.sleep(0.01)
    other.pack()
    assert {path.name: path.read_bytes() for path in there(other)} == {
        path.name: path.read_bytes() for path in there(run)
    }


def test_failed_records_are_packed_and_damaged_ones_are_not(run, plan, put) -> None:
    put(0, 1, 2, error="a traceback")
    put(3, 4, 5)
    broken = run.cells_path / f"{plan.cells[5].id}.json"
    broken.write_bytes(broken.read_bytes().replace(b"0.1", b"0.2"))
    assert run.pack() == 4
    assert broken.exists()
    assert [record.status for record in run.records(plan)] == ["failed"] * 3 + ["done"] * 2
    assert list(run.damaged) == [plan.cells[5].id]


def test_a_file_counts_before_a_shard_and_the_newest_shard_before_others(run, plan, put) -> None:
    put()
    run.pack()
    put(0, 1, age=1)
    assert ages(run, plan) == [1, 1] + [0] * 6
    put(2, 3, 4, age=1)
    assert run.pack(only={cell.id for cell in plan.cells}) == 4
    assert ages(run, plan) == [1] * 5 + [0] * 3
    put(*range(5), age=2)
    run.pack()
    assert ages(run, plan) == [2] * 5 + [0] * 3


def test_what_was_replaced_is_dropped(run, plan, put) -> None:
    put()
    run.pack()
    put(0, 1, 2, 3, age=1)
    run.pack()
    members = Counter(name for p in there(run) for name in zipfile.ZipFile(p).namelist())
    assert members == {f"{cell.id}.json": 1 for cell in plan.cells}
    put(0, age=2)
    run.pack()
    assert files(run)[".json"] == 1
    # What a user removes is not there any more, whatever it had replaced.
    (run.cells_path / f"{plan.cells[0].id}.json").unlink()
    assert RunDirectory(run.root).read(plan.cells[0].id) is None


def test_records_of_another_sweep_file_are_packed_and_found_again(run, plan, put) -> None:
    put()
    other = {f"{'0' * 15}{n}": b"no record" for n in range(4)}
    run.pack()
    assert run.stale(plan) == []
    for one, data in other.items():
        (run.cells_path / f"{one}.json").write_bytes(data)
    assert run.stale(plan) == sorted(other)


def test_what_is_packed_is_not_read_again(run, plan, put, monkeypatch) -> None:
    put()
    checked = run.checked_outlines(plan)
    monkeypatch.setattr(type(run.cells), "read", None)
    run.pack()
    assert run.checked_outlines(plan) == checked


def test_a_file_that_is_replaced_meanwhile_stays(run, plan, put, monkeypatch) -> None:
    put()
    real = packing.write_archive

    def slow(*arguments: Any) -> Path:
        path = real(*arguments)
        put(age=1)
        return path

    monkeypatch.setattr(packing, "write_archive", slow)
    packing.pack(run.cells, lambda *_: True, lambda *_: None)
    assert files(run)[".json"] == 8
    assert ages(run, plan) == [1] * 8


def test_a_full_disk_loses_nothing(run, plan, put, monkeypatch) -> None:
    put()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    told: list[tuple[str, dict[str, Any]]] = []
    telling.PackingTeller(run, lambda name, payload: told.append((name, payload))).pack_all()
    assert [name for name, _ in told] == ["not_packed"]
    assert "No space left" in told[0][1]["error"]
    with pytest.raises(StorageError):
        run.pack()
    assert files(run) == {".json": 8}
    assert len(run.records(plan)) == 8


def test_failed_records_wait_until_no_other_driver_may_replace_them(
    run, plan, put, monkeypatch
) -> None:
    monkeypatch.setattr(telling, "MOST_LOOSE", 4)
    tell = telling.PackingTeller(run, lambda *_: None)
    put()
    for cell in plan.cells:
        tell("cell_failed", cell=cell.id)
    assert files(run) == {".json": 8}
    tell.pack_all()
    assert ".json" not in files(run)
    assert len(run.records(plan)) == 8


def test_records_are_packed_on_the_way(run, plan, put, monkeypatch) -> None:
    monkeypatch.setattr(telling, "MOST_LOOSE", 4)
    told: list[str] = []
    tell = telling.PackingTeller(run, lambda name, payload: told.append(name))
    assert isinstance(tell, Teller)
    for number, cell in enumerate(plan.cells):
        put(number)
        tell("cell_done", cell=cell.id)
        assert files(run)[".json"] < 4
    assert Counter(told)["packed"] == 2
    assert len(run.records(plan)) == 8


# Between two of them nothing on the disk changes that anybody reads.
STEPS = [(os, "fsync"), (Path, "replace"), (Path, "unlink"), (archive, "_write")]


@contextlib.contextmanager
def killed_before(step: int) -> Iterator[None]:
    """Kill this process before the step of this number of all that change a file."""
    left = [step]

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*arguments, **more)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in STEPS:
            patch.setattr(owner, name, counting(getattr(owner, name)))
        yield


def in_copy(action: Callable[[], None]) -> int:
    """Do it in a copy of this process, and return how that ended."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            action()
            code = 0
        os._exit(code)
    return os.waitpid(child, 0)[1]


def test_a_kill_at_any_step_loses_and_changes_nothing(run, plan, put) -> None:
    put()
    run.pack()
    put(0, 1, 2, 4, 5, age=1)
    steps, start = 0, {p: p.read_bytes() for p in there(run)}
    while True:

        def packed(steps: int = steps) -> None:
            with killed_before(steps):
                RunDirectory(run.root).pack()

        ended = in_copy(packed)
        assert ages(run, plan) == [1, 1, 1, 0, 1, 1, 0, 0], steps
        if ended == 0:
            break
        assert ended == signal.SIGKILL
        # And what comes after it ends where it would have.
        remove_partials(run.cells_path)
        again = RunDirectory(run.root)
        again.pack()
        assert again.problems == []
        assert ages(run, plan) == [1, 1, 1, 0, 1, 1, 0, 0], steps
        assert files(run)[".json"] in (1, 2, 3), steps
        for path in there(run):
            path.unlink()
        for path, data in start.items():
            path.write_bytes(data)
        steps += 1
    assert steps > 15


def test_what_others_pack_is_seen_at_once(run, plan, put) -> None:
    put(error="before")
    run.pack()
    waiting = RunDirectory(run.root)
    waiting.ids()
    before = [waiting.fingerprint(cell.id) for cell in plan.cells]
    put()
    run.pack()
    assert files(run) == {".zip": 2}
    after = [waiting.fingerprint(cell.id) for cell in plan.cells]
    assert after == [run.fingerprint(cell.id) for cell in plan.cells]
    assert not set(before) & {None, *after}


def test_looking_for_what_is_missing_lists_nothing(run, plan, put, monkeypatch) -> None:
    put(0, 1, 2, 3)
    run.pack()
    assert run.fingerprint(plan.cells[0].id) is not None
    monkeypatch.setattr(os, "listdir", None)
    assert run.fingerprint(plan.cells[7].id) is None


def test_readers_see_every_record_while_another_process_packs(run, plan, put, tmp_path) -> None:
    put()
    enough = tmp_path / "enough"

    def at_work() -> None:
        end = time.monotonic() + 100
        age = 0
        while not enough.exists() and time.monotonic() < end:
            age += 1
            put(age=age)
            run.pack()
            put(*range(age % 4), age=age)
            run.pack()

    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            at_work()
            os._exit(0)
        os._exit(1)
    reader, rounds, before = RunDirectory(run.root), 0, [0] * 8
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        found = [record.timings["age"] for record in reader.outlines(plan)]
        assert len(found) == 8
        assert all(old <= new for old, new in zip(before, found, strict=True))
        assert reader.problems == []
        assert set(RunDirectory(run.root).ids()) == {cell.id for cell in plan.cells}
        before, rounds = found, rounds + 1
        if rounds > 10 and min(before) > 3:
            enough.touch()
    assert ended[1] == 0
    assert enough.exists()
