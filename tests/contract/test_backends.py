"""The contract of a backend: the same sweep gives the same run, wherever it is measured."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_processes import logged
from sites import SITES, Site
from sweep_files import measured_here

from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Outcome, Run, execute
from maxk_lab.planning.plan import Plan, make_plan, select
from maxk_lab.sweep_file.load import load_spec

# The group of the tests of Ray, which share a cluster.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]
FAKES = Path(__file__).parents[1] / "execution"
SWEEP = """
name: anywhere
seeds: [0, 1, 2]
environment: {name: bandit, arms: 4}
tracking: {wandb: disabled}
gradient:
  instances: 2
  pool: 16
  grid: {estimator: [maxk], baseline: [none, centred], n: [4, 8], k: [2]}
"""
Go = Callable[..., Outcome]


@pytest.fixture(params=list(SITES))
def site(request: pytest.FixtureRequest) -> Site:
    return SITES[request.param](request)


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `fake_measures` importable here, and where processes start with our environment."""
    fixtures = str(FAKES.parent / "fixtures")
    monkeypatch.setattr(sys, "path", [str(FAKES), fixtures, *sys.path])


def plan_for(site: Site, tmp_path: Path, *overrides: str) -> Plan:
    path = tmp_path / "anywhere.yaml"
    path.write_text(SWEEP, encoding="utf-8")
    return make_plan(load_spec(path, [*site.overrides, *overrides]))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "results" / "anywhere")


@pytest.fixture
def go(site: Site, run: RunDirectory, tmp_path: Path) -> Go:
    def go(measure: str | None, *overrides: str, **options: Any) -> Outcome:
        named = None if measure is None else f"fake_measures:{measure}"
        plan = plan_for(site, tmp_path, *overrides)
        return execute(Run(plan, run), jobs=2, measure=named, **options)

    return go


def metrics(plan: Plan, run: RunDirectory) -> dict[str, str]:
    return {
        record.cell["id"]: json.dumps(record.metrics, sort_keys=True)
        for record in run.records(plan)
    }


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The metrics of the sweep, measured in this process in the order of the plan."""
    plan = plan_for(Site("local"), tmp_path_factory.mktemp("alone"))
    cells = [item for unit in plan.units for item in measured_here(unit).items()]
    return {cell: json.dumps(metrics, sort_keys=True) for cell, metrics in cells}


@pytest.mark.usefixtures("forked_here")
def test_metrics_are_those_of_one_process_byte_for_byte_for_any_jobs_and_order_of_units(
    site: Site, run: RunDirectory, tmp_path: Path, alone: dict[str, str]
) -> None:
    plan = plan_for(site, tmp_path)
    backwards = replace(plan, units=plan.units[::-1])
    outcome = execute(Run(backwards, run), jobs=3)
    assert len(outcome.done) == len(alone) == 12
    assert metrics(plan, run) == alone


@pytest.mark.parametrize(
    ("measure", "settings", "which", "why"),
    [
        ("bad_cell", (), "baseline=none", "ZeroDivisionError: no variance here"),
        ("deadly", (), "baseline=centred,n=8", "the worker process died while measuring"),
        pytest.param(
            *("one_stuck", ("execution.timeout=5",), "baseline=none,n=4"),
            "took longer than execution.timeout, 5 s",
            marks=pytest.mark.deep,
        ),
        (
            *("greedy", ("execution.memory=300MB",), "baseline=centred,n=8"),
            "took more than execution.memory, 300.0MB. To try",
        ),
    ],
)
def test_a_cell_that_fails_fails_alone_with_the_reason(
    site: Site, go: Go, run: RunDirectory, tmp_path: Path,
    measure: str, settings: tuple[str, ...], which: str, why: str,
) -> None:  # fmt: skip
    outcome = go(measure, *settings, only="seed=1")
    plan = plan_for(site, tmp_path)
    assert set(outcome.failed) == select(plan, f"seed=1,{which}")
    assert set(outcome.done) == select(plan, "seed=1") - set(outcome.failed)
    errors = [record.error or "" for record in run.records(plan) if record.status == "failed"]
    assert all(why in error for error in errors)


@pytest.mark.usefixtures("forked_here")
def test_an_interrupted_run_goes_on_where_it_stopped(
    site: Site, go: Go, run: RunDirectory, tmp_path: Path
) -> None:
    def interrupt(name: str, payload: dict[str, Any]) -> None:
        if name == "cell_done":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go("slow", on_event=interrupt)
    plan = plan_for(site, tmp_path)
    before = Counter(Run(plan, run).states().values())
    assert before["done"] >= 1
    outcome = go("slow")
    assert len(outcome.reused) >= before["done"]
    assert set(Run(plan, run).states().values()) == {"done"}


def test_a_node_that_is_killed_takes_no_record_with_it_and_fails_one_cell_a_unit(
    site: Site, go: Go, run: RunDirectory
) -> None:
    if site.kill_node is None:
        pytest.skip("this machine is the only node")
    log, kill_once = logged(run), iter([site.kill_node])

    def kill(name: str, payload: dict[str, Any]) -> None:
        log(name, payload)
        for kill_node in kill_once if name == "cell_done" else ():
            kill_node()
            (run.cache_path / "killed").touch()

    outcome = go("waits_for_a_kill", on_event=kill)
    assert list(kill_once) == []
    assert len(outcome.done) + len(outcome.failed) == 12
    units = {record.cell["seed"] for record in run.failed()}
    assert 0 < len(outcome.failed) == len(units)
    assert all("the node or its worker is gone" in str(record.error) for record in run.failed())
    assert set(go("quick", retry_failed=True).done) == set(outcome.failed)
