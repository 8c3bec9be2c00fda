"""Runs that are killed, hung up, frozen and interrupted at any moment lose and change nothing.

Nor do two that share the work of one sweep: whichever is struck, the other brings it to its end.
"""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from attacked_runs import (
    FILE,
    SECONDS_TO_END,
    before_program,
    complaints,
    differences,
    finishing,
    laid_out,
    metrics,
    partials,
)
from launched import HangError, Launched

# A user waits for so long after Ctrl-C; a machine at work may take twice that.
LIMIT = 2 * SECONDS_TO_END
# A run with a stand-in takes so long a step, or it would end before it is struck.
SLOW = {"STEP_SECONDS": "0.03"}
INTERRUPTED = 130

Moment = Callable[[Launched, Path, random.Random], bool]
Blow = Callable[[Launched, random.Random], None]


def starting(launched, run, dice):
    time.sleep(dice.uniform(0, 2))
    return launched.running()


def working(launched, run, dice):
    there = launched.wait_for(lambda: (run / "leases").is_dir() and any((run / "leases").iterdir()))
    time.sleep(dice.uniform(0, 1))
    return there and launched.running()


def recording(launched, run, dice):
    before = metrics(run) if run.exists() else {}
    wanted = len(before) + dice.randint(1, 4)
    there = launched.wait_for(lambda: run.exists() and len(metrics(run)) >= wanted)
    time.sleep(dice.choice([0, dice.uniform(0, 0.05)]))
    return there and launched.running()


def writing(launched, run, dice):
    """While a record, a checkpoint or a pool is on its way to the disk."""
    launched.wait_for((run / "drivers").is_dir)
    time.sleep(dice.uniform(0, 1))
    return launched.wait_for(lambda: partials(run), every=0)


def of_process(number):
    return lambda launched, dice: launched.send(number)


def of_group(number):
    return lambda launched, dice: launched.send_group(number)


def killed_workers(launched, dice):
    """Kill two processes, one after the other; each is a worker or its guard."""
    struck = set[int]()
    for _ in range(2):
        launched.wait_for(lambda: {*launched.started()} - struck)
        time.sleep(dice.uniform(0, 1))
        if workers := launched.started():
            struck.add(worker := dice.choice(workers))
            launched.send(signal.SIGKILL, worker)


def frozen_worker(launched, dice):
    if workers := launched.started():
        launched.send(signal.SIGSTOP, dice.choice(workers))
    time.sleep(0.1)
    launched.send_group(signal.SIGINT)


def impatient(launched, dice):
    for _ in range(3):
        launched.send_group(signal.SIGINT)
        time.sleep(dice.uniform(0, 0.4))


MOMENTS: list[Moment] = [starting, working, recording, writing]
# Each with the exit codes that it may end with; 0 where the run was at its end already. Before the
# program has begun, a signal is Python's: it ends with the signal, or says that it could not start.
KILLED = {0, -signal.SIGKILL}
TERMINATED, HUNG_UP, STRUCK = (
    {0, INTERRUPTED, -number} for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
)
BLOWS: dict[str, tuple[Blow, set[int]]] = {
    "killed": (of_process(signal.SIGKILL), KILLED),
    "group killed": (of_group(signal.SIGKILL), KILLED),
    "workers killed": (killed_workers, {0, 1}),
    "terminated": (of_process(signal.SIGTERM), TERMINATED),
    "group terminated": (of_group(signal.SIGTERM), TERMINATED),
    "interrupted": (of_group(signal.SIGINT), STRUCK),
    "process interrupted": (of_process(signal.SIGINT), STRUCK),
    "interrupted thrice": (impatient, STRUCK),
    "hung up": (of_group(signal.SIGHUP), HUNG_UP),
    "process hung up": (of_process(signal.SIGHUP), HUNG_UP),
    "frozen worker": (frozen_worker, STRUCK),
}


SIGKILLS = ("killed", "group killed")
ONE_OF_TWO = ["killed", "group killed", "terminated", "interrupted"]


