from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from maxk_lab.fields import AtLeastOne, OneOrMore
from maxk_lab.planning.cells import Unit
from maxk_lab.planning.grid import Conditions, left_out_of, refused_k, units_of
from maxk_lab.sweep_file.checks import check_entries
from maxk_lab.sweep_file.fields import AnyStudy, Grid
from maxk_lab.sweep_file.source import entries_of


class Study(AnyStudy):
    misplaced: ClassVar = {"dices": "is no word; write throws"}

    throws: AtLeastOne = 10
    grid: OneOrMore[Grid]


@dataclass(frozen=True, eq=False, kw_only=True)
class DiceUnit(Unit):
    study: ClassVar[str] = "dice"
    told: ClassVar = ("environment", "policy", "seed", "throws")
    throws: int


@dataclass(frozen=True)
class DiceConditions(Conditions):
    study: ClassVar[str] = "dice"

    def refusal(self, point):
        return ("n", "13 dice are thrown by nobody") if point["n"] == 13 else refused_k(point)


def check(study, resolved, found, source):
    entries = entries_of(source, "dice", study.grid)
    check_entries(entries, found, source, lambda grid, environment: DiceConditions(environment))
    if study.throws > 1000:
        source.add(("dice", "throws"), "nobody throws so often")


units = partial(units_of, DiceUnit, DiceConditions)
left_out = partial(left_out_of, DiceConditions)
