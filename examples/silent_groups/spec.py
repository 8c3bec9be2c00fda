"""The block `silent` of a sweep file: its grid, its units and its record."""

from functools import partial
from typing import ClassVar

from maxk_lab.fields import OneOrMore, Recorded
from maxk_lab.planning.cells import Unit
from maxk_lab.planning.grid import Conditions, left_out_of, refused_k, units_of
from maxk_lab.sweep_file.fields import AnyStudy, Grid
from maxk_lab.sweep_file.grids import grid_problems


class Study(AnyStudy):
    """The share of 64 groups without a gradient: all of their weights are 0."""

    grid: OneOrMore[Grid]


class Metrics(Recorded):
    """Whether each group is silent."""

    silent: list[bool]


class SilentUnit(Unit):
    """The groups of one environment, policy and seed."""

    study: ClassVar[str] = "silent"
    sent: ClassVar[tuple[str, ...]] = ("environment", "policy", "seed")


class SilentConditions(Conditions):
    """A method must take the n and the K of a point."""

    study: ClassVar[str] = "silent"
    refusal = staticmethod(refused_k)


units = partial(units_of, SilentUnit, SilentConditions)
left_out = partial(left_out_of, SilentConditions)


def check(study, variants):
    """Return what is wrong with the grid."""
    return grid_problems("silent", study.grid, variants, lambda _, name: SilentConditions(name))
