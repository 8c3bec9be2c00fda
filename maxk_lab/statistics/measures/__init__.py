"""The table of measures: the numbers of a finished record, and their names everywhere.

The name of a row is the key in a record, the metric of a claim or a figure, the key in CSV and JSON
and the last word of the name at Weights & Biases; its heading stands in tables. Imports no numpy.
"""

from __future__ import annotations

from maxk_lab.catalogue import Catalogue
from maxk_lab.statistics.measures.of_gradients import OF_GRADIENTS
from maxk_lab.statistics.measures.of_other_studies import OF_OBJECTIVES, OF_WEIGHTS
from maxk_lab.statistics.measures.of_reports import COLUMNS
from maxk_lab.statistics.measures.of_trainings import of_training
from maxk_lab.statistics.measures.row import Better as Better
from maxk_lab.statistics.measures.row import Described as Described
from maxk_lab.statistics.measures.row import MeasureRow as MeasureRow
from maxk_lab.statistics.measures.row import Question as Question

MEASURES: Catalogue[MeasureRow] = Catalogue(
    "measure", [*OF_GRADIENTS, *OF_WEIGHTS, *OF_OBJECTIVES], "maxk_lab.measures"
)


def measures_of(study: str) -> tuple[MeasureRow, ...]:
    """Return the measures of one kind of study."""
    return tuple(row for row in MEASURES if row.study == study)


def described(name: str) -> Described | None:
    """Return heading, meaning and group of a column of a report; None where it has neither."""
    if name not in COLUMNS and name in MEASURES.names():
        row = MEASURES.get(name)
        heading = row.heading if row.group else ""
        first = row.group == "variance"
        return Described(row.name, heading, row.meaning, row.group, row.unit, first=first)
    return COLUMNS.get(name) or of_training(name)


def claimable(kind: str) -> tuple[str, ...]:
    """Return the names that a claim of this kind may use."""
    return tuple(row.name for row in MEASURES if kind in row.claims)


def in_group(study: str, *groups: str) -> tuple[str, ...]:
    """Return the names of the measures of a study in these groups, group by group."""
    return tuple(row.name for group in groups for row in measures_of(study) if row.group == group)
