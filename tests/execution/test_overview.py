"""The overview of a run: what is done by its own spec, told without reading records twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from written_runs import WriteRun

import maxk_lab
from maxk_lab.errors import LabWarning
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.upkeep import overview, size_of
from maxk_lab.sweep_file.load import load_spec


def counts(run: RunDirectory) -> dict[str, int | None]:
    found = overview(run)
    return {
        name: getattr(found, name)
        for name in ("planned", "done", "failed", "missing", "stale", "damaged")
    }


def test_cells_count_by_the_plan_of_their_run(write_run: WriteRun, small: str) -> None:
    run, _ = write_run(failed=1, missing=2)
    expected = {"planned": 8, "done": 5, "failed": 1, "missing": 2, "stale": 0, "damaged": 0}
    assert counts(run) == expected
    # Records of an earlier spec are stale and not done.
    run.write_spec(load_spec(small, ["gradient.pool=32"]))
    assert counts(run) == expected | {"done": 0, "failed": 0, "missing": 8, "stale": 6}
    run, _ = write_run("whole")
    run.write_spec(load_spec(small, ["seeds=[0]"]))
    assert counts(run) == expected | {
        "planned": 4, "done": 4, "failed": 0, "missing": 0, "stale": 4
    }  # fmt: skip


def test_without_a_spec_nothing_is_known_to_be_missing(write_run: WriteRun) -> None:
    run, _ = write_run(failed=1)
    run.spec_path.write_text("a: [")
    found = overview(run)
    assert (found.planned, found.done, found.failed, found.missing) == (None, 7, 1, None)
    assert "spec.yaml" in found.wrong


def test_sizes_are_those_of_files_and_follow_no_link(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"1" * 1000)
    (tmp_path / "a" / "b" / "two").write_bytes(b"1" * 500)
    os.symlink(tmp_path / "a", tmp_path / "a" / "b" / "round")
    assert size_of(tmp_path / "a") == 1500
    assert size_of(tmp_path / "a" / "one") == 1000
    assert size_of(tmp_path / "none") == 0


def test_code_that_changed_since_is_told(write_run: WriteRun, own_rewards: Path) -> None:
    run, _ = write_run()
    assert counts(run)["done"] == 8
    assert overview(run).changed_since == ()
    own_rewards.write_text("def short(texts, **_): return [1.0] * len(texts)\n")
    assert overview(run).changed_since == ("own_rewards:short",)
    with pytest.warns(LabWarning, match="small: own_rewards:short changed since the measurement"):
        maxk_lab.load(run)
    report = maxk_lab.report(run)
    for text in (report.text, report.to("markdown")):
        assert "CHANGED: own" in "\n".join(text.splitlines()[:6])
