"""What travels with a job of Ray, and which nodes are refused."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from maxk_lab.execution.backends.backend import Task
from maxk_lab.execution.backends.ray import backend as module
from maxk_lab.execution.backends.ray.backend import patterns_of, stage
from maxk_lab.execution.backends.ray.node import new_files, version_refusal

PROVENANCE = {
    "versions": {"maxk_lab": "1.0", "python": "3.11.7", "torch": "2.13.0"},
    "git": {"commit": "a" * 40, "dirty": False},
}
UNIT = {
    "policy": {"checkpoint": {"path": "trained.pt", "sha256": "0"}, "pretrained": "model"},
    "environment": {"file": {"path": "../a.npz", "sha256": "0"}, "rewards": ["mine:short"]},
    "more": {"path": "/no/such/file", "sha256": "0"},
}
TASK = Task(
    key="a",
    label="a unit",
    shares=True,
    unit={},
    cells=({"id": "c", "study": "weights"},),
    root="",
    measure="",
    provenance=PROVENANCE,
)


def test_what_a_unit_names_below_the_current_folder_travels_with_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    folder, target = tmp_path / "here", tmp_path / "there"
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    data = {"data": {"path": str(folder / "data"), "sha256": "0"}}

    def staged() -> tuple[set[str], tuple[str, ...]]:
        elsewhere = stage([replace(TASK, unit=UNIT | data)], folder, target)
        return {name for name in texts if (target / name).is_file()}, elsewhere

    assert staged() == ({*texts} - {"other.pt", "unrelated.py"}, ("../a.npz", "/no/such/file"))
    # Of what is too much the largest file stays.
    shutil.rmtree(target)
    monkeypatch.setattr(module, "MOST_BYTES", 60)
    here, elsewhere = staged()
    assert ("mine.py" in here, elsewhere) == (False, ("../a.npz", "/no/such/file", "mine.py"))


def test_pools_do_not_travel_and_policies_do() -> None:
    unit = {"environment": {"name": "bandit"}, "policy": {}, "seed": 0, "warmup": None}
    cells = ({"id": "a", "study": "gradient"},)
    (pattern,) = patterns_of(replace(TASK, unit=unit, cells=cells))
    assert pattern.startswith("policy-")
    assert patterns_of(TASK) == ()


def test_new_and_changed_files_are_told_once_in_the_order_of_their_writing(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.pt").write_bytes(b"one")
    times: dict[str, int] = {}
    list(new_files(tmp_path, ("[az].pt",), times))
    for name in ("z.pt", "a.pt", ".partial-x.pt", "pool.npz"):
        (tmp_path / name).write_bytes(name.encode())
    os.utime(tmp_path / "z.pt", ns=(1, 1))
    news = [(one["name"], one["data"]) for _, one in new_files(tmp_path, ("[az].pt",), times)]
    assert news == [("z.pt", b"z.pt"), ("a.pt", b"a.pt")]
    assert list(new_files(tmp_path, ("[az].pt",), times)) == []


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
