from statistics import fmean

from maxk_lab.reports.naming import GridKey
from maxk_lab.reports.tables import Estimate
from maxk_lab.statistics.intervals import exactly

key = GridKey.of


def estimates(row):
    largest = [found.largest for found in row.by_seed.values()]
    return {"largest": Estimate(exactly(fmean(largest)))} if row.all_finished else {}
