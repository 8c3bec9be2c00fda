"""The store: every reader takes the same records, whoever wrote them, in whatever order."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab.errors import LabWarning, RefusedError
from maxk_lab.execution import store as rooms
from maxk_lab.execution.store import Segment, Store, body_of, line_of
from maxk_lab.files import StorageError

CELLS = [f"{number:016x}" for number in range(4)]
# A record as a writer appends it: its cell, attempt, whether it is done, and what was measured.
Written = tuple[int, int, bool, int]
WRITTEN = st.tuples(st.integers(0, 3), st.integers(1, 3), st.booleans(), st.integers(0, 99))


def line(cell=0, attempt=1, done=True, value=0):
    status = "done" if done else "failed"
    head = {"id": CELLS[cell], "attempt": attempt, "status": status, "seconds": 0.5}
    return line_of(head, {"value": value})


def winners(folder):
    """What a reader that begins now takes: attempt, status and value of each cell."""
    store = Store(folder)
    store.refresh()
    return {
        cell: (head.attempt, head.status, body_of(store.read(head))["value"])
        for cell, head in store.heads.items()
    }


def expected(segments):
    """The same by the rule in words: attempt, then done, then segment, then place in it."""
    ranked = sorted(
        (attempt, done, name, place, cell, value)
        for name, written in segments.items()
        for place, (cell, attempt, done, value) in enumerate(written)
    )
    return {
        CELLS[cell]: (attempt, "done" if done else "failed", value)
        for attempt, done, _, _, cell, value in ranked
    }


@given(
    segments=st.lists(st.lists(WRITTEN, max_size=6), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
    torn=st.binary(max_size=30),
)
def test_the_records_depend_on_the_segments_alone_in_any_order_of_writing(
    tmp_path_factory, segments, order, torn
):
    folder = tmp_path_factory.mktemp("records")
    named = {f"{number}.jsonl": written for number, written in enumerate(segments)}
    # A reader that watches sees in the end what a later reader sees.
    watching = Store(folder)
    turns = [name for name, written in named.items() for _ in written]
    order.shuffle(turns)
    lines = {name: iter([line(*record) for record in written]) for name, written in named.items()}
    for name in turns:
        data = next(lines[name])
        cut = order.randrange(len(data))
        for piece in (data[:cut], data[cut:]):  # a line may be read before it ends
            with (folder / name).open("ab") as file:
                file.write(piece)
            if order.random() < 0.5:
                watching.refresh()
    # A writer that was killed in the middle of a line.
    with (folder / order.choice(sorted(named))).open("ab") as file:
        file.write(torn.replace(b"\n", b""))
    watching.refresh()
    assert winners(folder) == expected(named)
    later = Store(folder)
    later.refresh()
    assert watching.heads == later.heads


@given(st.lists(WRITTEN, min_size=1, max_size=5), st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_never_gives_another_record(tmp_path_factory, written, place, byte):
    folder = tmp_path_factory.mktemp("records")
    data = b"".join(line(*record) for record in written)
    at = place % len(data)
    (folder / "0.jsonl").write_bytes(data[:at] + bytes([byte]) + data[at + 1 :])
    sound = {(CELLS[c], a, "done" if d else "failed", v) for c, a, d, v in written}
    assert {(cell, *record) for cell, record in winners(folder).items()} <= sound


def test_a_line_without_a_head_is_unreadable_though_its_checksum_fits(tmp_path):
    head = {"id": CELLS[0], "attempt": 1, "status": "done", "seconds": 1.0}
    for odd in ({"attempt": 0}, {"status": "good"}, {"seconds": "long"}, {"id": "x"}):
        (tmp_path / "0.jsonl").write_bytes(line_of(head | odd, {}))
        with pytest.warns(LabWarning, match="unreadable record: it has no head of a record"):
            assert Store(tmp_path).refresh() == []


def test_what_a_segment_had_that_has_gone_counts_no_more(tmp_path):
    (tmp_path / "0.jsonl").write_bytes(line(0, value=1) + line(1))
    (tmp_path / "1.jsonl").write_bytes(line(0, attempt=2))
    store = Store(tmp_path)
    store.refresh()
    (tmp_path / "1.jsonl").unlink()
    (tmp_path / "2.jsonl").write_bytes(line(2))
    assert [head[:2] for head in store.refresh()] == [(CELLS[0], 1), (CELLS[2], 1)]
    assert set(store.heads) == set(winners(tmp_path)) == set(CELLS[:3])
    shutil.rmtree(tmp_path)
    assert store.refresh() == []
    assert store.heads == {}


def test_a_writer_has_a_segment_of_its_own_and_begins_another_where_that_is_removed(
    tmp_path, monkeypatch
):
    """Also if it is removed while a record is written."""
    folder, flush, removed = tmp_path / "records", os.fsync, list[Path]()
    first, second = Segment(folder), Segment(folder)
    assert not folder.exists()
    for segment, cell in ((first, 0), (second, 1), (first, 2)):
        segment.append(line(cell))
    assert sorted(path.read_bytes().count(b"\n") for path in folder.iterdir()) == [1, 2]
    assert len(winners(folder)) == 3
    shutil.rmtree(folder)
    first.append(line(1))
    assert set(winners(folder)) == {CELLS[1]}

    def flush_and_remove(file):
        flush(file)
        if not removed:
            removed.extend(folder.iterdir())
            shutil.rmtree(folder)

    monkeypatch.setattr(os, "fsync", flush_and_remove)
    first.append(line(0))
    assert (set(winners(folder)), len(removed)) == ({CELLS[0]}, 1)


def test_a_full_disk_tears_one_line_and_loses_no_other(tmp_path, monkeypatch):
    segment, write = Segment(tmp_path), os.write
    segment.append(line(0))
    room = [40]

    def full(file, data):
        if not room[0]:
            raise OSError(28, "No space left on device")
        done = write(file, bytes(data)[: room[0]])
        room[0] -= done
        return done

    with monkeypatch.context() as patch:
        patch.setattr(rooms.os, "write", full)
        with pytest.raises(StorageError, match="No space left on device"):
            segment.append(line(1))
    segment.append(line(2))
    assert set(winners(tmp_path)) == {CELLS[0], CELLS[2]}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "records").touch()
    with pytest.raises(RefusedError, match="records cannot be read: Not a directory"):
        Store(tmp_path / "records").refresh()
    with pytest.raises(StorageError):
        Segment(tmp_path / "records").append(line())
