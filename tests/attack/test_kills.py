"""Runs that are killed, hung up, frozen and interrupted at any moment lose and change nothing.

Nor do two that share the work of one sweep: whichever is struck, the other brings it to its end.
"""

import re
import signal
import time

import pytest
from attacked_runs import (
    FILE,
    SECONDS_TO_END,
    before_program,
    complaints,
    finishing,
    laid_out,
    metrics,
    partials,
)
from launched import HangError

# A user waits for so long after Ctrl-C; a machine at work may take twice that.
LIMIT = 2 * SECONDS_TO_END
# A run with a stand-in takes so long a step, or it would end before it is struck.
SLOW = {"STEP_SECONDS": "0.03"}
INTERRUPTED = 130


def starting(launched, run, dice):
    time.sleep(dice.uniform(0, 2))


def working(launched, run, dice):
    launched.wait_for(lambda: any((run / "leases").glob("*")))
    time.sleep(dice.uniform(0, 1))


def recording(launched, run, dice):
    cells = len(metrics(run)) + dice.randint(1, 4)
    launched.wait_for(lambda: len(metrics(run)) >= cells)
    time.sleep(dice.choice([0, dice.uniform(0, 0.05)]))


def writing(launched, run, dice):
    """While a record, a checkpoint or a pool is on its way to the disk."""
    launched.wait_for((run / "drivers").is_dir)
    time.sleep(dice.uniform(0, 1))
    launched.wait_for(lambda: partials(run), every=0)


def of_process(number):
    return lambda launched, dice: launched.send(number)


def of_group(number):
    return lambda launched, dice: launched.send_group(number)


def killed_workers(launched, dice):
    """Kill two processes, one after the other; each is a worker or its guard."""
    killed = set()
    for _ in range(2):
        launched.wait_for(lambda: {*launched.started()} - killed)
        time.sleep(dice.uniform(0, 1))
        if workers := launched.started():
            killed.add(worker := dice.choice(workers))
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


MOMENTS = [starting, working, recording, writing]
# Each with the exit codes that it may end with; 0 where the run was at its end already. Before the
# program has begun, a signal is Python's: it ends with the signal, or says that it could not start.
KILLED = {0, -signal.SIGKILL}
TERMINATED, HUNG_UP, STRUCK = (
    {0, INTERRUPTED, -number} for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
)
BLOWS = {
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
ONE_OF_TWO = (*SIGKILLS, "terminated", "interrupted")


def strike(launch, run, dice, name, drivers=1):
    """Start or resume the run, strike one of its drivers once, and return what is wrong."""
    moment, (blow, codes) = dice.choice(MOMENTS), BLOWS[name]
    # A second worker costs as much as its driver.
    words = ["run", FILE, "--retry-failed", "--jobs", dice.choice("1112")]
    launched = [launch(*words, folder=run.parents[1], env=SLOW) for _ in range(drivers)]
    try:
        moment(launched[0], run, dice)
        before, problems = metrics(run), []
        blow(launched[0], dice)
        for driver in launched:
            is_struck = driver is launched[0]
            # A run whose worker was killed goes on.
            driver.wait(LIMIT if is_struck and blow is not killed_workers else None)
            driver.gone_after(LIMIT)
            problems += judged(driver, codes if is_struck else {0}, before, metrics(run))
    except HangError as error:
        problems = [f"hang: {error}"]
        for driver in launched:
            driver.end()
    return [f"{problem} ({name}, {moment.__name__})" for problem in problems]


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
    if leftovers := launched.started():
        yield f"leftover: {len(leftovers)} processes after {LIMIT} s"


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
    """Each signal strikes a run once; one of them strikes one of two runs that share the work."""
    problems = []
    for index in range(attack_scale):
        blows = dice.sample(list(BLOWS), len(BLOWS))
        for start in range(0, len(blows), 4):
            run = laid_out(tmp_path / f"{index}-{start}", undisturbed)
            problems += struck(attack, run, dice, blows[start : start + 4], undisturbed)
        run = laid_out(tmp_path / f"{index}-shared", undisturbed)
        problems += strike(attack, run, dice, dice.choice(ONE_OF_TWO), drivers=2)
        problems += finishing(attack, run, undisturbed)
    assert not problems, "\n".join(problems)
