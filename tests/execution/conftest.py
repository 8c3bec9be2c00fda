"""A small sweep and its run; `fake_measures` stands in for what measures its units."""

import sys
from pathlib import Path

import pytest
from run_processes import logged

from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Run, execute
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec

# Workers get the `sys.path` of this process.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def plan(small):
    return make_plan(load_spec(small))


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "results" / "small")


@pytest.fixture
def go(small, run):
    """Measures the sweep, with overrides, by a stand-in."""

    def go(measure="quick", *overrides, run=run, **options):
        named = measure if ":" in measure else f"fake_measures:{measure}"
        options = {"on_event": logged(run), **options}
        return execute(Run(make_plan(load_spec(small, overrides)), run), measure=named, **options)

    return go
