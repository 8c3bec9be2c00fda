"""Limits of memory and of tries: what exceeds one ends alone, and what may pass is tried again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_processes import events

from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.execute import Outcome
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.supervisor.limits import Memory

pytestmark = pytest.mark.slow
FAKES = Path(__file__).parents[1]
# A worker without torch has some 100 MB.
MEMORY = "execution.memory=300MB"
Go = Callable[..., Outcome]


def errors(run: RunDirectory, plan: Plan) -> set[str]:
    return {record.error or "" for record in run.records(plan) if record.status == "failed"}


def begun(run: RunDirectory) -> Counter[str]:
    """How often each unit was begun."""
    return Counter(event["unit"] for event in events(run, "unit_started"))


def test_a_cell_that_takes_too_much_memory_fails_alone(
    go: Go, run: RunDirectory, plan: Plan
) -> None:
    outcome = go("greedy", MEMORY, "execution.retries=0", jobs=2)
    assert (len(outcome.done), len(outcome.failed)) == (7, 1)
    assert errors(run, plan) == {
        "took more than execution.memory, 300 MB. To try again: --retry-failed"
    }


def test_processes_that_it_has_started_count(go: Go, run: RunDirectory, plan: Plan) -> None:
    outcome = go("greedy_child", MEMORY, "execution.retries=0", only="seed=1")
    assert (len(outcome.done), len(outcome.failed)) == (0, 4)
    assert all("execution.memory, 300 MB" in error for error in errors(run, plan))


def test_too_much_memory_may_pass(go: Go, run: RunDirectory) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    outcome = go("greedy_once", MEMORY, on_event=lambda *event: told.append(event))
    assert (len(outcome.done), outcome.failed) == (8, ())
    endings = [payload["ending"] for name, payload in told if name == "worker_died"]
    assert endings == ["took more than execution.memory, 300 MB"] * 2


@pytest.mark.parametrize(("retries", "done"), [(3, 4), (2, 0)])
def test_a_unit_is_begun_again_as_often_as_the_file_says(
    go: Go, run: RunDirectory, plan: Plan, retries: int, done: int
) -> None:
    outcome = go("deadly_thrice", f"execution.retries={retries}", only="seed=0")
    assert (len(outcome.done), len(outcome.failed)) == (done, 4 - done)
    assert [*begun(run).values()] == [retries + 1]
    why = "(exit code 9), and again in a new one: out of memory"
    assert all(why in error for error in errors(run, plan))


def test_without_retries_the_cell_at_fault_is_found_all_the_same(
    go: Go, run: RunDirectory, plan: Plan
) -> None:
    outcome = go("deadly", "execution.retries=0", only="seed=0")
    failed = {(cell.baseline, cell.n) for cell in plan.cells if cell.id in outcome.failed}
    assert failed == {("centred", 8)}
    assert len(outcome.done) == 3


def test_an_error_of_the_cell_is_never_tried_again(go: Go, run: RunDirectory) -> None:
    outcome = go("bad_cell", "execution.retries=5", only="seed=0")
    assert len(outcome.failed) == 2
    assert [*begun(run).values()] == [1]


def test_a_limit_of_time_is_never_tried_again(go: Go, run: RunDirectory, plan: Plan) -> None:
    outcome = go("stuck", "execution.retries=5", "execution.timeout=2", only="seed=0,n=8,k=2")
    assert len(outcome.failed) == 1
    assert sum(begun(run).values()) == 1


def test_the_look_at_the_memory_is_cheap() -> None:
    """Ten times a second at eight workers: it may take a hundredth of a core and a little more."""
    script = "import sys, os; os.setsid(); print(flush=True); sys.stdin.read()"
    started = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(8)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        memory = Memory(10**9)
        before, until, looks = time.process_time(), time.monotonic() + 2, 0
        while time.monotonic() < until:
            memory.look([process.pid for process in started])
            looks += 1
            time.sleep(0.02)
        took = time.process_time() - before
        assert len(memory.taken) == 8
        assert all(2 * 10**6 < taken < 10**8 for taken in memory.taken.values())
        assert looks > 60
        assert took < 0.1
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()
