"""A small sweep and its run; `fake_measures` stands in for what measures its units."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_processes import logged

from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Outcome, Run, execute
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.load import load_spec

# Workers get the `sys.path` of this process.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def plan(small: str) -> Plan:
    return make_plan(load_spec(small))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "results" / "small")


@pytest.fixture
def go(small: str, run: RunDirectory) -> Callable[..., Outcome]:
    """Measures the sweep, with overrides, by a stand-in."""

    def go(measure: str = "quick", *overrides: str, **options: Any) -> Outcome:
        plan, where = make_plan(load_spec(small, overrides)), options.pop("run", run)
        told = {"on_event": logged(run), **options}
        named = measure if ":" in measure else f"fake_measures:{measure}"
        return execute(Run(plan, where), measure=named, **told)

    return go
