"""The row of a measure: where its values come from, and what its interval is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maxk_lab.catalogue import Row
from maxk_lab.ranges import ANYWHERE, Range

# These stay, and their trajectories are random; or they are random themselves.
Question = Literal["these instances", "instances like these"]
Source = Literal["moments", "groups", "units", "cell"]
# The side on which a number is better; some have none.
Better = Literal["", "lower", "higher"]
ANY_CLAIM = ("equals", "order", "ratio")
_LACKING = {
    "behaviour": "is measured with a behaviour policy only: "
    "give gradient.behaviour a distance above 0",
    "enumeration": "is measured by complete enumeration only: give gradient complete: true",
}


@dataclass(frozen=True)
class Described:
    """A column of a report: its heading, empty in CSV and JSON only, its meaning and its table.

    `words` says that it holds words, `first` that a page shows it at first.
    """

    name: str
    heading: str
    meaning: str
    group: str = ""
    unit: str = ""
    words: bool = False
    first: bool = False


@dataclass(frozen=True, kw_only=True)
class MeasureRow(Row):
    """A measure of the cells of one kind of study; `meaning` is its formula.

    | source  | in a record                 | `implementation`                                    |
    |---------|-----------------------------|-----------------------------------------------------|
    | moments | the value                   | m2, mean_square, inner, truth of `Units` → the value|
    | groups  | the value, one per unit too | `WeightedGroups` → a number or event of each group  |
    | units   | the value, one per unit too | none: the worker counts it with what else it needs  |
    | cell    | the value                   | takes what the worker of its study has, or none     |

    `group` names the table of a report that has its column; without one it is in CSV and JSON only.
    A measure is there in every cell, or only in those that have what it `needs`.
    """

    implementation: str = ""
    study: str = "gradient"
    source: Source = "moments"
    heading: str = ""
    unit: str = ""
    better: Better = ""
    group: str = ""
    # The kinds of claims that may name it; figures take what a ratio may compare.
    claims: tuple[str, ...] = ANY_CLAIM
    tracked: bool = True
    needs: Literal["", "behaviour", "enumeration"] = ""
    # Measures of `moments`: the moments that must be told from zero, and whether it looks at ∇J.
    divides_by: tuple[str, ...] = ()
    judged: bool = False
    inverse_of: str = ""
    # Its value where trajectories are drawn by the policy itself, and it needs another.
    on_policy: float = 0.0
    # The share of groups that are something: if none or all are, its interval is that of a count.
    rate: bool = False
    # The question that its interval answers, and the values that it can have.
    question: Question = "instances like these"
    range: Range = ANYWHERE
    # How the value of a row follows from those of its seeds.
    pooled: Literal["mean", "least"] = "mean"

    @property
    def of_units(self) -> bool:
        """Every resampling unit has a number of its own, and the measure is their mean."""
        return self.source in ("groups", "units")

    def measured(self, *, enumerated: bool, off_policy: bool) -> bool:
        """Whether the cells of a study have it."""
        return {"behaviour": off_policy, "enumeration": enumerated}.get(self.needs, True)

    @property
    def not_measured(self) -> str:
        """The sentence for a study that lacks it: what would measure it."""
        return f"{self.name} {_LACKING[self.needs]}"
