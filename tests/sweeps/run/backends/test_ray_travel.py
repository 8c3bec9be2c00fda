"""What travels to a node and back: whole, once, and no file that nobody needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.backends.ray import joined, luggage, scratch
from maxk_lab.sweeps.run.backends.ray.cluster import Needs
from maxk_lab.sweeps.run.backends.ray.luggage import Packer
from maxk_lab.sweeps.run.backends.ray.node import version_refusal
from maxk_lab.sweeps.run.backends.ray.scratch import Scratch, Synced

PROVENANCE = {"versions": {"maxk_lab": "1.0", "python": "3.11.7", "torch": "2.13.0"}}


def task(unit: dict[str, Any], study: str = "weights") -> Task:
    return Task(
        key="a",
        label="a unit",
        work=1.0,
        shares=True,
        unit=unit,
        cells=({"id": "a", "study": study},),
        root="",
        measure="",
        provenance=PROVENANCE,
    )


def test_files_below_the_current_folder_travel_and_others_do_not(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("data/a.npz", "data/b.npz", "trained.pt", "other.pt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    unit = {
        "policy": {"checkpoint": {"path": "trained.pt", "sha256": "0"}, "pretrained": "model"},
        "training": {"evaluate": {"data": {"path": str(tmp_path / "data"), "sha256": "0"}}},
        "environment": {"file": {"path": "../a.npz", "sha256": "0"}},
        "more": {"path": "/no/such/file", "sha256": "0"},
    }
    found = Packer(tmp_path, tmp_path / "cache").luggage(task(unit))
    assert set(found.here) == {"data/a.npz", "data/b.npz", "trained.pt", "model/config.json"}
    assert set(found.absent) == {"../a.npz", "/no/such/file"}
    assert not found.cache


def test_modules_travel_with_what_they_import_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import json\nfrom helpers.words import count\n")
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "__init__.py").write_text("")
    (tmp_path / "helpers" / "words.py").write_text("import broken")
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "unrelated.py").write_text("")
    unit = {"environment": {"rewards": ["mine:short", "exact"], "name": "toy_llm"}}
    found = Packer(tmp_path, tmp_path / "cache").luggage(task(unit))
    assert {"mine.py", "helpers/__init__.py", "helpers/words.py"} <= set(found.here)
    assert "unrelated.py" not in found.here


def test_a_file_is_read_again_only_when_it_was_written_again(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_text("one")
    packer = Packer(tmp_path, tmp_path / "cache")
    unit = {"policy": {"checkpoint": {"path": "a.pt", "sha256": "0"}}}
    first = packer.luggage(task(unit)).here["a.pt"]
    assert packer.content(first) == b"one"
    path.chmod(0)
    assert packer.luggage(task(unit)).here["a.pt"] == first
    path.chmod(0o600)
    path.unlink()
    path.write_text("two, and longer")
    second = packer.luggage(task(unit)).here["a.pt"]
    assert second != first
    assert packer.content(second) == b"two, and longer"


def test_too_much_luggage_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(luggage, "MOST_BYTES", 2)
    (tmp_path / "a.pt").write_text("one")
    unit = {"policy": {"checkpoint": {"path": "a.pt", "sha256": "0"}}}
    with pytest.raises(LabError, match="into a folder that all nodes see"):
        Packer(tmp_path, tmp_path / "cache").luggage(task(unit))


def test_a_node_holds_the_files_of_a_unit_and_no_others(tmp_path: Path) -> None:
    folder = Synced(tmp_path / "cache")
    contents = {"1": b"one", "2": b"two", "3": b"three"}
    fetched: list[str] = []

    def fetch(sha256: str) -> bytes:
        fetched.append(sha256)
        return contents[sha256]

    folder.hold({"a": "1", "in/b": "2"}, fetch)
    folder.hold({"a": "1", "c": "3"}, fetch)
    assert fetched == ["1", "2", "3"]
    assert {p.name for p in folder.folder.rglob("*") if p.is_file()} == {"a", "c"}
    assert list(folder.changed()) == []


def test_new_and_changed_files_are_told_once_in_the_order_of_their_writing(tmp_path: Path) -> None:
    folder = Synced(tmp_path / "cache")
    folder.hold({"a": "1"}, lambda sha256: b"one")
    (folder.folder / ".partial-x-1").write_bytes(b"half")
    (folder.folder / "z").write_bytes(b"snapshot")
    os.utime(folder.folder / "z", ns=(1, 1))
    (folder.folder / "a").write_bytes(b"checkpoint")
    told = [(payload["name"], payload["data"]) for _, payload in folder.changed()]
    assert told == [("z", b"snapshot"), ("a", b"checkpoint")]
    assert list(folder.changed()) == []
    os.utime(folder.folder / "a")
    assert list(folder.changed()) == []


def test_what_changed_is_looked_at_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(scratch.time, "monotonic", lambda: now[0])
    folder = Synced(tmp_path / "cache")
    folder.hold({}, lambda sha256: b"")
    assert not folder.due(10)
    now[0] += 10
    assert folder.due(10)
    list(folder.changed())
    assert not folder.due(10)


def test_folders_of_processes_that_are_gone_are_removed_by_the_next_one(tmp_path: Path) -> None:
    first, second = Scratch(str(tmp_path)), Scratch(str(tmp_path))
    assert first.folder.is_dir()
    # Its process ends without a word, and the system drops its lock.
    second._lock.close()
    third = Scratch(str(tmp_path))
    assert first.folder.is_dir()
    assert not second.folder.exists()
    third.remove()
    assert not third.folder.exists()


def test_folders_of_others_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Scratch(str(tmp_path), "maxk-ray-")
    theirs._lock.close()
    monkeypatch.setattr(scratch.os, "getuid", lambda: -1)
    Scratch(str(tmp_path), "maxk-ray-").remove()
    assert theirs.folder.is_dir()
    monkeypatch.undo()
    Scratch(str(tmp_path)).remove()
    assert theirs.folder.is_dir()
    Scratch(str(tmp_path), "maxk-ray-").remove()
    assert not theirs.folder.exists()


@pytest.mark.parametrize(
    ("name", "version", "refused"),
    [
        ("python", "3.11.9", None),
        ("python", "3.12.1", "python 3.12, not 3.11"),
        ("torch", "2.12.0", "torch 2.12.0, not 2.13.0"),
        ("maxk_lab", None, "maxk_lab not at all, not 1.0"),
    ],
)
def test_a_node_with_other_versions_is_refused(
    name: str, version: str | None, refused: str | None
) -> None:
    node = {"versions": PROVENANCE["versions"] | {name: version}}
    found = version_refusal(PROVENANCE, node)
    assert (found is None) == (refused is None)
    assert (refused or "") in (found or "")


def test_other_code_of_the_lab_is_refused_where_its_version_is_the_same() -> None:
    ours = PROVENANCE | {"git": {"commit": "a" * 40, "dirty": False}}
    theirs = PROVENANCE | {"git": {"commit": "b" * 40, "dirty": False}}
    assert version_refusal(ours, ours) is None
    assert "commit bbbbbbb" in str(version_refusal(ours, theirs))
    assert version_refusal(ours, PROVENANCE | {"git": None}) is None


def test_a_node_has_room_for_as_many_units_as_its_scarcest_resource() -> None:
    node = {"CPU": 8.0, "GPU": 2.0, "memory": 10e9}
    assert Needs(1, 0, 0).slots(node) == 8
    assert Needs(1, 0.1, 0).slots(node) == 8
    assert Needs(1, 0.5, 0).slots(node) == 4
    assert Needs(2, 2, 6 * 10**9).slots(node) == 1
    assert Needs(1, 1, 0).slots({"CPU": 8.0}) == 0


def test_a_cluster_of_this_machine_removes_the_folder_of_one_whose_driver_was_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("ray")

    def refused(*given: object) -> None:
        raise RefusedError("no")

    monkeypatch.setattr(joined, "short_folder", lambda: str(tmp_path))
    monkeypatch.setattr(joined, "_join", refused)
    left = Scratch(str(tmp_path), "maxk-ray-")
    left._lock.close()
    with pytest.raises(RefusedError, match="no"), joined.opened("", 1):
        pass
    assert not [*tmp_path.iterdir()]