def strike(launch, run, dice, name):
    """Start or resume the run, strike it once, and return what is wrong."""
    moment, (blow, codes) = dice.choice(MOMENTS), BLOWS[name]
    # A second worker costs as much as its driver.
    words = ["run", FILE, "--retry-failed", "--jobs", dice.choice("1112")]
    launched = launch(*words, folder=run.parents[1], env=SLOW)
    try:
        moment(launched, run, dice)
        before = metrics(run)
        blow(launched, dice)
        # A run whose worker was killed goes on.
        launched.wait(None if blow is killed_workers else LIMIT)
        launched.gone_after(LIMIT)
        found = list(judged(launched, codes, before, metrics(run)))
    except HangError as error:
        found = [f"hang: {error}"]
        launched.end()
    return [f"{problem} ({name}, {moment.__name__})" for problem in found]


def judged(launched, codes, before, after):
    """Yield what is wrong with the end of a run, and with the cells that it leaves."""
    code = launched.process.returncode
    if code not in codes and not before_program(launched.err):
        yield f"exit code: {code}, not one of {sorted(codes)}: {launched.err[-3000:]}"
    # Before the first worker there is nothing to go on with.
    words = f"maxk-lab run {FILE}" if re.search(r"\d/\d+ cells", launched.err) else "Interrupted"
    if code == INTERRUPTED and words not in launched.err:
        yield f"silent: not told how to go on: {launched.err[-3000:]}"
    yield from complaints(launched)
    yield from (f"lost: {cell}" for cell in before if cell not in after)
    yield from (f"wrong: {cell}" for cell in after if before.get(cell) not in (None, after[cell]))
    if left := launched.started():
        yield f"leftover: {len(left)} processes after {LIMIT} s"


def struck(launch, run, dice, blows, undisturbed):
    """Strike a run again and again, finish it, and return what is wrong."""
    lines = [line for blow in blows for line in strike(launch, run, dice, blow)]
    return [*lines, *finishing(launch, run, undisturbed)]


def kill(launch, run, dice, undisturbed):
    """Send six SIGKILLs to a run and its workers, finish it, and return what is wrong."""
    blows = [*dice.sample(SIGKILLS * 2, 4), "workers killed"]
    return struck(launch, run, dice, blows, undisturbed)


def test_killed_runs(attack, undisturbed, tmp_path, dice, attack_scale):
    """Four SIGKILLs in `make test`, 48 in `make attack`."""
    if attack_scale == 1:
        blows = dice.sample([*SIGKILLS, "workers killed"], 3)
        problems = struck(attack, laid_out(tmp_path / "0", undisturbed), dice, blows, undisturbed)
    else:
        runs = [laid_out(tmp_path / str(index), undisturbed) for index in range(2 * attack_scale)]
        problems = [line for run in runs for line in kill(attack, run, dice, undisturbed)]
    assert not problems, "\n".join(problems)


@pytest.mark.deep
def test_every_signal(attack, undisturbed, tmp_path, dice, attack_scale):
    problems: list[str] = []
    for index in range(attack_scale):
        blows = dice.sample(list(BLOWS), len(BLOWS))
        for start in range(0, len(blows), 4):
            run = laid_out(tmp_path / f"{index}-{start}", undisturbed)
            problems += struck(attack, run, dice, blows[start : start + 4], undisturbed)
    assert not problems, "\n".join(problems)


@pytest.mark.deep
def test_one_of_two_is_struck(attack, undisturbed, tmp_path, dice, attack_scale):
    problems: list[str] = []
    for index in range(attack_scale):
        run = laid_out(tmp_path / str(index), undisturbed)
        both = [attack("run", FILE, "--jobs", dice.choice("12"), folder=run.parents[1])]
        time.sleep(dice.choice([0, dice.uniform(0, 1)]))
        both.append(attack("run", FILE, "--jobs", dice.choice("12"), folder=run.parents[1]))
        dice.shuffle(both)
        name, cells = dice.choice(ONE_OF_TWO), dice.randint(0, 12)
        blow, codes = BLOWS[name]
        both[1].wait_for(lambda run=run, cells=cells: len(metrics(run)) >= cells)
        before = metrics(run)
        blow(both[0], dice)
        for one in both:
            one.wait()
            one.gone_after(LIMIT)
        after = metrics(run)
        found = [*judged(both[0], codes, before, after), *judged(both[1], {0}, before, after)]
        signs = [path for part in ("drivers", "leases") for path in (run / part).glob("*")]
        found += [*(f"leftover: {path}" for path in signs), *differences(run, undisturbed)]
        found += finishing(attack, run, undisturbed)
        problems += [f"{problem} ({name})" for problem in found]
    assert not problems, "\n".join(problems)
