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
# Seconds that a validation may take, and after which it is stopped.
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


class Validation:
    """What became of the mutants."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.of_one_line = 0
        self.slowest = 0.0
        self.wrong: list[str] = []
        self.elsewhere: list[str] = []
        self.accepted: list[tuple[Mutant, Plan]] = []

    def of(self, mutant: Mutant) -> None:
        """Validate and plan one mutant; note what should not have been."""
        self.path.write_bytes(mutant.text.encode("utf-8", "surrogateescape"))
        said, started = f"{mutant.seed.name}, {mutant.what}", time.monotonic()
        try:
            with limit(HANGS):
                plan = make_plan(load_spec(self.path))
        except LabError as error:
            self._look_at(mutant, error, said)
        except TooLongError:
            self.wrong.append(f"{said}: not back after {HANGS:.0f} s")
        except BaseException as error:
            self.wrong.append(f"{said}: {type(error).__name__} {str(error)[:200]}")
        else:
            self.accepted.append((mutant, plan))
        self.slowest = max(self.slowest, time.monotonic() - started)

    def _look_at(self, mutant: Mutant, error: LabError, said: str) -> None:
        lines = str(error).splitlines()
        if len(lines) > MOST_LINES or max(map(len, lines)) > LONGEST_LINE:
            self.wrong.append(f"{said}: {len(lines)} lines, the longest of {max(map(len, lines))}")
        if mutant.lines and isinstance(error, SpecError):
            self.of_one_line += 1
            if {problem.line for problem in error.problems}.isdisjoint(mutant.lines):
                self.elsewhere.append(f"{said} (line {mutant.lines}): {lines[0][:300]}")


def validated(dice: random.Random, rounds: int, folder: Path) -> Validation:
    for seed in SEEDS:  # what a file makes Python import is not the mutant's time
        load_spec(seed)
    validation = Validation(folder / "mutant.yaml")
    for mutant in islice(mutants(dice, SEEDS), rounds):
        validation.of(mutant)
    return validation


def test_mutants_are_refused_where_they_are_wrong_or_can_be_planned(
    dice: random.Random,
    attack_scale: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    found = validated(dice, ROUNDS * attack_scale, tmp_path)
    assert not found.wrong
    assert len(found.elsewhere) <= (1 - RIGHT_LINE) * found.of_one_line, "\n".join(found.elsewhere)
    assert found.slowest < SLOW


def measured(plan: Plan) -> Iterator[Any]:
    """Measure the cheapest unit of each kind in this process; yield what came of its cells."""
    for kind in plan.spec.studies:
        units = [unit for unit in plan.units if unit.study == kind and unit.cells]
        unit = min(units, key=lambda one: sum(one.work().values()), default=None)
        if unit is None:
            continue
        need = largest_need(unit)
        if sum(unit.work().values()) * SECONDS > 5 or (need is not None and need.bytes > 2**28):
            continue
        cells = [cell.as_dict() for cell in unit.cells[:20]]
        worker = STUDIES.get(kind).part("work")
        yield from dict(
            worker.measure(unit.as_dict(), cells, cache=None, event=lambda *_: None)
        ).values()


@pytest.mark.timeout(3600)
def test_accepted_mutants_run(
    dice: random.Random,
    attack_scale: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    small = [seed for seed in SEEDS if seed.parent.name == "ci"]
    validation = Validation(tmp_path / "mutant.yaml")
    endless = mutants(dice, small)
    while len(validation.accepted) < MEASURED * attack_scale:
        validation.of(next(endless))
    failed = []
    for mutant, plan in validation.accepted:
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
