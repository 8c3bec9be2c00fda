"""A small sweep on the backend of this machine, with stand-ins for what measures its units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_processes import logged

from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.execute import Outcome, execute
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

Go = Callable[..., Outcome]


@pytest.fixture
def go(small: str, run: RunDirectory) -> Go:
    def go(measure: str, *overrides: str, **options: Any) -> Outcome:
        plan = make_plan(load_spec(small, overrides))
        told = {"on_event": logged(run), **options}
        return execute(plan, run, measure=f"fake_measures:{measure}", **told)

    return go
