"""A small sweep and its run; `fake_measures` stands in for what measures its units."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

# Workers get the `sys.path` of this process.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def plan(small: str) -> Plan:
    return make_plan(load_spec(small))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "results" / "small")
