"""A kind of study from outside the package: the largest of k dice, thrown in groups of n."""

from maxk_lab.statistics.measures import MeasureRow
from maxk_lab.sweep_file.studies import StudyRow

ROW = StudyRow(
    name="dice", meaning="the largest of k dice, thrown in groups of n", implementation="dice_study"
)
LARGEST = MeasureRow(
    name="largest",
    meaning="the mean of the largest of k dice",
    heading="largest",
    group="dice",
    study="dice",
    source="cell",
    claims=("equals",),
)
