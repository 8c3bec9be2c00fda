"""The checks of a sweep file's studies, figures and claims that concern more than their shape."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.sweeps.parts import Checks, Plan
from maxk_lab.sweeps.plan.cells import Unit
from maxk_lab.sweeps.plan.needs import impossible
from maxk_lab.sweeps.spec.blocks import Parts
from maxk_lab.sweeps.spec.claims.checks import check_claims
from maxk_lab.sweeps.spec.figures import check_figures
from maxk_lab.sweeps.spec.source import Source
from maxk_lab.sweeps.spec.variation import Resolved, Variant
from maxk_lab.sweeps.studies import STUDIES


def check_studies(
    parts: Parts, resolved: Resolved | None, found: Sequence[Variant] | None, source: Source
) -> None:
    """Check the studies, the figures and the claims, as far as these are of the right shape.

    `resolved` is the environment with its policy, `found` the variants of what the sweep varies;
    each is None where there is something wrong with it.
    """
    if not parts.blocks:
        source.add((), f"needs a study: {_listed(STUDIES.names(), 'or')}, or several")
    _check_varied(parts, source)
    for name, block in parts.blocks.items():
        checks: Checks = STUDIES.get(name).part("checks")
        checks.check(block, resolved, found, source)
    studies = {name: block.study for name, block in parts.blocks.items() if block.study}
    if not studies or len(studies) < len(parts.blocks) or found is None:
        return
    points = {}
    for name, study in studies.items():
        plan: Plan = STUDIES.get(name).part("plan")
        units = list(plan.units(study, (0,), [one for one in found if one.refusal is None]))
        _check_needs(units, source)
        points[name] = [cell.point for unit in units for cell in unit.cells]
    # No figure and no claim can speak of a grid that cannot run, which has been said.
    if all(points.values()):
        check_figures(parts.lists["figures"], points, studies, source)
        check_claims(parts.lists["claims"], points, studies, source)


def _check_needs(units: Sequence[Unit], source: Source) -> None:
    """Note the first unit that no machine can run, at the setting that makes it so large."""
    for unit in units:
        if (found := impossible(unit)) is not None:
            name, reason = found
            path = tuple(name.split("."))
            source.add(("vary", name) if name in unit.setting else path, reason)
            return


def _check_varied(parts: Parts, source: Source) -> None:
    """Note kinds of studies that are not made at every combination of what the sweep varies."""
    others = [name for name in parts.blocks if not STUDIES.get(name).varied]
    if source.tree.get("vary") and others:
        varied = [row.name for row in STUDIES if row.varied]
        source.add(
            ("vary",),
            f"is for {_listed(varied, 'and')} studies; this sweep has a study of "
            f"{' and '.join(others)} too, which belongs in a file of its own",
            key=True,
        )


def _listed(names: Sequence[str], word: str) -> str:
    return f"{', '.join(names[:-1])} {word} {names[-1]}"
