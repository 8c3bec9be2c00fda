"""Records → rows, and the number of a row."""

from dataclasses import dataclass

from maxk_lab.ranges import SHARES
from maxk_lab.reports.naming import GridKey
from maxk_lab.reports.tables import Pooled, PooledRow, members_by_key
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.seeds import skewed_mean

key = GridKey.of


@dataclass(frozen=True, kw_only=True)
class Row(PooledRow):
    """A method at n and K with the share of silent groups."""

    share: Interval


def pool(cells, done, *, level, alpha):
    """Return the rows of the cells; the interval is over the groups of all seeds."""
    rows = []
    for row_key, members, records in members_by_key(cells, done, key):
        silent = [float(x) for record in records.values() for x in record.metrics["silent"]]
        share = skewed_mean(silent, level, within=SHARES, of="groups")
        ids = {cell["seed"]: cell["id"] for cell in members}
        rows.append(Row(key=row_key, cells=ids, finished=tuple(records), share=share))
    return Pooled(tuple(rows))


def estimates(row):
    """Return the numbers of a row by their names."""
    return {"silent_share": row.share}
