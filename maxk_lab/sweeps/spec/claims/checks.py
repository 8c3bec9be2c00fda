"""Claims against the studies of their sweep: each must speak of something that is measured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from maxk_lab.errors import LabError, shown
from maxk_lab.findings import unknown_key
from maxk_lab.sweeps.spec.claims.arithmetic import evaluate_value
from maxk_lab.sweeps.spec.claims.regions import Where, settings_of
from maxk_lab.sweeps.spec.claims.shapes import EqualsClaim, OrderClaim
from maxk_lab.sweeps.spec.fields import NOT_IID, AnyStudy
from maxk_lab.sweeps.spec.source import Source, TreePath
from maxk_lab.sweeps.studies import STUDIES

Points = Mapping[str, Sequence[Mapping[str, Any]]]


def check_claims(
    claims: Iterable[Any], points: Points, studies: Mapping[str, AnyStudy], source: Source
) -> None:
    """Note claims of equal names, of points that are not there, and of undefined values.

    `points` holds the points that each of `studies` measures, with their stage and setting.
    """
    varied = {
        name: dict.fromkeys(key for point in found for key in settings_of(point))
        for name, found in points.items()
    }
    names: set[str] = set()
    for number, claim in enumerate(claims):
        path = ("claims", str(number))
        if claim.name in names:
            source.add((*path, "name"), f"two claims are named {shown(claim.name)}")
        names.add(claim.name)
        if claim.study not in points:
            # The kind of a claim tells of which study it speaks, or else its metric does.
            part = "kind" if claim.kind in STUDIES.get(claim.study).claims else "metric"
            article = "an" if claim.study[0] in "aeiou" else "a"
            source.add(
                (*path, part),
                f"{getattr(claim, part)} speaks of {article} {claim.study} study, "
                "and this sweep has none",
            )
            continue
        if _note_unknown_settings(claim, varied[claim.study], path, source):
            continue
        met = list(claim.points(points[claim.study]))
        if not met:
            _note_unmet(claim, number, source)
        measure, study = getattr(claim, "metric", None), studies[claim.study]
        if measure is not None and (reason := study.lacks(measure, met)) is not None:
            source.add((*path, "metric"), reason)
        decoding = getattr(claim, "decoding", None)
        if decoding is not None and (reason := study.lacks_decoding(decoding)) is not None:
            source.add((*path, "decoding"), reason)
        if isinstance(claim, EqualsClaim):
            _check_value(claim, met, (*path, "value"), source)


def _regions(claim: Any) -> Iterable[tuple[TreePath, Where]]:
    """The regions of a claim, each with its place in the claim."""
    yield ("where",), claim.where
    for side in ("of", "over"):
        if hasattr(claim, side):
            yield (side,), getattr(claim, side)
    if isinstance(claim, OrderClaim):
        for number, region in enumerate(claim.along):
            yield ("along", str(number)), region


def _note_unknown_settings(
    claim: Any, known: Collection[str], path: TreePath, source: Source
) -> bool:
    """Note settings other than those `known`, which the sweep varies; whether there were any."""
    before = len(source.problems)
    for part, region in _regions(claim):
        for key in region.setting or {}:
            if key == "start" and claim.kind in ("unbiased", "biased"):
                source.add((*path, *part, "setting", key), NOT_IID, key=True)
            elif key not in known:
                nothing = f"unknown key {shown(key)}: the sweep varies nothing"
                words = unknown_key(key, known) if known else nothing
                source.add((*path, *part, "setting", key), words, key=True)
    return len(source.problems) > before


def _note_unmet(claim: Any, number: int, source: Source) -> None:
    side, what = "where", "no point of the grid that can run"
    if hasattr(claim, "over"):
        side, what = "of", "no two points of the grid that can run"
    elif isinstance(claim, OrderClaim):
        side = "along"
        what = "no points of the grid that can run, one of each region, all else equal"
    path: TreePath = ("claims", str(number))
    source.add((*path, side) if side in source.tree["claims"][number] else path, f"matches {what}")


def _check_value(claim: EqualsClaim, met: list[Any], path: TreePath, source: Source) -> None:
    for (point,) in met:
        try:
            evaluate_value(claim.value, point["n"], point["k"], settings_of(point))
        except LabError as error:
            source.add(path, str(error))
            return
