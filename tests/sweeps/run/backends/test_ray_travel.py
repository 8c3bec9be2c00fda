"""What travels to a node and back: whole, once, and no file that nobody needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.backends.ray import node
from maxk_lab.sweeps.run.backends.ray.luggage import named_files, patterns_of
from maxk_lab.sweeps.run.backends.ray.node import News, Scratch, version_refusal

PROVENANCE = {
    "versions": {"maxk_lab": "1.0", "python": "3.11.7", "torch": "2.13.0"},
    "git": {"commit": "a" * 40, "dirty": False},
}
UNIT = {
    "policy": {"checkpoint": {"path": "trained.pt", "sha256": "0"}, "pretrained": "model"},
    "environment": {"file": {"path": "../a.npz", "sha256": "0"}, "rewards": ["mine:short"]},
    "more": {"path": "/no/such/file", "sha256": "0"},
}
GRADIENT = {"environment": {"name": "bandit"}, "policy": {}, "seed": 0, "warmup": None}


def task(unit: dict[str, object], study: str) -> Task:
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


def test_what_a_unit_names_below_the_current_folder_travels_with_its_modules(
    tmp_path: Path,
) -> None:
    texts = {
        "data/a.npz": "",
        "data/b.npz": "",
        "trained.pt": "",
        "other.pt": "",
        "model/config.json": "{}",
        "mine.py": "import json\nfrom helpers.words import count\n",
        "helpers/__init__.py": "",
        "helpers/words.py": "import broken",
        "broken.py": "def (",
        "unrelated.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    data = {"data": {"path": str(tmp_path / "data"), "sha256": "0"}}
    here, elsewhere = named_files([task(UNIT | data, "weights")], tmp_path)
    assert set(here) == set(texts) - {"other.pt", "unrelated.py"}
    assert elsewhere == ("../a.npz", "/no/such/file")


def test_pools_do_not_travel_and_policies_do() -> None:
    (pattern,) = patterns_of(task(GRADIENT, "gradient"))
    assert pattern.startswith("policy-")
    assert patterns_of(task({}, "weights")) == ()


def test_new_and_changed_files_are_told_once_in_the_order_of_their_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.pt").write_bytes(b"one")
    news = News(tmp_path, ("[az].pt",))
    assert not news.due()
    assert list(news.changed()) == []
    for name in ("z.pt", "a.pt", ".partial-x.pt", "pool.npz"):
        (tmp_path / name).write_bytes(name.encode())
    os.utime(tmp_path / "z.pt", ns=(1, 1))
    told = [(payload["name"], payload["data"]) for _, payload in news.changed()]
    assert told == [("z.pt", b"z.pt"), ("a.pt", b"a.pt")]
    assert list(news.changed()) == []
    monkeypatch.setattr(node, "_BETWEEN_LOOKS", 0.0)
    assert news.due()


def test_folders_of_processes_that_are_gone_are_removed_by_the_next_one(tmp_path: Path) -> None:
    def scratch(prefix: str = "node-") -> Scratch:
        return Scratch(prefix, str(tmp_path))

    (tmp_path / "node-of-somebody").mkdir()
    first, second, other = scratch(), scratch(), scratch("ray-")
    for killed in (second, other):
        # Its process ends without a word, and the system drops its lock.
        killed._lock.close()
    third = scratch()
    assert not second.folder.exists()
    third.remove()
    rest = {first.folder, other.folder, tmp_path / "node-of-somebody"}
    assert set(tmp_path.iterdir()) == rest


@pytest.mark.parametrize(
    ("versions", "git", "refused"),
    [
        ({"python": "3.11.9"}, PROVENANCE["git"], None),
        ({"python": "3.12.1"}, PROVENANCE["git"], "python 3.12, not 3.11"),
        ({"torch": "2.12.0"}, PROVENANCE["git"], "torch 2.12.0, not 2.13.0"),
        ({"maxk_lab": None}, PROVENANCE["git"], "maxk_lab not at all, not 1.0"),
        # Other code of the lab under the same version; an installed copy has no commit.
        ({}, {"commit": "b" * 40}, "commit bbbbbbb"),
        ({}, None, None),
    ],
)
def test_a_node_with_other_versions_is_refused(
    versions: dict[str, str | None], git: dict[str, str] | None, refused: str | None
) -> None:
    theirs = {"versions": PROVENANCE["versions"] | versions, "git": git}
    refusal = version_refusal(PROVENANCE, theirs)
    assert (refusal is None) == (refused is None)
    assert (refused or "") in (refusal or "")
