"""Several processes in one run: they share its units, and no cell is measured twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from run_processes import events

from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.progress import statuses
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parent / "run_fake.py"
# So that what is stopped is taken for dead soon.
SOON = {"EXPIRY": "2"}
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def plan(small: str) -> Plan:
    """Four units of four cells, in the sweep file that every process reads."""
    path = Path(small)
    path.write_text(path.read_text().replace("seeds: [0, 1]", "seeds: [0, 1, 2, 3]"))
    plan = make_plan(load_spec(path))
    assert (len(plan.units), len(plan.cells)) == (4, 16)
    return plan


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "results" / "small")


@pytest.fixture
def start(run: RunDirectory) -> Iterator[Start]:
    """Return a function that starts a process that measures what it can of the run."""
    with ExitStack() as stack:

        def start(*only: str, measure: str = "counted", **env: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, SCRIPT, "sweep.yaml", run.root, measure, "1", *only],
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env=os.environ | env,
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


def begun(run: RunDirectory) -> Counter[str]:
    """How often the measuring of each cell was begun."""
    path = run.cache_path / "begun"
    return Counter(path.read_text().split() if path.exists() else [])


def left_over(run: RunDirectory) -> list[str]:
    """What processes have left that is no part of a finished run."""
    return [
        path.name
        for path in run.root.iterdir()
        if path.name in ("drivers", "leases") or path.name.startswith(".")
    ]


def test_the_same_command_twice_shares_the_work(
    start: Start, run: RunDirectory, plan: Plan
) -> None:
    both = [start(), start()]
    assert [process.wait() for process in both] == [0, 0]
    assert [process.stderr.read() for process in both] == ["", ""]
    assert set(statuses(plan, run).values()) == {"done"}
    assert set(begun(run).values()) == {1}
    assert len(events(run, "unit_started")) == 4
    assert len(events(run, "cell_done")) == len({e["cell"] for e in events(run, "cell_done")}) == 16
    # Both of them worked.
    assert len({event["driver"] for event in events(run, "unit_started")}) == 2
    assert left_over(run) == []
