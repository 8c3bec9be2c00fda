"""The plan of a sweep, which several verbs print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from maxk_lab.cli import options

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.grid import Skipped
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.spec.text.layers import Choice


def planned(
    spec: options.Spec,
    overrides: options.Set,
    results: options.Results,
    shift_seeds: options.ShiftSeeds = 0,
    choice: Choice | None = None,
) -> tuple[Plan, RunDirectory]:
    """Return the plan of a sweep file, and the folder of its run.

    `choice` is what the command line and the user's configuration say of the execution.
    """
    from maxk_lab.sweeps.plan.plan import make_plan
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.spec.load import load_spec
    from maxk_lab.sweeps.spec.text.layers import NO_CHOICE

    found = load_spec(
        spec, overrides or [], seeds_shifted_by=shift_seeds, choice=choice or NO_CHOICE
    )
    plan = make_plan(found)
    return plan, RunDirectory(results / plan.spec.name)


def skipped_as_json(skipped: Iterable[Skipped]) -> list[dict[str, Any]]:
    """Return the points that a sweep leaves out, each with its reason."""
    return [
        {"study": skip.study, "point": dict(skip.point), "reason": skip.reason} for skip in skipped
    ]
