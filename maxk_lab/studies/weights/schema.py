"""The shape of a weights study in a sweep file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from maxk_lab.fields import AtLeastOne, OneOrMore
from maxk_lab.sweeps.spec.fields import NOT_IID, AnyStudy, Grid


class Study(AnyStudy):
    """The weights that estimators give the rewards of `groups` groups of the initial policy."""

    misplaced: ClassVar[Mapping[str, str]] = {"start": NOT_IID}

    groups: AtLeastOne = 4
    grid: OneOrMore[Grid]
