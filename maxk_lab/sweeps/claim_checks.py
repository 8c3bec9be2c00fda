"""Claims against the studies of their sweep: each must speak of something that is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.sweeps.claims import DifferenceClaim, EqualsClaim, evaluate_value
from maxk_lab.sweeps.plan import grid_points
from maxk_lab.sweeps.schema import GradientStudy
from maxk_lab.sweeps.source import Source, TreePath
from maxk_lab.sweeps.training_schema import TrainingStudy, evaluated_ks

Points = Mapping[str, Sequence[Mapping[str, Any]]]


def check_claims(
    claims: Iterable[Any], gradient: GradientStudy | None, training: TrainingStudy | None, source: Source
) -> None:
    """Note claims of equal names, that match no point of their study, or whose value is undefined at a point."""
    points = _points(gradient, training)
    names: set[str] = set()
    for number, claim in enumerate(claims):
        path = ("claims", str(number))
        if claim.name in names:
            source.add((*path, "name"), f"two claims are named {claim.name!r}")
        names.add(claim.name)
        if claim.study not in points:
            source.add(
                (*path, "kind"), f"{claim.kind} speaks of a {claim.study} study, and this sweep has none"
            )
            continue
        met = list(claim.points(points[claim.study]))
        if not met:
            _note_unmet(claim, number, source)
        if isinstance(claim, EqualsClaim):
            _check_value(claim, met, (*path, "value"), source)
        if isinstance(claim, DifferenceClaim) and training is not None:
            _check_k(claim, met, training, (*path, "metric"), source)


def _points(gradient: GradientStudy | None, training: TrainingStudy | None) -> Points:
    points: dict[str, Sequence[Mapping[str, Any]]] = {}
    if gradient is not None:
        frozen = grid_points(gradient.grid)[0]
        points["gradient"] = [point | {"stage": stage} for point in frozen for stage in gradient.stages]
    if training is not None:
        points["training"] = grid_points(training.grid, "training")[0]
    return points


def _note_unmet(claim: Any, number: int, source: Source) -> None:
    pairs = hasattr(claim, "over")
    what = "no two points of the grid that can run" if pairs else "no point of the grid that can run"
    side = "of" if pairs else "where"
    path: TreePath = ("claims", str(number))
    source.add((*path, side) if side in source.tree["claims"][number] else path, f"matches {what}")


def _check_value(claim: EqualsClaim, met: list[Any], path: TreePath, source: Source) -> None:
    for (point,) in met:
        try:
            evaluate_value(claim.value, point["n"], point["k"])
        except LabError as error:
            source.add(path, str(error))
            return


def _check_k(
    claim: DifferenceClaim, met: list[Any], study: TrainingStudy, path: TreePath, source: Source
) -> None:
    """The K of the metric must be evaluated at both points of a pair."""
    for pair in met:
        known = [evaluated_ks(study.evaluate.samples, point["k"]) for point in pair]
        if any(claim.at_k not in ks for ks in known):
            common = sorted(set(known[0]).intersection(*known[1:]))
            source.add(
                path, f"must be mean or max@K with K one of {', '.join(map(str, common))}, got {claim.metric}"
            )
            return
