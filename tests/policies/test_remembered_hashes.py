"""Large files are hashed once until they change."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from maxk_lab.policies import remembered_hashes
from maxk_lab.policies.remembered_hashes import remembered_hash


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are read, where every file is a large one that has long been there."""
    found: list[Path] = []

    def hash_of(path: Path) -> str:
        found.append(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(remembered_hashes, "LARGE", 0)
    monkeypatch.setattr(remembered_hashes, "SETTLED", -1.0)
    monkeypatch.setattr(remembered_hashes, "hash_of", hash_of)
    return found


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path, read: list[Path]) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    first = remembered_hash(path)
    assert remembered_hash(path) == first == hashlib.sha256(b"one").hexdigest()
    assert read == [path]
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        path.write_bytes(b"two")
        # The time of the last writing can be set, that of the last change cannot.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert remembered_hash(path) == hashlib.sha256(b"two").hexdigest()
    assert read == [path, path]


def test_what_has_just_been_written_is_not_remembered(
    tmp_path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered_hashes, "SETTLED", 3600.0)
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    assert remembered_hash(path) == remembered_hash(path)
    assert len(read) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"stamp": 1}'])
def test_a_damaged_memory_costs_time_only(tmp_path: Path, read: list[Path], content: bytes) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    first = remembered_hash(path)
    (kept,) = (tmp_path / "cache" / "maxk-lab" / "hashes").iterdir()
    kept.write_bytes(content)
    assert remembered_hash(path) == first
    assert len(read) == 2
