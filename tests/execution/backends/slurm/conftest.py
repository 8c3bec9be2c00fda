"""A Slurm of three nodes for a module of tests, and a small sweep that it measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm.cluster import Cluster
from slurm.site import OVERRIDES
from slurm.site import slurm as slurm_site

from maxk_lab.execution.execute import Outcome, execute
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.load import load_spec

SWEEP = """
name: small
seeds: [0, 1, 2]
environment: {name: bandit, arms: 4}
tracking: {wandb: disabled}
gradient:
  instances: 2
  pool: 16
  grid: {estimator: [maxk], baseline: [none, centred], n: [4], k: [1, 2]}
"""
MakePlan = Callable[..., Plan]
Go = Callable[..., Outcome]


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    """The cluster of the module."""
    with slurm_site() as found:
        yield found


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    """The same, without the jobs of other tests."""
    yield running
    running.empty()


@pytest.fixture
def planned(tmp_path: Path) -> MakePlan:
    """Makes the plan of the sweep, or of another text, for Slurm or for this machine."""

    def planned(*overrides: str, sweep: str = SWEEP, here: bool = False) -> Plan:
        path = tmp_path / "small.yaml"
        path.write_text(sweep, encoding="utf-8")
        return make_plan(load_spec(path, [*(() if here else OVERRIDES), *overrides]))

    return planned


@pytest.fixture
def go(planned: MakePlan, run: RunDirectory) -> Go:
    """Runs the sweep, measured by a function of `fake_measures`."""

    def go(measure: str, *overrides: str, **options: Any) -> Outcome:
        plan = planned(*overrides)
        return execute(plan, run, measure=f"fake_measures:{measure}", **options)

    return go
