"""The shape of an objective study in a sweep file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from maxk_lab.fields import Finite, GroupSize, Model, OneOrMore
from maxk_lab.sweeps.spec.fields import AnyStudy, EstimatorName


class ObjectiveGrid(Model):
    """The objectives that are compared: the one that each estimator targets, at each K."""

    estimator: OneOrMore[EstimatorName]
    k: OneOrMore[GroupSize]


class Study(AnyStudy):
    """The exact objective at `points` values of a parameter, from `from` to `to`, and its optimum.

    The values are evenly spaced. `parameter` is a number of the environment or of its policy, as in
    `policy.mean`.
    """

    parameter: str
    start: Annotated[Finite, Field(alias="from")]
    stop: Annotated[Finite, Field(alias="to")]
    points: Annotated[int, Field(ge=2, le=100_000)] = 101
    grid: OneOrMore[ObjectiveGrid]
