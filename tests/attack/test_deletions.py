"""Files and folders of a run that are deleted while it is going cost no more than themselves."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from attack_figures import Figures
from attacked_runs import FILE, counted, finishing, laid_out, metrics, spoilt
from launched import HangError, Launch


def removed(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


# What is deleted or spoilt while the run is going.
DELETED: dict[str, Callable[[Path], object]] = {
    "records": lambda run: removed(run / "records"),
    "the run": removed,
    "cache": lambda run: removed(run / "cache"),
    "spec.yaml": lambda run: removed(run / "spec.yaml"),
    "drivers": lambda run: removed(run / "drivers"),
    "leases": lambda run: removed(run / "leases"),
    "results": lambda run: removed(run.parent),
    "records, now a file": lambda run: (removed(run / "records"), (run / "records").touch()),
    "a segment of nobody": lambda run: (run / "records/0.jsonl").write_bytes(b"\xff\x00{[\n" * 99),
}


def has_measured(run: Path, cells: int) -> bool:
    return len(metrics(run)) >= cells


@pytest.mark.deep
def test_what_is_deleted_meanwhile(
    launch: Launch,
    undisturbed: Path,
    tmp_path: Path,
    dice: random.Random,
    attack_scale: int,
    figures: Figures,
) -> None:
    problems, rounds = [], attack_scale
    names = [name for _ in range(rounds) for name in dice.sample(list(DELETED), len(DELETED))]
    for index in range(rounds):
        run, name = laid_out(tmp_path / str(index)), names[index]
        launched = launch("run", FILE, "--jobs", str(dice.choice([1, 2])), folder=run.parents[1])
        wanted = dice.randint(1, 9)
        found = []
        try:
            if launched.wait_for(partial(has_measured, run, wanted), every=0.001):
                DELETED[name](run)
            found += spoilt(launched, run)
            if (run / "records").is_file():
                removed(run / "records")
            found += finishing(launch, run=run, undisturbed=undisturbed)
        except HangError as error:
            found.append(f"hang: {error}")
        problems += [f"{problem} ({name})" for problem in found]
    figures("deleted meanwhile", rounds=rounds, **counted(problems))
    assert not problems, "\n".join(problems)
