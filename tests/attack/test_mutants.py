"""Mutants of every experiment: refused in words and at the line at fault, or able to run."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from mutants import Mutant, mutants

from maxk_lab.errors import LabError, SpecError
from maxk_lab.sweeps.plan.needs import SECONDS, largest_need
from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.sweeps.studies import STUDIES

ROOT = Path(__file__).resolve().parents[2]
SEEDS = sorted((ROOT / "experiments").rglob("*.yaml"))
# In CI, and the share of mutants whose fault has one line that must be reported there.
ROUNDS = 500
# So many mutants of the smallest sweeps are measured at scale 1.
MEASURED = 3
RIGHT_LINE = 0.99
# Seconds that a validation may take, and after which anything is stopped.
SLOW, HANGS = 5.0, 60.0
LONGEST_LINE, MOST_LINES = 2000, 21


class TooLongError(BaseException):
    """Something did not end in time; no `except Exception` takes it for an answer."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def planned(mutant: Mutant, folder: Path) -> Plan | LabError | str:
    """Return the plan of a mutant, or how it is refused; a text is what is wrong with that."""
    path, started = folder / "mutant.yaml", time.monotonic()
    path.write_text(mutant.text, encoding="utf-8")
    try:
        with limit(HANGS):
            plan = make_plan(load_spec(path))
    except LabError as error:
        lines = str(error).splitlines()
        if len(lines) > MOST_LINES or max(map(len, lines)) > LONGEST_LINE:
            return f"{len(lines)} lines, the longest of {max(map(len, lines))}"
        return error
    except BaseException as error:
        return f"{type(error).__name__} {str(error)[:200]}"
    seconds = time.monotonic() - started
    return plan if seconds < SLOW else f"{seconds:.0f} s"


def test_mutants_are_refused_where_they_are_wrong_or_can_be_planned(
    dice: random.Random, attack_scale: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for seed in SEEDS:  # what a file makes Python import is not the mutant's time
        load_spec(seed)
    of_one_line, wrong, elsewhere = 0, list[str](), list[str]()
    for mutant in islice(mutants(dice, SEEDS), ROUNDS * attack_scale):
        answer, what = planned(mutant, tmp_path), f"{mutant.seed.name}, {mutant.what}"
        if isinstance(answer, str):
            wrong.append(f"{what}: {answer}")
        elif mutant.lines and isinstance(answer, SpecError):
            of_one_line += 1
            if {problem.line for problem in answer.problems}.isdisjoint(mutant.lines):
                elsewhere.append(f"{what} (line {mutant.lines}): {str(answer)[:300]}")
    assert not wrong
    assert len(elsewhere) <= (1 - RIGHT_LINE) * of_one_line, "\n".join(elsewhere)


def measured(plan: Plan) -> Iterator[Any]:
    """Measure the cheapest unit of each kind in this process; yield what came of its cells."""
    for kind in plan.spec.studies:
        units = [unit for unit in plan.units if unit.study == kind and unit.cells]
        for unit in sorted(units, key=lambda one: sum(one.work().values()))[:1]:
            need = largest_need(unit)
            if sum(unit.work().values()) * SECONDS > 5 or (need and need.bytes > 2**28):
                continue
            cells = [cell.as_dict() for cell in unit.cells[:20]]
            measure = STUDIES.get(kind).part("work").measure
            yield from dict(measure(unit.as_dict(), cells, cache=None, event=_ignored)).values()


def _ignored(*_: Any) -> None:
    """Take no note of an event."""


@pytest.mark.timeout(3600)
def test_accepted_mutants_run(
    dice: random.Random, attack_scale: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    endless = mutants(dice, [seed for seed in SEEDS if seed.parent.name == "ci"])
    answers = ((mutant, planned(mutant, tmp_path)) for mutant in endless)
    accepted = ((mutant, plan) for mutant, plan in answers if isinstance(plan, Plan))
    failed = []
    for mutant, plan in islice(accepted, MEASURED * attack_scale):
        try:
            with limit(HANGS):
                results = list(measured(plan))
        except TooLongError:
            continue
        failed += [
            f"{mutant.seed.name}, {mutant.what}: {type(one).__name__} {str(one)[:300]}"
            for one in results
            if isinstance(one, BaseException)
        ]
    assert not failed, "\n".join(failed)
