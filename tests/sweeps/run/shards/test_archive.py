"""Shards with damage: what can be read is read, and of the rest it is said what is wrong."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.fsck import examine, repair
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards.archive import Archive, write_archive


@pytest.fixture
def shards(run: RunDirectory, put) -> list[Path]:
    put()
    run.pack()
    return sorted(run.cells_path.glob("*.zip"))


def ids_in(shard: Path) -> list[str]:
    return [name.removesuffix(".json") for name in zipfile.ZipFile(shard).namelist()]


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def test_one_flipped_bit_damages_one_record(run, plan: Plan, shards: list[Path]) -> None:
    data = bytearray(shards[0].read_bytes())
    second = zipfile.ZipFile(shards[0]).infolist()[1]
    data[second.header_offset + 60] ^= 1
    shards[0].write_bytes(data)
    damaged = second.filename.removesuffix(".json")
    seen = RunDirectory(run.root)
    assert len(seen.records(plan)) == 7
    assert list(seen.damaged) == [damaged]
    assert str(shards[0] / second.filename) in seen.problems[0]
    assert seen.pack() == 0  # it is not thrown away
    assert examine(seen).counts == {"done": 7, "damaged": 1}

    moved, _ = repair(seen)
    assert [path.relative_to(run.root) for path in moved] == [Path("damaged", second.filename)]
    assert moved[0].stat().st_size > 100
    seen = RunDirectory(run.root)
    assert len(seen.records(plan)) == 7
    assert seen.problems == []
    assert examine(seen).counts == {"done": 7, "missing": 1}


def test_any_flipped_bit_is_found_or_changes_nothing(run, plan: Plan, shards: list[Path]) -> None:
    whole, before = RunDirectory(run.root).records(plan), shards[0].read_bytes()
    for place in range(0, len(before), len(before) // 150):
        data = bytearray(before)
        data[place] ^= 1 << place % 8
        shards[0].write_bytes(data)
        seen = RunDirectory(run.root)
        found = seen.records(plan)
        assert all(record in whole for record in found)
        missing = 8 - len(found)
        assert missing in (0, 1, 4)
        assert len(seen.cells.problems) == (missing == 4)


@pytest.mark.parametrize("damage", [cut, lambda data: b"", lambda data: b"no zip file" * 100])
def test_a_lost_list_of_records_is_told(
    run, plan: Plan, shards: list[Path], damage: Callable[[bytes], bytes]
) -> None:
    lost = ids_in(shards[1])
    shards[1].write_bytes(damage(shards[1].read_bytes()))
    seen = RunDirectory(run.root)
    assert {one.cell["id"] for one in seen.records(plan)} == set(ids_in(shards[0]))
    (line,) = seen.problems
    assert line.startswith(f"{shards[1]}: no record in it can be found, and its cells count as mis")
    assert seen.damaged == {}
    found = examine(seen)
    assert found.counts == {"done": 4, "missing": 4}
    assert set(found.missing) == set(lost)
    assert [one.path for one in found.damaged] == [shards[1]]
    moved, _ = repair(seen)
    assert moved == [run.root / "damaged" / shards[1].name]
    assert RunDirectory(run.root).problems == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_told(run, plan: Plan, shards: list[Path], make) -> None:
    make(run.cells_path / "000003-0.zip")
    seen = RunDirectory(run.root)
    assert len(seen.records(plan)) == 8
    assert "it is no file but a" in seen.problems[0]


def test_what_unfolds_without_end_is_not_unpacked(run, plan: Plan, shards: list[Path]) -> None:
    name = f"{plan.cells[0].id}.json"
    with zipfile.ZipFile(run.cells_path / "000003-0.zip", "w", zipfile.ZIP_DEFLATED) as large:
        with large.open(name, "w") as member:
            for _ in range(300):
                member.write(bytes(2**20))
        # Neither folders nor what is no record are looked at.
        large.writestr("../../x.json", b"1")
        large.writestr("folder/", b"")
    seen = RunDirectory(run.root)
    assert len(seen.records(plan)) == 7
    assert "at most 268,435,456 are read" in seen.problems[0]
    assert len(seen.ids()) == 8


def test_another_compression_is_told(run, plan: Plan, shards: list[Path]) -> None:
    (cell_id, *_), path = ids_in(shards[0]), run.cells_path / "000003-0.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as odd:
        odd.writestr(f"{cell_id}.json", b"1" * 100)
    seen = RunDirectory(run.root)
    assert seen.read(cell_id) is None
    assert seen.problems[0].endswith("it is compressed in a way that no shard is")


def test_a_shard_made_by_hand_is_read(run, plan: Plan, shards: list[Path]) -> None:
    """With what other tools add: places of their own, dates, no compression."""
    with zipfile.ZipFile(shards[0]) as packed:
        records = {name: packed.read(name) for name in packed.namelist()}
    whole = RunDirectory(run.root).records(plan)
    shards[0].unlink()
    with zipfile.ZipFile(run.cells_path / "mine.zip", "w") as own:
        for name, data in records.items():
            info = zipfile.ZipInfo(name, (2020, 1, 1, 1, 1, 1))
            info.extra = b"UT\x05\x00\x01abcd"
            own.writestr(info, data)
    assert RunDirectory(run.root).records(plan) == whole


def test_a_damaged_file_is_moved_aside_with_what_it_had_replaced(
    run, plan: Plan, shards: list[Path]
) -> None:
    cell_id = plan.cells[0].id
    (run.cells_path / f"{cell_id}.json").write_bytes(b"{")
    moved, _ = repair(RunDirectory(run.root))
    assert [path.read_bytes() for path in moved] == [b"{"]
    seen = RunDirectory(run.root)
    assert seen.read(cell_id) is None
    assert len(seen.records(plan)) == 7


def test_a_shard_that_was_replaced_is_not_read(tmp_path: Path) -> None:
    path = write_archive(tmp_path, 1, {"a": b"one"})
    before = Archive.opened(path)
    assert before.number == 1
    path.write_bytes(write_archive(tmp_path, 2, {"b": b"two"}).read_bytes())
    with pytest.raises(FileNotFoundError, match="was replaced"):
        before.read("a")
    assert Archive.opened(path).read("b") == b"two"
