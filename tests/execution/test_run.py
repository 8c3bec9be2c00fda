"""What a run measures, again, anew or not at all, with a stand-in for what measures."""

from pathlib import Path

import pytest
from stored import damage, forget, lines
from sweep_files import plan_of

from maxk_lab.errors import LabError, LabWarning
from maxk_lab.estimators.catalogue import BASELINES
from maxk_lab.execution.record import Record
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Run, execute
from maxk_lab.planning.plan import select
from maxk_lab.sweep_file.load import load_spec

pytestmark = pytest.mark.usefixtures("forked")


def test_a_run_sends_its_events_and_its_records_have_their_provenance(go, run, plan):
    """Their provenance, and what a clock said, beside the metrics."""
    events = []
    go("timed", only="seed=1", on_event=lambda *event: events.append(event))
    middle = ["unit_started", *["cell_done"] * 4, "unit_finished"]
    names = [name for name, _ in events if name != "progress"]
    assert names == ["run_started", *middle, "run_finished"]
    unit, progress = plan.units[1], events[2][1]
    assert (progress["unit"], progress["phase"], progress["step"]) == (unit.label, "training", 1)
    # Cells of one n are measured together.
    ids = [cell.id for cell in sorted(unit.cells, key=lambda cell: cell.n)]
    assert events[1][1]["cell_ids"] == ids
    assert [payload["cell"] for name, payload in events if name == "cell_done"] == ids
    for record in run.records(plan):
        assert set(record.provenance) == {"git", "project", "versions", "platform", "started"}
        assert {"maxk_lab", "python", "torch", "rl4co"} <= set(record.provenance["versions"])
        assert "timings" not in (record.metrics or {})
        assert set(record.timings) == {"seconds", "finished", "evaluations_seconds"}
        assert record.timings["seconds"] >= 0
    assert run.spec() == load_spec("sweep.yaml")


def test_the_same_command_measures_what_is_missing_unreadable_or_forced(go, run, plan):
    ids = tuple(cell.id for cell in plan.cells)
    assert go().done == ids
    before = lines(run.root)
    again = go("forgets")
    assert (again.done, again.failed, set(again.reused)) == ((), (), set(ids))
    assert lines(run.root) == before
    assert len(go(force=True, only="n=8").done) == 4
    assert sum(before[name] != data for name, data in lines(run.root).items()) == 4
    for cell_id in ids[:3:2]:
        damage(run.root, cell_id)
    with pytest.warns(LabWarning, match=r"unreadable record: .* \(and 1 more\)"):
        assert go(run=RunDirectory(run.root)).done == ids[:3:2]


def test_failed_cells_fail_alone_and_wait_for_retry(go, run, plan):
    outcome = go("bad_cell")
    assert set(outcome.failed) == select(plan, "baseline=none")
    assert len(outcome.done) == 4
    assert all("ZeroDivisionError: no variance" in str(record.error) for record in run.failed())
    again = go("bad_cell")
    assert (again.done, again.failed, again.failed_before) == ((), outcome.failed, outcome.failed)
    mended = go(retry_failed=True)
    assert (mended.done, mended.failed) == (outcome.failed, ())


def test_cells_that_are_measured_again_find_nothing_of_theirs_in_the_cache(go, run, plan):
    """With `force` shared files go, too; files of other cells alone stay."""
    go("bad_cell", only="seed=0")
    ids = {(cell.seed, cell.baseline): cell.id for cell in plan.cells}
    stale = plan.cells[0].as_dict() | {"id": "0123456789abcdef"}
    run.write(Record(stale, "failed", None, "no"))
    files = {
        "failed": run.cache_path / f"training-{ids[0, 'none']}.pt",
        "done": run.cache_path / f"training-{ids[0, 'centred']}.pt",
        "interrupted": run.cache_path / f"policy-{ids[1, 'none']}-100.pt",
        "stale": run.cache_path / f"training-{stale['id']}.pt",
        "shared": run.cache_path / "pool-fedcba9876543210.npz",
    }

    def left_by(**options):
        for path in files.values():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("kept", encoding="utf-8")
        go(**options)
        return {name for name, path in files.items() if path.exists()}

    assert left_by() == set(files)
    assert left_by(retry_failed=True) == set(files) - {"failed"}
    assert left_by(force=True, only="seed=0") == {"interrupted", "stale"}
    forget(run.root, ids[1, "none"])
    assert left_by(force=True) == {"stale"}


def test_stale_records_are_reported_and_stay(go, small, run):
    go()
    events = []
    outcome = go("quick", "gradient.pool=32", on_event=lambda *event: events.append(event))
    assert (len(outcome.done), outcome.stale, len(run.ids())) == (8, 8, 16)
    assert ("stale", {"records": 8}) in events
    assert run.spec() == load_spec(small, ["gradient.pool=32"])


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("baselin=none", "unknown axis 'baselin' (did you mean baseline?); "
         "known: estimator, baseline, n, k, stage, seed, study"),
        ("baseline=centrd", "unknown baseline 'centrd' (did you mean centred?); "
         f"known: {', '.join(BASELINES.names())}"),
        ("baseline=subloo", "no cell has baseline = subloo; the sweep has none, centred"),
        ("n=16", "no cell has n = 16; the sweep has 4, 8"),
        ("n", "must read axis=value,axis=value, got 'n' in 'n'"),
        ("n=4,", "must read axis=value,axis=value, got '' in 'n=4,'"),
    ],
)  # fmt: skip
def test_only_selects_or_says_what_is_wrong(plan, only, message):
    with pytest.raises(LabError) as caught:
        select(plan, only)
    assert str(caught.value) == f"--only: {message}"
    counts = {None: 8, "baseline=none": 4, "n=4,n=8": 8, "n=4, seed=1": 2}
    counts["estimator=maxk,k=2,stage=0,n=4,seed=0"] = 2
    assert {one: len(select(plan, one)) for one in counts} == counts


TRAINING = """\
name: trained
seeds: [0]
environment: {name: tsp, num_loc: 6}
training:
  batch: 16
  device: cuda
  evaluate: {samples: 8, instances: 4}
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""


def test_nothing_starts_on_a_device_that_is_not_there(write, run, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    plan = plan_of(write(TRAINING))
    with pytest.raises(LabError, match="device cuda: torch finds no CUDA device here; use auto or"):
        execute(Run(plan, run), measure="fake_measures:quick")
    assert run.ids() == []
    assert not run.spec_path.exists()


def test_code_that_is_edited_while_it_measures_has_no_result(own_rewards, run, small):
    Path("helper.py").write_text("def zero():\n    return 0.0\n")
    own_rewards.write_text(f"import helper\n\n{own_rewards.read_text()}")
    outcome = execute(Run(plan_of(small), run), measure="fake_measures:edited", only="seed=0,n=4")
    assert (len(outcome.done), len(outcome.failed)) == (1, 1)
    (record,) = run.failed()
    assert "code of own_rewards:short changed while the run was at work" in str(record.error)
