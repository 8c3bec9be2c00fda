from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from maxk_lab.sweeps.plan.cells import Unit
from maxk_lab.sweeps.plan.grid import Conditions, points_of, refused_k


@dataclass(frozen=True, eq=False, kw_only=True)
class DiceUnit(Unit):
    study: ClassVar[str] = "dice"
    told: ClassVar = ("environment", "policy", "seed", "throws")
    throws: int

    def work(self):
        return {"cells": float(self.throws)}

    @property
    def label(self):
        return f"{self.place}, dice, seed {self.seed}"


@dataclass(frozen=True)
class DiceConditions(Conditions):
    study: ClassVar[str] = "dice"

    def refusal(self, point):
        if point["n"] == 13:
            return "n", "13 dice are thrown by nobody"
        return refused_k(point)


def left_out(study, environment):
    return points_of(study.grid, DiceConditions(environment))[1]


def units(study, seeds, found):
    for variant, seed in product(found, seeds):
        points, _ = points_of(study.grid, DiceConditions(variant.environment["name"]))
        yield DiceUnit(
            environment=variant.environment,
            policy=variant.policy,
            seed=seed,
            throws=study.throws,
            setting=variant.setting,
        ).with_points(points)
