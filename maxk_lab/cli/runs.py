"""The plan of a sweep, and the folder of its run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from maxk_lab.errors import SpecError
from maxk_lab.execution.archive import Bundle, is_bundle, unpack
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.todo import Run
from maxk_lab.planning.grid import Skipped
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.sweep_file.model import Sweep


def planned(
    spec: Path | Mapping[str, Any] | Sweep,
    overrides: Sequence[str] | None,
    results: Path,
    shift_seeds: int = 0,
    execution: Path | None = None,
    *,
    unpacked: bool = False,
) -> Run:
    """Return the run of a sweep, which may be in a file: its plan, and the folder of its records.

    `execution` is a file that is merged over `execution` of the sweep. With `unpacked`, a bundle is
    unpacked into `results`, otherwise it is only read.
    """

    def plan_of(sweep: Path | Mapping[str, Any] | Sweep) -> Plan:
        return make_plan(
            load_spec(sweep, overrides or [], seeds_shifted_by=shift_seeds, execution=execution)
        )

    if isinstance(spec, Path) and is_bundle(spec):
        bundle = Bundle(spec)
        if not unpacked:
            try:
                return Run(plan_of(bundle.spec_path), bundle)
            except SpecError as error:  # the extracted file is gone when the user reads the message
                extracted, archive = str(bundle.root), str(bundle.place)
                problems = [
                    replace(p, file=p.file.replace(extracted, archive)) for p in error.problems
                ]
                raise SpecError(problems) from None
        spec = unpack(bundle, results).spec_path
    plan = plan_of(spec)
    return Run(plan, RunDirectory(results / plan.spec.name))


def skipped_as_json(skipped: Iterable[Skipped]) -> list[dict[str, Any]]:
    """Return the skipped points of a sweep, each with its reason."""
    return [
        {"study": skip.study, "point": dict(skip.point), "reason": skip.reason} for skip in skipped
    ]
