from typing import ClassVar

from maxk_lab.fields import AtLeastOne, OneOrMore
from maxk_lab.sweeps.spec.fields import AnyStudy, Grid


class Study(AnyStudy):
    misplaced: ClassVar = {"dices": "is no word; write throws"}

    throws: AtLeastOne = 10
    grid: OneOrMore[Grid]
