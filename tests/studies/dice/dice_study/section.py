from statistics import fmean

from maxk_lab.report.document import Chapter, Column, Section, Sheet, exact
from maxk_lab.report.key_columns import POINT, SEEDS, setting_columns


def largest(row):
    return fmean(row.largest.values()) if row.largest else float("nan")


LARGEST = Column("largest", lambda row: exact(largest(row)), lambda row: {"largest": largest(row)})


def chapter(found, summary):
    settings = setting_columns([row.key.setting for row in found.rows])
    columns = (*settings, *POINT, LARGEST, SEEDS)
    records = []
    for row in found.rows:
        flat = {"environment": row.key.environment}
        for column in columns:
            flat |= column.values(row)
        records.append(flat)
    sheet = Sheet("The largest of k dice", columns, found.rows)
    section = Section("dice", (sheet,) if found.rows else (), tuple(records))
    undefined = [f"{row.key.path}: {row.unfinished}" for row in found.rows if row.unfinished]
    return Chapter((section,), undefined=undefined)
