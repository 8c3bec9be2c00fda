"""Execution in real processes, measuring faked: resume, failures, selection, lock and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from run_processes import alive, events, wait_until, workers_of
from stored import damage, forget, lines

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import BASELINES
from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.plan.selection import select
from maxk_lab.sweeps.run.execute import Outcome, execute
from maxk_lab.sweeps.run.leases import Driver
from maxk_lab.sweeps.run.progress import statuses
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.sweeps.spec.schema import SweepSpec

SCRIPT = Path(__file__).parent / "run_fake.py"
OWN = """\
name: own
seeds: [0]
environment:
  {name: toy_llm, vocab_size: 4, max_length: 3, prompt_length: 3, rewards: ["own_rewards:short"]}
gradient:
  instances: 2
  pool: 16
  grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}
"""
Go = Callable[..., Outcome]


@pytest.fixture
def spec(small: str) -> SweepSpec:
    return load_spec(small)


@pytest.fixture
def plan(spec: SweepSpec) -> Plan:
    return make_plan(spec)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "results" / "small")


@pytest.fixture
def go(plan: Plan, run: RunDirectory) -> Go:
    def go(measure: str = "quick", **options: Any) -> Outcome:
        return execute(plan, options.pop("run", run), measure=f"fake_measures:{measure}", **options)

    return go


@contextmanager
def process(run: RunDirectory, measure: str, jobs: int = 1) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(SCRIPT), "sweep.yaml", str(run.root), measure, str(jobs)]
    # Its own group, so that a signal to the group is what Ctrl-C in a terminal is.
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()


def contents(run: RunDirectory) -> dict[str, bytes]:
    return lines(run.root)


def test_one_and_two_workers_give_the_same_bytes(
    go: Go, run: RunDirectory, plan: Plan, tmp_path: Path
) -> None:
    other = RunDirectory(tmp_path / "other")
    first, second = go(jobs=1), go(jobs=2, run=other)
    assert first.done == second.done == tuple(cell.id for cell in plan.cells)
    metrics = [
        [json.dumps(record.metrics) for record in each.records(plan)] for each in (run, other)
    ]
    assert metrics[0] == metrics[1]
    assert len(set(metrics[0])) == 8


def test_what_a_clock_said_is_kept_with_the_timings_and_not_with_the_metrics(
    go: Go, run: RunDirectory, plan: Plan, tmp_path: Path
) -> None:
    other = RunDirectory(tmp_path / "other")
    go("timed")
    go("timed", run=other)
    for first, second in zip(run.records(plan), other.records(plan), strict=True):
        assert first.metrics == second.metrics
        assert "timings" not in (first.metrics or {})
        assert first.timings["evaluations_seconds"] != second.timings["evaluations_seconds"]
        assert first.timings["seconds"] >= 0


@pytest.mark.slow
def test_forced_cells_find_nothing_of_theirs_in_the_cache(
    go: Go, run: RunDirectory, plan: Plan
) -> None:
    """What cells share goes, too; what others keep of themselves alone stays."""
    go(only="seed=0")
    ids = {cell.seed: cell.id for cell in plan.cells}
    kept = {
        "done": run.cache_path / f"training-{ids[0]}.pt",
        "interrupted": run.cache_path / f"policy-{ids[1]}-100.pt",
        "stale": run.cache_path / "training-0123456789abcdef.pt",
        "shared": run.cache_path / "pool-fedcba9876543210.npz",
        "folder": run.cache_path / "folder" / "shared",
    }
    stale = plan.cells[0].as_dict() | {"id": "0123456789abcdef"}
    run.write(Record(stale, "failed", None, "no"))

    def left_by(**options: Any) -> set[str]:
        for path in kept.values():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("kept", encoding="utf-8")
        go(**options)
        return {name for name, path in kept.items() if path.exists()}

    assert left_by() == set(kept)
    assert left_by(force=True, only="seed=0") == {"interrupted", "stale"}
    forget(run.root, ids[1])
    assert left_by(force=True) == {"stale"}


@pytest.mark.slow
def test_failed_cells_that_are_retried_do_not_resume(go: Go, run: RunDirectory, plan: Plan) -> None:
    go("bad_cell")
    failed = next(cell.id for cell in plan.cells if statuses(plan, run)[cell.id] == "failed")
    own, shared = run.cache_path / f"training-{failed}.pt", run.cache_path / "pool-of-a-seed.npz"
    run.cache_path.mkdir(exist_ok=True)
    for path in (own, shared):
        path.write_text("kept", encoding="utf-8")
    go(retry_failed=True)
    assert [path.exists() for path in (own, shared)] == [False, True]


def test_records_carry_their_provenance(go: Go, run: RunDirectory, plan: Plan) -> None:
    go(only="seed=0,n=4,baseline=none")
    (record,) = run.records(plan)
    assert set(record.provenance) == {"git", "project", "versions", "platform", "started"}
    assert {"maxk_lab", "python", "torch", "rl4co"} <= set(record.provenance["versions"])
    assert set(record.timings) == {"seconds", "finished"}
    assert run.spec() == load_spec("sweep.yaml")


def test_workers_are_limited_to_one_thread(
    go: Go, run: RunDirectory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name)
    go("threads", only="seed=0,n=4,baseline=none")
    told = (run.records(plan)[0].metrics or {})["undefined"]
    assert told == {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def test_the_same_run_again_measures_nothing(go: Go, run: RunDirectory, plan: Plan) -> None:
    go()
    before = contents(run)
    again = go("bad_pool")
    assert (again.done, again.failed) == ((), ())
    assert set(again.reused) == {cell.id for cell in plan.cells}
    assert contents(run) == before


def test_force_measures_what_is_selected_again(go: Go, run: RunDirectory) -> None:
    go()
    before = contents(run)
    again = go(force=True, only="n=8")
    assert len(again.done) == 4
    assert sum(before[name] != data for name, data in contents(run).items()) == 4


def test_damaged_records_are_measured_again(go: Go, run: RunDirectory, plan: Plan) -> None:
    go()
    damaged = [cell.id for cell in plan.cells][1:4:2]
    for cell_id in damaged:
        damage(run.root, cell_id)
    run = RunDirectory(run.root)
    told: list[tuple[str, dict[str, Any]]] = []
    assert go(run=run, on_event=lambda *event: told.append(event)).done == tuple(damaged)
    assert len(next(payload for name, payload in told if name == "damaged")["problems"]) == 2
    assert run.problems == []


def test_failed_cells_fail_alone_and_wait_for_retry(go: Go, run: RunDirectory, plan: Plan) -> None:
    outcome = go("bad_cell")
    assert (len(outcome.done), len(outcome.failed)) == (4, 4)
    failed = [record for record in run.records(plan) if record.status == "failed"]
    assert {record.cell["baseline"] for record in failed} == {"none"}
    assert all(record.metrics is None for record in failed)
    assert "ZeroDivisionError: no variance here" in (failed[0].error or "")

    again = go("bad_cell")
    assert (again.done, again.failed, again.failed_before) == ((), outcome.failed, outcome.failed)
    run.cache_path.mkdir()
    (run.cache_path / "mended").touch()
    mended = go("bad_cell", retry_failed=True)
    assert (set(mended.done), mended.failed) == (set(outcome.failed), ())


def test_a_failed_pool_fails_its_unit_only(go: Go, run: RunDirectory, plan: Plan) -> None:
    assert len(go("bad_pool").failed) == 4
    assert {record.cell["seed"] for record in run.records(plan) if record.status == "failed"} == {1}
    assert all(
        "no pool for seed 1" in (r.error or "") for r in run.records(plan) if r.status == "failed"
    )


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        ("forgets", "fake_measures:forgets gave no result for this cell"),
        ("not_json", "the metrics cannot be kept"),
        ("absent", "cannot load 'fake_measures:absent'"),
    ],
)
def test_faults_of_measuring_become_failed_cells(
    go: Go, run: RunDirectory, plan: Plan, measure: str, reason: str
) -> None:
    go(measure, only="seed=0")
    errors = [record.error or "" for record in run.records(plan) if record.status == "failed"]
    assert errors
    assert all(reason in error for error in errors)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_dead_worker_takes_only_its_own_unit(small: str, run: RunDirectory, jobs: int) -> None:
    spec = load_spec(small, ["seeds=[0, 1, 2]"])
    told: list[str] = []
    plan = make_plan(spec)
    outcome = execute(
        plan,
        run,
        jobs=jobs,
        measure="fake_measures:dies",
        on_event=lambda name, payload: told.append(name),
    )
    # Each worker gets one cell further, and the last one finds nothing left to do.
    assert (len(outcome.done), outcome.failed, outcome.missing) == (12, (), ())
    assert told.count("worker_died") == 3
    assert told.count("unit_finished") == 3


@pytest.mark.slow
def test_a_cell_that_ends_its_workers_fails_alone(go: Go, run: RunDirectory, plan: Plan) -> None:
    outcome = go("deadly")
    failed = [record for record in run.records(plan) if record.status == "failed"]
    assert [(r.cell["baseline"], r.cell["n"]) for r in failed] == [("centred", 8)] * 2
    assert len(outcome.done) == 6
    assert all(
        "died while measuring (exit code 9), and again in a new one" in (record.error or "")
        and "--retry-failed" in (record.error or "")
        for record in failed
    )


@pytest.mark.slow
def test_what_the_cells_share_ends_every_worker(go: Go, run: RunDirectory, plan: Plan) -> None:
    told: list[str] = []
    outcome = go("deadly_pool", on_event=lambda name, payload: told.append(name))
    failed = [record for record in run.records(plan) if record.status == "failed"]
    assert [record.cell["seed"] for record in failed] == [1] * 4
    assert len(outcome.done) == 4
    assert all("(signal SIGKILL)" in (record.error or "") for record in failed)
    # The cells of the unit are not tried one by one.
    assert (told.count("unit_started"), told.count("worker_died")) == (3, 1)


def test_events_name_unit_and_cells(go: Go, run: RunDirectory, plan: Plan) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    go(only="seed=1", on_event=lambda *event: told.append(event))
    names = [name for name, _ in told]
    assert names == [
        "run_started",
        "unit_started",
        "progress",
        *["cell_done"] * 4,
        "unit_finished",
        "run_finished",
    ]
    unit = plan.units[1]
    progress = told[2][1]
    assert (progress["unit"], progress["phase"], progress["done"]) == (unit.label, "scores", 1)
    ids = [cell.id for cell in unit.cells]
    assert told[1][1]["cell_ids"] == ids
    assert [payload["cell"] for name, payload in told if name == "cell_done"] == ids


def test_stale_records_are_told_and_kept(go: Go, small: str, run: RunDirectory) -> None:
    go()
    told: list[tuple[str, dict[str, Any]]] = []
    changed = load_spec(small, ["gradient.pool=32"])
    outcome = execute(
        make_plan(changed),
        run,
        measure="fake_measures:quick",
        on_event=lambda *event: told.append(event),
    )
    assert (len(outcome.done), len(outcome.stale), len(run.ids())) == (8, 8, 16)
    assert len(next(payload for name, payload in told if name == "stale")["cell_ids"]) == 8
    assert run.spec() == changed


@pytest.mark.slow
def test_resume_after_kill_9(go: Go, run: RunDirectory, plan: Plan) -> None:
    with process(run, "slow", jobs=2) as started:
        wait_until(lambda: len(run.ids()) >= 2 and len(workers_of(run)) == 2)
        started.send_signal(signal.SIGKILL)
        started.wait()
    workers = workers_of(run)
    assert len(workers) == 2
    wait_until(lambda: not any(alive(pid) for pid in workers))
    before = contents(run)
    (segment,) = run.records_path.iterdir()
    with segment.open("ab") as file:
        file.write(b"12345678 {")
    finished = {cell_id for cell_id, state in statuses(plan, run).items() if state == "done"}
    assert 2 <= len(finished) < 8
    assert run.problems == []

    outcome = go()
    assert set(outcome.reused) == finished
    assert len(outcome.done) == 8 - len(finished)
    assert {name: data for name, data in contents(run).items() if name in before} == before
    assert len(contents(run)) == 8


def test_ctrl_c_leaves_a_resumable_run(go: Go, run: RunDirectory, plan: Plan) -> None:
    with process(run, "stuck", jobs=2) as started:
        wait_until(lambda: len(run.ids()) == 2)
        interrupted = time.monotonic()
        os.killpg(started.pid, signal.SIGINT)
        _, complaints = started.communicate(timeout=100)
    assert time.monotonic() - interrupted < 60
    assert started.returncode == 130
    assert complaints == ""
    assert not any(alive(pid) for pid in workers_of(run))
    assert sorted(statuses(plan, run).values()) == ["done"] * 2 + ["missing"] * 6
    assert events(run)[-1]["event"] == "interrupted"
    assert len(go().done) == 6


def test_records_stay_in_their_folder_when_a_worker_leaves_it(go: Go) -> None:
    run = RunDirectory("results/small")
    assert len(go("wandering", run=run).done) == len(run.ids()) == 8


def test_two_runs_in_one_folder_share_its_units(go: Go, run: RunDirectory, plan: Plan) -> None:
    """The one that waits for the other goes on with what it had when it is killed."""
    told: list[tuple[str, Any]] = []
    with process(run, "stuck") as started:
        wait_until(lambda: run.ids())

        def kill(name: str, payload: dict[str, Any]) -> None:
            told.append((name, payload.get("unit") or payload.get("units")))
            if name == "waiting":
                started.kill()

        outcome = go(on_event=kill)
    first, second = (unit.label for unit in plan.units)
    assert [units for name, units in told if name == "waiting"] == [[first]]
    assert [unit for name, unit in told if name == "unit_started"] == [second, first]
    assert len(outcome.done) == 7
    assert len(outcome.reused) == 1
    assert set(statuses(plan, run).values()) == {"done"}


class Meanwhile(RunDirectory):
    """A run in which another driver does something when a driver has seen what is there."""

    def __init__(self, root: Path, happens: Callable[[], None]) -> None:
        super().__init__(root)
        self._happens = happens

    def write_spec(self, spec: SweepSpec) -> None:
        super().write_spec(spec)
        self._happens()


def test_what_another_driver_ends_while_this_one_looks_is_not_measured_again(
    go: Go, run: RunDirectory, plan: Plan
) -> None:
    run.root.mkdir(parents=True)

    def end() -> None:
        go(only="seed=0")

    told: list[str] = []
    outcome = go(
        run=Meanwhile(run.root, end),
        on_event=lambda name, payload: told.append(f"{name} {payload.get('unit', '')}"),
    )
    second = plan.units[1].label
    assert [line for line in told if line.startswith("unit_started")] == [f"unit_started {second}"]
    assert set(outcome.elsewhere) == {cell.id for cell in plan.units[0].cells}
    assert len(outcome.done) == 8


@pytest.mark.slow
def test_a_failed_cell_that_another_driver_has_mended_keeps_its_cache(
    go: Go, run: RunDirectory, plan: Plan
) -> None:
    go("bad_cell")
    failed = [cell.id for cell in plan.cells if cell.baseline == "none"]
    policies = [run.cache_path / f"training-{cell_id}.pt" for cell_id in failed]

    def mend() -> None:
        go("quick", retry_failed=True)
        for path in policies:
            path.parent.mkdir(exist_ok=True)
            path.write_text("trained anew")

    told: list[str] = []
    outcome = go(
        run=Meanwhile(run.root, mend),
        retry_failed=True,
        on_event=lambda name, payload: told.append(name),
    )
    assert "unit_started" not in told
    assert all(path.exists() for path in policies)
    assert set(outcome.elsewhere) == set(failed)


def test_a_run_is_over_when_the_last_driver_that_lives_has_ended(
    go: Go, run: RunDirectory, plan: Plan
) -> None:
    with Driver(run.root):
        assert not go(only="seed=0").last
    assert go().last


@pytest.mark.parametrize(
    ("only", "count"),
    [
        (None, 8),
        ("baseline=none", 4),
        ("n=4,n=8", 8),
        ("n=4, seed=1", 2),
        ("estimator=maxk,k=2,stage=0,n=4,seed=0", 2),
    ],
)
def test_only_selects(plan: Plan, only: str | None, count: int) -> None:
    assert len(select(plan, only)) == count


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("baselin=none", "--only: unknown axis 'baselin' (did you mean baseline?); "
         "known: estimator, baseline, n, k, stage, seed, study"),
        ("baseline=centered", "--only: unknown baseline 'centered' (did you mean centred?); "
         f"known: {', '.join(BASELINES.names())}"),
        ("baseline=subloo", "--only: no cell has baseline = subloo; the sweep has none, centred"),
        ("n=16", "--only: no cell has n = 16; the sweep has 4, 8"),
        ("n", "--only must read axis=value,axis=value, got 'n' in 'n'"),
        ("n=4,", "--only must read axis=value,axis=value, got '' in 'n=4,'"),
    ],
)  # fmt: skip
def test_only_says_what_is_wrong(plan: Plan, only: str, message: str) -> None:
    with pytest.raises(LabError) as caught:
        select(plan, only)
    assert str(caught.value) == message


def test_no_run_without_a_worker(go: Go, run: RunDirectory) -> None:
    with pytest.raises(LabError) as caught:
        go(jobs=0)
    assert str(caught.value) == "--jobs must be a whole number of at least 1, got 0"
    assert not run.root.exists()


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


def test_nothing_starts_on_a_device_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    path = tmp_path / "trained.yaml"
    path.write_text(TRAINING, encoding="utf-8")
    run = RunDirectory(tmp_path / "results" / "trained")
    with pytest.raises(
        LabError, match="device cuda: torch finds no CUDA device here; use auto or cpu"
    ):
        execute(make_plan(load_spec(path)), run, measure="fake_measures:quick")
    assert run.ids() == []
    assert not run.spec_path.exists()


def test_code_that_is_edited_while_it_measures_has_no_result(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("helper.py").write_text("def zero():\n    return 0.0\n")
    Path("own_rewards.py").write_text("import helper\n\ndef short(texts, **_):\n    return None\n")
    Path("own.yaml").write_text(OWN)
    plan = make_plan(load_spec("own.yaml"))
    outcome = execute(plan, run, measure="fake_measures:edited")
    assert (len(outcome.done), len(outcome.failed)) == (1, 1)
    record = run.read(outcome.failed[0])
    assert record is not None
    assert "code of own_rewards:short changed while the run was at work" in str(record.error)
