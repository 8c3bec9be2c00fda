"""A run of eight cells whose records are packed by four instead of by a thousand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hand_written import gradient_metrics

from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.run.shards import packing
from maxk_lab.sweeps.spec.load import load_spec

# Puts the records of these cells of the plan, the age in their timings.
Put = Callable[..., None]


@pytest.fixture
def plan(small: str) -> Plan:
    return make_plan(load_spec(small))


@pytest.fixture
def run(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    monkeypatch.setattr(packing, "RECORDS", 4)
    run = RunDirectory(tmp_path / "results" / "small")
    run.write_spec(plan.spec)
    return run


@pytest.fixture
def put(run: RunDirectory, plan: Plan) -> Put:
    def written(*numbers: int, age: int = 0, error: str | None = None) -> None:
        for number in numbers or range(len(plan.cells)):
            cell = plan.cells[number].as_dict()
            metrics = None if error else gradient_metrics(cell, value=0.1)
            status = "failed" if error else "done"
            run.write(Record(cell, status, metrics, error, timings={"age": age}))

    return written
