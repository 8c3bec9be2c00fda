"""Checks of a sweep's meaning: of the grid, the varied settings, and several blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from maxk_lab.errors import LabError, first_line, shown
from maxk_lab.sweep_file.claims import check_claims
from maxk_lab.sweep_file.findings import Finding
from maxk_lab.sweep_file.model import Sweep
from maxk_lab.sweep_file.place import culprit, refusal
from maxk_lab.sweep_file.studies import STUDIES, Spec
from maxk_lab.sweep_file.text import Source
from maxk_lab.sweep_file.vary import CHECKPOINT, NAME, Variant, read_vary, variants

# A larger plan takes minutes and several gigabytes.
MOST_CELLS = 1_000_000
# Instances to test the arguments of a generator.
DRAWN = 64


def resolve_vary(sweep: Sweep, source: Source) -> Sweep:
    """Return a sweep with the values of `vary`; add their problems."""
    environment, policy = source.tree["environment"], source.tree.get("policy", {})
    if (reason := refusal(sweep.environment, sweep.policy)) is not None:
        source.add(culprit(reason, sweep.environment, sweep.policy), reason)
        return sweep
    vary, findings = read_vary(environment, policy, sweep.vary)
    for finding in findings:
        source.add(*finding)
    updates: dict[str, Any] = {"vary": vary}
    if NAME in vary:  # the defaults depend on the name
        for block, written in (("environment", environment), ("policy", policy)):
            settings = getattr(sweep, block).items()
            updates[block] = {key: value for key, value in settings if key in written}
    return sweep.model_copy(update=updates)


def check_meaning(sweep: Sweep, source: Source) -> None:
    """Add the problems in the meaning of a sweep whose `vary` is read."""
    grids = [entry for study in sweep.studies.values() for entry in study.grid]
    axes = ([len(values) for _, values in entry if isinstance(values, tuple)] for entry in grids)
    seeds = math.prod(map(len, [sweep.seeds, *sweep.vary.values()]))
    if (cells := seeds * sum(map(math.prod, axes))) > MOST_CELLS:
        source.add((), _too_many(cells))
        return
    combinations = [*variants(sweep, sweep.vary)]
    runnable = [variant for variant in combinations if variant.refusal is None]
    if not runnable:
        reason = f"none of its {len(combinations)} combinations can run: {combinations[0].refusal}"
        source.add(("vary",), reason)
        return
    for finding in _study_problems(sweep, runnable):
        source.add(*finding)
    if not source.problems:
        _check_loading(runnable, source)


def _too_many(cells: int) -> str:
    return f"has {cells:,} cells, more than the {MOST_CELLS:,} of a sweep: split it"


def _study_problems(sweep: Sweep, variants: Sequence[Variant]) -> Iterator[Finding]:
    kinds = [*sweep.studies]
    if others := [kind for kind in kinds if not STUDIES.get(kind).varied and sweep.vary]:
        varied = [row.name for row in STUDIES if row.varied]
        message = f"is for {join(varied, 'and')} studies; this sweep has a study of "
        message += f"{' and '.join(others)} too, which belongs in a file of its own"
        yield Finding(("vary",), message, key=True)
        return
    points = {}
    for kind, study in sweep.studies.items():
        spec: Spec = STUDIES.get(kind).load_module("spec")
        if getattr(study, "device", "") == "cuda" and sweep.execution.gpus == 0:
            message = "cuda: execution.gpus is 0, so that no unit sees a device"
            yield Finding((kind, "device"), message)
        yield from (Finding(*problem) for problem in spec.check(study, variants))
        units = spec.units(study, (0,), variants)
        points[kind] = [cell.point for unit in units for cell in unit.cells]
    # Stages and other axes of a study multiply the points of its grid.
    cells = len(sweep.seeds) * sum(map(len, points.values()))
    if cells > MOST_CELLS:
        yield Finding((), _too_many(cells))
    # The problems of a grid that cannot run are reported already.
    elif all(points.values()):
        yield from check_claims(sweep.claims, points, sweep.studies)


def _check_loading(variants: Sequence[Variant], source: Source) -> None:
    """Add checkpoints that do not fit, and arguments that RL4CO's generators refuse.

    Imports torch, and RL4CO for its generators, only if there are any.
    """
    for variant in variants:
        environment, policy, setting = variant.environment, variant.policy, variant.setting
        checkpoint, generator = policy.get("checkpoint"), environment.get("generator")
        if checkpoint is not None:
            from maxk_lab.environments.checkpoints import check_checkpoint

            place = ("vary", CHECKPOINT) if CHECKPOINT in setting else ("policy", "checkpoint")
            try:
                check_checkpoint(environment, policy)
            except LabError as error:
                source.add(place, str(error))
        if generator and not environment.get("env"):
            from maxk_lab.environments.environment import make_environment

            try:
                make_environment(environment, policy).instances(DRAWN, 0)
            except LabError as error:
                source.add(("environment", "generator"), f"{shown(generator)}: {error}")
            except Exception as error:  # RL4CO may raise any exception
                reason = f"RL4CO refuses {shown(generator)}: {type(error).__name__}: "
                source.add(("environment", "generator"), reason + first_line(error))


def join(names: Sequence[str], word: str) -> str:
    """Return names with commas, and a word before the last."""
    return f"{', '.join(names[:-1])} {word} {names[-1]}"
