from dice_study.section import largest
from maxk_lab.report.rows import Measured
from maxk_lab.statistics.intervals import exactly


def measured(row):
    return {"largest": Measured(exactly(largest(row)))} if row.all_finished else {}


def against(row, other, name, level):
    return None
