"""The plan of a sweep, which several verbs print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxk_lab.cli import options
from maxk_lab.errors import Problem, SpecError

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.grid import Skipped
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.spec.layers import Choice
    from maxk_lab.sweeps.spec.schema import SweepSpec


def planned(
    spec: Path | Mapping[str, Any] | SweepSpec,
    overrides: options.Set,
    results: options.Results,
    shift_seeds: options.ShiftSeeds = 0,
    choice: Choice | None = None,
    *,
    unpacked: bool = False,
) -> tuple[Plan, RunDirectory]:
    """Return the plan of a sweep, which may be in a file, and the folder of its run.

    `choice` is what the command line and the user's configuration say of the execution. The sweep
    may be that in a bundle: it is `unpacked` into `results`, or else only looked at.
    """
    from maxk_lab.sweeps.plan.plan import make_plan
    from maxk_lab.sweeps.run.bundle import Bundle, is_bundle, unpack
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.spec.layers import NO_CHOICE
    from maxk_lab.sweeps.spec.load import load_spec

    def plan_of(given: Path | Mapping[str, Any] | SweepSpec) -> Plan:
        return make_plan(
            load_spec(
                given, overrides or [], seeds_shifted_by=shift_seeds, choice=choice or NO_CHOICE
            )
        )

    if not isinstance(spec, Path) or not is_bundle(spec):
        plan = plan_of(spec)
        return plan, RunDirectory(results / plan.spec.name)
    bundle = Bundle(spec)
    if unpacked:
        run = unpack(bundle, results)
        try:
            plan = plan_of(run.spec_path)
        except SpecError as error:
            there = (
                f"the records of {spec} lie here now, and are kept; once all else is mended, go on "
                f"with: maxk-lab run {run.spec_path}"
            )
            told = Problem(str(run.root), 0, 0, "unpacked", there)
            raise SpecError([*error.problems, told]) from None
        return plan, RunDirectory(results / plan.spec.name)
    try:
        return plan_of(bundle.spec_path), bundle
    except SpecError as error:  # of a file that is gone by the time that this is read
        places = {str(bundle.spec_path): f"{bundle.place}/{bundle.spec_path.name}"}
        raise SpecError(
            [replace(one, file=places.get(one.file, one.file)) for one in error.problems]
        ) from None


def skipped_as_json(skipped: Iterable[Skipped]) -> list[dict[str, Any]]:
    """Return the points that a sweep leaves out, each with its reason."""
    return [
        {"study": skip.study, "point": dict(skip.point), "reason": skip.reason} for skip in skipped
    ]
