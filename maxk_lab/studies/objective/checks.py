"""The conditions that an objective study must meet beyond its shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError, shown
from maxk_lab.settings import Setting
from maxk_lab.studies.objective.plan import ObjectiveConditions
from maxk_lab.studies.objective.schema import Study
from maxk_lab.sweeps.spec.blocks import Block
from maxk_lab.sweeps.spec.environment import moved, settings_by_key
from maxk_lab.sweeps.spec.grids import check_grid, is_exact
from maxk_lab.sweeps.spec.source import Source
from maxk_lab.sweeps.spec.variation import Resolved, Variant


def check(
    block: Block, resolved: Resolved | None, found: Sequence[Variant] | None, source: Source
) -> None:
    """Note grids that cannot run, and a parameter that is none or cannot take its ends."""
    for path, grid in block.entries:
        check_grid(grid, ObjectiveConditions(), path, source)
    if block.study is not None and resolved is not None:
        _check_along(block.study, *resolved, source)


def _check_along(
    study: Study, environment: Mapping[str, Any], policy: Mapping[str, Any], source: Source
) -> None:
    row = ENVIRONMENTS.get(environment["name"])
    if "checkpoint" in policy:
        source.add(
            ("policy", "checkpoint"),
            "has no place in an objective study, which moves a parameter of a policy that is not "
            "trained",
        )
        return
    if not is_exact(environment, policy):
        source.add(
            ("objective",),
            "needs an environment whose objectives are known exactly: "
            f"{row.name} with {row.exact_when}",
        )
        return
    known = {
        key: setting
        for key, setting in settings_by_key(row.name, policy).items()
        if setting.type is float
    }
    if study.parameter not in known:
        source.add(("objective", "parameter"), _no_parameter(study.parameter, known, row.name))
    for key, value in (("from", study.start), ("to", study.stop)):
        try:
            if study.parameter in known:
                moved(environment, policy, study.parameter, value)
        except LabError as error:
            source.add(("objective", key), str(error))
    if not study.start < study.stop:
        source.add(
            ("objective", "to"), f"must be greater than from = {study.start:g}, got {study.stop:g}"
        )


def _no_parameter(given: str, known: Mapping[str, Setting], environment: str) -> str:
    words = "must be a number of the environment or its policy"
    if not known:
        return f"{words}, and {environment} has none; got {shown(given)}"
    return f"{words}: {', '.join(known)}; got {shown(given)}{did_you_mean(given, known)}"
