"""Cells that other runs have done are found, and copied digit by digit with their origin."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_written import gradient_metrics
from stored import damage, lines
from written_runs import WriteRun, record_of

from maxk_lab.execution import reuse
from maxk_lab.execution.bundle import write_bundle
from maxk_lab.execution.execute import Outcome, execute
from maxk_lab.execution.progress import statuses
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.reuse import copy_cells, done_elsewhere, measured_with
from maxk_lab.execution.store import body_of
from maxk_lab.planning.plan import Plan
from maxk_lab.studies.gradient.spec import pool_file

RESULTS = Path("results")
HERE = {"git": {"commit": "a" * 40, "dirty": False}, "versions": {"torch": "2.9", "ray": None}}
# They differ in their last digit from what fewer digits would say.
ODD = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1e-7, 123456789.123456789, 2.0, 1e22]


@pytest.fixture
def new() -> RunDirectory:
    return RunDirectory(RESULTS / "new")


def copied(plan: Plan, origin: RunDirectory, run: RunDirectory) -> dict[str, str]:
    return copy_cells(plan, dict.fromkeys((cell.id for cell in plan.cells), origin), run)


def test_a_copy_is_its_original_to_the_last_byte_and_tells_where_it_is_from(
    write_run: WriteRun, new: RunDirectory
) -> None:
    origin, plan = write_run("old", missing=1, failed=1)
    for number, cell in enumerate(plan.cells[2:]):
        metrics = gradient_metrics(cell.as_dict(), value=ODD[number], zero=-0.0)
        metrics["undefined"] = {"value": 'é \u2028 "\\'}
        origin.write(replace(record_of(cell), metrics=metrics))
    # What is damaged since it was found is measured.
    damage(origin.root, plan.cells[2].id)
    pools = [pool_file(unit.as_dict()) for unit in plan.units]
    for run, names in ((origin, (*pools, "pool-of-somebody-else.npz")), (new, pools[:1])):
        run.cache_path.mkdir(parents=True)
        for name in names:
            (run.cache_path / name).write_text(run.name)
    assert copied(plan, origin, new) == dict.fromkeys([c.id for c in plan.cells[3:]], "old")
    ours, theirs = (
        {cell: body_of(line) for cell, line in lines(run.root).items()} for run in (new, origin)
    )
    source = {"run": "old", "measured": "1970-01-01T00:16:40+00:00"}
    for cell, body in ours.items():
        assert repr(body["metrics"]) == repr(theirs[cell]["metrics"])
        assert body["provenance"] == theirs[cell]["provenance"] | {"reused_from": source}
        assert body["timings"] == theirs[cell]["timings"]
    assert new.problems == []
    assert len(list(new.records_path.iterdir())) == 1
    cache = {path.name: path.read_text() for path in new.cache_path.iterdir()}
    assert cache == dict(zip(pools, ("new", "old"), strict=True))
    # A copy of a copy tells the first.
    third = RunDirectory(RESULTS / "third")
    assert set(copied(plan, new, third).values()) == {"new"}
    assert all(r.provenance["reused_from"] == source for r in third.records(plan))


def test_a_run_measures_nothing_that_another_one_has(
    write_run: WriteRun, new: RunDirectory
) -> None:
    """No worker starts: the function that measures does not exist."""
    _, plan = write_run("old")
    events = []

    def go(**options: Any) -> Outcome:
        return execute(plan, new, reuse=RESULTS, measure="nowhere:measure", **options)

    some = {cell.id for cell in plan.cells if cell.n == 8}
    assert set(go(only="n=8").copied) == some == set(new.ids())
    outcome = go(on_event=lambda name, payload: events.append((name, payload)))
    rest = [cell.id for cell in plan.cells if cell.n != 8]
    assert (outcome.copied, outcome.done) == (dict.fromkeys(rest, "old"), ())
    assert (set(outcome.reused), outcome.failed, outcome.missing) == (some, (), ())
    (told,) = (payload for name, payload in events if name == "reused")
    assert (told["run"], told["cell_ids"], told["cells"]) == ("old", rest, 8)
    assert (again := go()).copied == {}
    assert again.reused == tuple(cell.id for cell in plan.cells)


def found(plan: Plan, run: RunDirectory) -> dict[str, str]:
    states = statuses(plan, run)
    origins = done_elsewhere(states, states, run, RESULTS)
    return {cell_id: origin.name for cell_id, origin in origins.items()}


def test_what_is_missing_here_and_done_elsewhere_is_found(
    write_run: WriteRun, new: RunDirectory, tmp_path: Path
) -> None:
    """In the run that ran last; not in itself, and in nothing that cannot be read."""
    for name, changed in {"first": 1, "last": 3, "middle": 2}.items():
        run, plan = write_run(name, missing=2 * (name == "last"), failed=name == "last")
        for path in (run.spec_path, *run.records_path.iterdir()):
            os.utime(path, (changed, changed))
    for name in ("odd", "empty"):
        (RESULTS / name).mkdir()
        (RESULTS / name / "spec.yaml").write_text("[")
    (RESULTS / "odd" / "records").write_text("no folder")
    ids = [cell.id for cell in plan.cells]
    expected = dict(zip(ids, ["middle"] * 3 + ["last"] * 5, strict=True))
    assert found(plan, new) == expected
    assert found(plan, RunDirectory(tmp_path / "results/last")) == dict.fromkeys(ids[:2], "middle")
    absent = dict.fromkeys(ids, "missing")
    assert done_elsewhere(absent, absent, new, None) == {}
    # Bundles are looked through, too.
    write_bundle(RunDirectory(RESULTS / "last"), RESULTS / "handed.zip")
    for name in ("first", "last", "middle"):
        shutil.rmtree(RESULTS / name)
    assert found(plan, new) == dict.fromkeys(ids[3:], "handed.zip")


@pytest.mark.parametrize(
    ("there", "clause"),
    [
        (HERE, ""),
        ({"git": None, "versions": {"torch": None}}, ""),
        ({"platform": "another", "versions": {"numpy": "1"}}, ""),
        (
            {"git": {"commit": "b" * 40, "dirty": False}},
            " (measured with commit bbbbbbb; this is commit aaaaaaa)",
        ),
        (
            {"git": {"commit": "a" * 40, "dirty": True}, "versions": {"torch": "2.8"}},
            " (measured with commit aaaaaaa with uncommitted changes, torch 2.8;"
            " this is commit aaaaaaa, torch 2.9)",
        ),
    ],
)
def test_what_differs_is_told(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch, there: Mapping[str, Any], clause: str
) -> None:
    monkeypatch.setattr(reuse, "collect_provenance", lambda: HERE)
    run, plan = write_run("old")
    for cell in plan.cells:
        run.write(replace(record_of(cell), provenance=dict(there)))
    assert measured_with({cell.id: run for cell in plan.cells}) == {"old": clause}
