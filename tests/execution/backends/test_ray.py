"""Ray: a cluster without a shared folder, its nodes and devices, and what is left when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_cluster import Nodes, ray_nodes
from run_processes import alive, events, logged, wait_until, workers_of
from stored import forget

from maxk_lab.errors import RefusedError
from maxk_lab.execution.execute import Outcome, execute
from maxk_lab.execution.progress import statuses
from maxk_lab.execution.provenance import collect_provenance
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.load import load_spec

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[1] / "run_fake.py"
TRAINING = """\
name: small
seeds: [0]
environment: {name: bandit, arms: 4}
training:
  steps: 2
  batch: 4
  snapshots: [1]
  grid: {estimator: maxk, baseline: BASELINES, n: 4, k: 2}
  evaluate: {instances: 2, samples: 2}
tracking: {wandb: disabled}
"""
REWARDED = """\
name: small
seeds: [0]
environment: {name: gaussian, reward: "mine:reward"}
weights: {groups: 2, grid: {estimator: maxk, baseline: none, n: 4, k: 2}}
tracking: {wandb: disabled}
"""
Write = Callable[[str], str]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with ray_nodes(2) as nodes:
        yield nodes


def plan_on(nodes: Nodes, path: str, *overrides: str) -> Plan:
    on_ray = ("execution.backend=ray", f"execution.address={nodes.address}")
    return make_plan(load_spec(path, [*on_ray, *overrides]))


def measured(plan: Plan, run: RunDirectory, measure: str | None = None, **options: Any) -> Outcome:
    named = None if measure is None else f"fake_measures:{measure}"
    return execute(plan, run, jobs=2, measure=named, **{"on_event": logged(run), **options})


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.deep
def test_what_is_trained_comes_back_and_goes_out_again_without_a_shared_folder(
    nodes: Nodes, write: Write, run: RunDirectory, tmp_path: Path
) -> None:
    path = write(TRAINING.replace("BASELINES", "[none, centred]"))
    plan = plan_on(nodes, path)
    assert len(measured(plan, run).done) == 2
    here = RunDirectory(tmp_path / "here")
    execute(make_plan(load_spec(path)), here)
    assert [r.metrics for r in run.records(plan)] == [r.metrics for r in here.records(plan)]
    assert set(files(run.cache_path)) == set(files(here.cache_path))
    # A record that is lost is made again from the last checkpoint, which takes no step.
    cell = plan.cells[0].id
    forget(run.root, cell)
    before = events(run, "progress")
    assert before
    assert measured(plan, run).done == (cell,)
    assert events(run, "progress") == before


def test_functions_of_the_current_folder_travel_and_nothing_else_in_it_runs(
    nodes: Nodes, write: Write, run: RunDirectory, tmp_path: Path
) -> None:
    path = write(REWARDED)
    (tmp_path / "mine.py").write_text("import half\n\ndef reward(x):\n    return half.of(x)\n")
    (tmp_path / "half.py").write_text("def of(x):\n    return x.sum(-1) / 2\n")
    for library in ("yaml", "psutil", "six"):
        (tmp_path / f"{library}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    outcome = measured(plan_on(nodes, path), run)
    assert len(outcome.done) == 1, [r.error for r in run.failed()]
    assert not (tmp_path / "ran").exists()


def started(run: RunDirectory, address: str, measure: str) -> subprocess.Popen[str]:
    """The small sweep in a program of its own, which Ctrl-C reaches alone."""
    execution = f"execution: {{backend: ray, address: '{address}'}}\n"
    Path("on_ray.yaml").write_text(Path("sweep.yaml").read_text() + execution)
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), "on_ray.yaml", str(run.root), measure, "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.deep
def test_a_run_that_ends_leaves_no_worker_and_goes_on_later(
    nodes: Nodes, small: str, run: RunDirectory
) -> None:
    plan = plan_on(nodes, small)
    program = started(run, nodes.address, "stuck")
    wait_until(lambda: len(events(run, "cell_done")) == 2)
    workers = workers_of(run)
    assert len(workers) == 2
    program.kill()
    told, errors = program.communicate(timeout=100)
    assert (program.returncode, told) == (-signal.SIGKILL, ""), errors
    wait_until(lambda: not any(map(alive, workers)))
    assert [*statuses(plan, run).values()].count("done") == 2
    assert len(measured(plan, run, "quick").reused) == 2


@pytest.mark.deep
def test_a_training_whose_node_is_lost_goes_on_from_its_last_checkpoint(
    nodes: Nodes, write: Write, run: RunDirectory
) -> None:
    text = TRAINING.replace("BASELINES", "none").replace("steps: 2", "steps: 100000")
    plan = plan_on(nodes, write(text))
    steps: list[int] = []
    lost: list[int] = []
    log = logged(run)

    def kill(name: str, payload: dict[str, Any]) -> None:
        log(name, payload)
        if name == "progress" and "step" in payload:
            steps.append(payload["step"])
            if lost:
                raise KeyboardInterrupt
        if not lost and [*run.cache_path.glob("training-*.pt")]:
            lost.append(steps[-1])
            os.kill(_process_of_ray(max(filter(alive, workers_of(run)))), signal.SIGKILL)

    with pytest.raises(KeyboardInterrupt):
        measured(plan, run, on_event=kill)
    assert events(run, "lost")
    assert steps[0] < lost[0] / 2 < steps[-1]


def _process_of_ray(pid: int) -> int:
    """The nearest process of Ray's that a worker descends from, by way of its fork servers."""
    while not Path(f"/proc/{pid}/cmdline").read_text().startswith("ray::"):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("address=127.0.0.1:1", r"no Ray cluster at 127\.0\.0\.1:1: .*refused"),
        ("gpus=9", r"has not what a unit asks for \(1 core, execution.gpus 9, .*with --jobs 2"),
    ],
)
def test_no_cluster_and_what_no_node_has_are_told(
    small: str, run: RunDirectory, setting: str, why: str
) -> None:
    pytest.importorskip("ray")
    plan = make_plan(load_spec(small, ["execution.backend=ray", f"execution.{setting}"]))
    with pytest.raises(RefusedError, match=why):
        measured(plan, run, "quick")


def test_a_node_with_other_versions_ends_the_run(
    nodes: Nodes, small: str, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = collect_provenance()
    other = here | {"versions": here["versions"] | {"torch": "0.1"}}
    monkeypatch.setattr("maxk_lab.execution.execute.collect_provenance", lambda: other)
    with pytest.raises(RefusedError, match=r"cannot measure anything: .*it has torch .*, not 0\.1"):
        measured(plan_on(nodes, small), run, "quick")
