"""Regions of a sweep's grid as claims name them, and points that differ in given axes only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxk_lab.fields import AtLeastOne, Model, OneOrMore, WholeNumber
from maxk_lab.sweeps.spec.fields import BaselineName, EstimatorName, Value
from maxk_lab.sweeps.studies import GRID_AXES

# Axes that a claim may speak of, of those that a kind of study has; seeds are pooled before.
AXES = (*GRID_AXES, "stage")
Point = Mapping[str, Any]


def settings_of(point: Point) -> dict[str, Any]:
    """Return the varied settings of a grid point, under its key `setting`, a mapping or pairs."""
    return dict(point.get("setting") or ())


class Where(Model):
    """A region of the grid: each axis that is given has the value, or one of the values, given.

    `setting` gives values of what the sweep varies, by its key: `{environment.arms: [4, 8]}`.
    """

    estimator: OneOrMore[EstimatorName] | None = None
    baseline: OneOrMore[BaselineName] | None = None
    n: OneOrMore[AtLeastOne] | None = None
    k: OneOrMore[AtLeastOne] | None = None
    stage: OneOrMore[WholeNumber] | None = None
    setting: dict[str, OneOrMore[Value]] | None = None

    def given(self) -> dict[str, tuple[Any, ...]]:
        """Return the axes and the settings that are given, with their values."""
        axes = {axis: values for axis in AXES if (values := getattr(self, axis)) is not None}
        return axes | (self.setting or {})

    def contains(self, point: Point) -> bool:
        """Return whether a grid point (a mapping with every axis) lies in the region."""
        return _within(self.given(), point)


def _within(given: Mapping[str, Sequence[Any]], point: Point) -> bool:
    known = {**point, **settings_of(point)}
    return all(axis in known and known[axis] in values for axis, values in given.items())


def aligned(
    points: Sequence[Point], regions: Sequence[Where], where: Where, axes: Sequence[str]
) -> Iterator[tuple[Point, ...]]:
    """Yield, for each point of the first region, a row of points with one of each region.

    They are equal in the axes and settings that no region gives. All but the first region give one
    value of each of their axes, and each gives all that the first does. Rows that would lack a
    point, or have one twice, are left out; `where` holds for the first, in the axes that it does
    not give.
    """
    swapped = {axis for region in regions for axis in region.given()}
    settings = dict.fromkeys(key for point in points for key in settings_of(point))
    shared = [axis for axis in (*axes, *settings) if axis not in swapped]
    first = where.given() | regions[0].given()

    def place(point: Point) -> tuple[Any, ...]:
        known = {**point, **settings_of(point)}
        return tuple(known.get(axis) for axis in shared)

    found = [
        {place(point): point for point in points if region.contains(point)}
        for region in regions[1:]
    ]
    for point in points:
        if not _within(first, point):
            continue
        row = [point, *(others[place(point)] for others in found if place(point) in others)]
        if len(row) == len(regions) and len({id(member) for member in row}) == len(row):
            yield tuple(row)
