"""Two runs share the work of one sweep; whichever is struck, the other one brings it to its end."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attacked_runs import (
    FILE,
    SECONDS_TO_END,
    complaints,
    differences,
    finishing,
    laid_out,
    metrics,
)
from launched import HangError, Launch, Launched

STRUCK = 1  # pair of runs at scale 1
# Each with the exit codes that the struck run may have; 0 where it was at its end already.
BLOWS = {
    "killed": (Launched.send, signal.SIGKILL, {0, -signal.SIGKILL}),
    "group killed": (Launched.send_group, signal.SIGKILL, {0, -signal.SIGKILL}),
    "terminated": (Launched.send, signal.SIGTERM, {0, 130, -signal.SIGTERM}),
    "interrupted": (Launched.send_group, signal.SIGINT, {0, 130, -signal.SIGINT}),
}


def has_measured(run: Path, cells: int) -> bool:
    return len(metrics(run)) >= cells


def struck(
    struck: Launched, other: Launched, run: Path, codes: set[int], before: dict[str, str]
) -> Iterator[str]:
    """Yield what is wrong with the ends of both, and with what they leave."""
    if (code := struck.wait()) not in codes:
        yield f"exit code: {code}, not one of {sorted(codes)}: {struck.err[-2000:]}"
    if (code := other.wait()) != 0:
        yield f"exit code: {code} of the one that was not struck: {other.err[-2000:]}"
    yield from (*complaints(struck), *complaints(other))
    after = metrics(run)
    yield from (f"lost: {cell}" for cell in before if cell not in after)
    yield from (
        f"wrong: {cell}" for cell in before if after.get(cell, before[cell]) != before[cell]
    )
    for one in (struck, other):
        if one.gone_after(SECONDS_TO_END) > SECONDS_TO_END:
            yield f"leftover: {len(one.started())} processes"
    yield from (
        f"leftover: {path}" for name in ("drivers", "leases") for path in (run / name).glob("*")
    )


def test_one_of_two_is_struck(
    launch: Launch,
    undisturbed: Path,
    tmp_path: Path,
    dice: random.Random,
    attack_scale: int,
) -> None:
    problems = []
    for index in range(STRUCK * attack_scale):
        run = laid_out(tmp_path / str(index))
        both = [launch("run", FILE, "--jobs", dice.choice("12"), folder=run.parents[1])]
        time.sleep(dice.choice([0, dice.uniform(0, 1)]))
        both.append(launch("run", FILE, "--jobs", dice.choice("12"), folder=run.parents[1]))
        dice.shuffle(both)
        name = dice.choice(list(BLOWS))
        blow, number, codes = BLOWS[name]
        try:
            both[1].wait_for(partial(has_measured, run, dice.randint(0, 12)), every=0.001)
            before = metrics(run)
            blow(both[0], number)
            found = [*struck(both[0], both[1], run, codes, before), *differences(run, undisturbed)]
            found += finishing(launch, run=run, undisturbed=undisturbed)
        except HangError as error:
            found = [f"hang: {error}"]
        problems += [f"{problem} ({name})" for problem in found]
    assert not problems, "\n".join(problems)
