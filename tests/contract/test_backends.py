"""The contract of a backend: the same sweep gives the same run, wherever it is measured."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_processes import logged
from sites import SITES, Site

from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Outcome, Run, execute
from maxk_lab.planning.plan import Plan, make_plan, select
from maxk_lab.sweep_file.load import load_spec

pytestmark = pytest.mark.slow
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


@pytest.fixture(scope="module", params=list(SITES))
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with SITES[request.param](tmp_path_factory.mktemp(request.param)) as site:
        yield site


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


def metrics(plan: Plan, run: RunDirectory) -> list[str]:
    return [json.dumps(record.metrics) for record in run.records(plan)]


def test_metrics_are_those_of_one_worker_here_byte_for_byte(
    site: Site, go: Go, run: RunDirectory, tmp_path: Path
) -> None:
    outcome = go(None)
    here = plan_for(Site("local"), tmp_path)
    alone = RunDirectory(tmp_path / "alone")
    execute(Run(here, alone), jobs=1)
    assert len(outcome.done) == len(here.cells) == 12
    assert metrics(here, run) == metrics(here, alone)
    assert [cell.id for cell in plan_for(site, tmp_path).cells] == [cell.id for cell in here.cells]


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
            "took more than execution.memory, 300.0MB, 2 times in a row. To try",
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


def test_a_node_that_is_killed_takes_no_record_with_it(
    site: Site, go: Go, run: RunDirectory
) -> None:
    if site.kill_node is None:
        pytest.skip("this machine is the only node")
    log, kill_once = logged(run), iter([site.kill_node])

    def kill(name: str, payload: dict[str, Any]) -> None:
        log(name, payload)
        for kill_node in kill_once if name == "cell_done" else ():
            kill_node()

    outcome = go("slow", on_event=kill)
    assert list(kill_once) == []
    assert not outcome.failed
    assert len(outcome.done) == 12
