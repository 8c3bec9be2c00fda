"""What a sweep file must satisfy beyond its shape: known parameters, a grid that runs, claims that match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maxk_lab.catalogue import Parameter
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.sweeps.claims import EqualsClaim, evaluate_value
from maxk_lab.sweeps.plan import Skipped, describe, grid_points
from maxk_lab.sweeps.problems import unknown_key
from maxk_lab.sweeps.schema import GradientStudy, Grid
from maxk_lab.sweeps.source import Source, TreePath


def resolve_environment(source: Source) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """(environment, policy) with all parameters parsed or defaulted; None if there are problems."""
    environment, policy = source.tree.get("environment"), source.tree.get("policy", {})
    if not isinstance(environment, dict) or not isinstance(policy, dict):
        return None
    path: TreePath = ("environment", "name")
    name = environment.get("name")
    if name is None:
        source.add(path, f"is missing; one of {', '.join(ENVIRONMENTS.names())}")
        return None
    if not isinstance(name, str):
        source.add(path, f"must be a text, got {name!r}")
        return None
    try:
        row = ENVIRONMENTS.get(name)
    except LabError as error:
        source.add(path, str(error))
        return None
    before = len(source.problems)
    given = {key: value for key, value in environment.items() if key != "name"}
    parameters = _parse(given, row.parameters, ("environment",), source)
    policy_parameters = _parse(policy, row.policy_parameters, ("policy",), source)
    if len(source.problems) > before:
        return None
    reason = row.refusal(parameters, policy_parameters)
    if reason is not None:
        source.add(("policy",) if "policy" in source.tree else ("environment",), reason)
        return None
    return {"name": name, **parameters}, policy_parameters


def _parse(
    given: Mapping[str, Any], known: Iterable[Parameter], path: TreePath, source: Source
) -> dict[str, Any]:
    parameters = {parameter.name: parameter for parameter in known}
    for key in given:
        if key not in parameters:
            source.add((*path, key), unknown_key(key, parameters), key=True)
    parsed: dict[str, Any] = {}
    for name, parameter in parameters.items():
        try:
            parsed[name] = parameter.parse(given.get(name, parameter.default))
        except LabError as error:
            source.add((*path, name), str(error))
    return parsed


def check_grid(grid: Grid, source: Source) -> None:
    """Note a problem if no point of the grid can run; single points that cannot are the plan's to list."""
    points, skipped = grid_points(grid)
    if points:
        return
    first: Skipped = skipped[0]
    path: TreePath = ("gradient", "grid")
    if len(skipped) == 1:
        source.add((*path, "k"), f"{describe(first.point)} cannot run: {first.reason}")
        return
    reasons = "; ".join(dict.fromkeys(point.reason for point in skipped[:3]))
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    source.add(path, f"none of its {len(skipped)} points can run: {reasons}{more}")


def check_pool(pool: Any, grid: Grid, source: Source) -> None:
    """Note a problem if the pool holds fewer than two replicates of the largest n."""
    largest = max(grid.n)
    if type(pool) is int and pool < 2 * largest:
        source.add(
            ("gradient", "pool"),
            f"must be at least {2 * largest}, two replicates of the largest n = {largest}, got {pool}",
        )


def check_claims(claims: Iterable[Any], study: GradientStudy, source: Source) -> None:
    """Note claims of equal names, that match no point of the grid, or whose value is undefined at a point."""
    points = [point | {"stage": stage} for point in grid_points(study.grid)[0] for stage in study.stages]
    names: set[str] = set()
    for number, claim in enumerate(claims):
        path = ("claims", str(number))
        if claim.name in names:
            source.add((*path, "name"), f"two claims are named {claim.name!r}")
        names.add(claim.name)
        met = list(claim.points(points))
        if not met:
            what = (
                "no two points of the grid that can run"
                if len(_sides(claim)) == 2
                else "no point of the grid that can run"
            )
            source.add(
                (*path, _sides(claim)[0]) if _sides(claim)[0] in source.tree["claims"][number] else path,
                f"matches {what}",
            )
        if isinstance(claim, EqualsClaim):
            _check_value(claim, met, (*path, "value"), source)


def _sides(claim: Any) -> tuple[str, ...]:
    return ("of", "over") if claim.kind == "ratio" else ("where",)


def _check_value(claim: EqualsClaim, met: list[Any], path: TreePath, source: Source) -> None:
    for (point,) in met:
        try:
            evaluate_value(claim.value, point["n"], point["k"])
        except LabError as error:
            source.add(path, str(error))
            return
