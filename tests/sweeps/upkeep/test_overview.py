"""The overview of a run: what is done by its own spec, told without reading records twice."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from written_runs import WriteRun, record_of

import maxk_lab
from maxk_lab.errors import LabWarning
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards import packing
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.sweeps.upkeep import states
from maxk_lab.sweeps.upkeep.overview import overview, size_of


def counts(run: RunDirectory) -> dict[str, int | None]:
    found = overview(run)
    return {
        name: getattr(found, name)
        for name in ("planned", "done", "failed", "missing", "stale", "damaged")
    }


def test_cells_count_by_the_plan_of_their_run(write_run: WriteRun) -> None:
    run, _ = write_run(failed=1, missing=2)
    expected = {"planned": 8, "done": 5, "failed": 1, "missing": 2, "stale": 0, "damaged": 0}
    assert counts(run) == expected


def test_records_of_an_earlier_spec_are_stale_and_not_done(write_run: WriteRun, small: str) -> None:
    run, _ = write_run()
    run.write_spec(load_spec(small, ["gradient.pool=32"]))
    expected = {"planned": 8, "done": 0, "failed": 0, "missing": 8, "stale": 8, "damaged": 0}
    assert counts(run) == expected
    run.write_spec(load_spec(small, ["seeds=[0]"]))
    assert counts(run) == expected | {"planned": 4, "done": 4, "missing": 0, "stale": 4}


def test_a_damaged_record_and_one_of_an_older_version(write_run: WriteRun) -> None:
    run, plan = write_run()
    first, second = plan.cells[0].id, plan.cells[1].id
    run.cells.path(first).write_text("[")
    (content := json.loads(run.cells.path(second).read_bytes()))["metrics"].pop("cell")
    run.cells.path(second).write_bytes(_with_checksum(content))
    assert counts(run) == {
        "planned": 8,
        "done": 6,
        "failed": 0,
        "missing": 0,
        "stale": 1,
        "damaged": 1,
    }


def _with_checksum(content: dict[str, object]) -> bytes:
    from maxk_lab.sweeps.run.record_bytes import encoded

    content.pop("checksum")
    return encoded(content)


def test_without_a_spec_nothing_is_known_to_be_missing(write_run: WriteRun) -> None:
    run, _ = write_run(failed=1)
    run.spec_path.write_text("a: [")
    found = overview(run)
    assert (found.planned, found.done, found.failed, found.missing) == (None, 7, 1, None)
    assert "spec.yaml" in found.wrong


@pytest.mark.parametrize("packed", [False, True])
def test_no_record_is_read_twice(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(states, "_WORTH_IT", 1)
    monkeypatch.setattr(packing, "RECORDS", 4)
    run, plan = write_run(failed=1)
    if packed:
        assert run.pack() == 8
    first = counts(run)
    read: list[str] = []

    def outline(data: bytes, cell_id: str, planned: object = None) -> Record:
        read.append(cell_id)
        return record_of(next(cell for cell in plan.cells if cell.id == cell_id))

    monkeypatch.setattr(Record, "outline", outline)
    assert counts(RunDirectory(run.root)) == first
    assert read == []
    run.write(record_of(plan.cells[0]))
    assert counts(RunDirectory(run.root)) == first | {"done": 8, "failed": 0}
    assert read == [plan.cells[0].id]


@pytest.mark.parametrize("content", ["[", "[]", '{"version": 1}', '{"states": {"a": 1}}', "{}"])
def test_kept_states_that_make_no_sense_are_read_anew(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setattr(states, "_WORTH_IT", 1)
    run, _ = write_run(failed=1)
    run.cache_path.mkdir()
    (run.cache_path / states.FILE).write_text(content)
    assert counts(run)["done"] == 7


def test_a_listing_writes_through_no_link(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(states, "_WORTH_IT", 1)
    run, _ = write_run()
    (tmp_path / "elsewhere").mkdir()
    run.cache_path.symlink_to(tmp_path / "elsewhere")
    assert counts(run)["done"] == 8
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_sizes_are_those_of_files_and_follow_no_link(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"1" * 1000)
    (tmp_path / "a" / "b" / "two").write_bytes(b"1" * 500)
    os.symlink(tmp_path / "a", tmp_path / "a" / "b" / "round")
    link = (tmp_path / "a" / "b" / "round").lstat().st_size
    assert size_of(tmp_path / "a") == 1500 + link
    assert size_of(tmp_path / "a" / "one") == 1000
    assert size_of(tmp_path / "none") == 0


def test_an_equal_spec_stays_as_it_is(write_run: WriteRun) -> None:
    run, plan = write_run()
    os.utime(run.spec_path, (1, 1))
    run.write_spec(plan.spec)
    assert run.spec_path.stat().st_mtime == 1
    run.write_spec(make_plan(load_spec("sweep.yaml", ["gradient.pool=32"])).spec)
    assert run.spec_path.stat().st_mtime > 1


def test_code_that_changed_since_is_told(write_run: WriteRun, own_rewards: Path) -> None:
    run, _ = write_run()
    assert counts(run)["done"] == 8
    assert overview(run).changed_since == ()
    own_rewards.write_text("def short(texts, **_): return [1.0] * len(texts)\n")
    assert overview(run).changed_since == ("code of own_rewards:short changed",)
    with pytest.warns(LabWarning, match="small: code of own_rewards:short changed since it was"):
        maxk_lab.load(run)
    report = maxk_lab.report(run)
    for text in (report.text, report.to("markdown")):
        assert "CHANGED SINCE: code of own" in "\n".join(text.splitlines()[:6])
