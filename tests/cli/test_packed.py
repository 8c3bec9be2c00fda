"""A run whose records are packed: every verb tells the same of it as before."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards import packing

pytestmark = pytest.mark.slow
Lab = Callable[..., Result]


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A finished run of 20 cells in single files, which are packed by ten from now on."""
    shutil.copytree(finished, tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    monkeypatch.setattr(packing, "RECORDS", 10)
    return RunDirectory("results/tiny")


def _said(lab: Lab, words: tuple[str, ...]) -> str:
    """What a verb prints, but for the room on the disk, which packing saves."""
    return re.sub(r'"size": \d+', "", lab(*words).stdout)


def test_every_verb_tells_the_same(run: RunDirectory, lab: Lab) -> None:
    asked = [
        ("list", "runs", "--json"),
        ("plan", "results/tiny/spec.yaml", "--cells"),
        ("show", "tiny", "--json"),
        ("show", run.ids()[7]),
        ("report", "tiny", "--format", "json"),
        ("fsck", "tiny"),
    ]
    before = [_said(lab, words) for words in asked]
    assert run.pack() == 20
    assert [_said(lab, words) for words in asked] == before
    assert len(list(run.cells_path.glob("[!.]*"))) == 2


def test_a_run_packs_at_its_end_and_finds_it_again(run: RunDirectory, lab: Lab) -> None:
    first = lab("run", "results/tiny/spec.yaml", "--json")
    assert sorted(path.suffix for path in run.cells_path.glob("[!.]*")) == [".zip", ".zip"]
    events = [json.loads(line) for line in run.events_path.read_text().splitlines()]
    assert [e["records"] for e in events if e["event"] == "packed"] == [20]
    again = lab("run", "results/tiny/spec.yaml", "--json")
    assert len(json.loads(first.stdout)["reused"]) == 20
    assert json.loads(again.stdout)["reused"] == json.loads(first.stdout)["reused"]


def test_a_damaged_shard_is_told_and_measured_again(run: RunDirectory, lab: Lab) -> None:
    run.pack()
    shard = min(run.cells_path.glob("*.zip"))
    shard.write_bytes(shard.read_bytes()[:-30])
    assert f"{shard}: no record in it can be found" in lab("list", "runs").output
    told = json.loads(lab("show", "tiny", "--json").stdout)
    assert (told["done"], told["stale"], len(told["damaged"])) == (10, 0, 1)
    assert lab("fsck", "tiny", "--repair").exit_code == 0
    assert lab("run", "results/tiny/spec.yaml").exit_code == 0
    assert lab("fsck", "tiny").stdout == "cells planned: 20; records: 20 done\n"
