"""The words for what a report has no numbers of: failed, damaged, stale and missing cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.report.model import Failure, Summary
from maxk_lab.report.naming import listed
from maxk_lab.report.rows import grouped
from maxk_lab.sweeps.plan.changes import ELSE

# So many cells are listed one by one.
_LISTED = 20
# So many that failed are; of more, those with one error are one line.
_FAILED = 5
# So many names stand in a line.
_NAMED = 5


def standing_lines(summary: Summary) -> list[str]:
    """Return the first lines: what has a result, what changed or is damaged, what it costs."""
    counts = summary.counts
    said = str(counts)
    if counts.planned and counts.failed == counts.planned:
        said = f"every cell failed and nothing was measured: {said}"
    elif counts.planned and not counts.done:
        said = f"nothing is measured yet: {said}"
    lines = [f"{said[0].upper()}{said[1:]}."]
    if summary.changed:
        lines.append(f"CHANGED SINCE: {changed_line(summary.changed)}.")
    if summary.problems:
        number = len(summary.problems)
        found = f"{number} records, the first: " if number > 1 else ""
        lines.append(f"DAMAGED: {found}{summary.problems[0]}.")
    if not counts.done:
        lines += failure_lines(summary)
    if summary.unjudged:
        names = listed(summary.unjudged, _NAMED)
        lines.append(f"Claims that cannot be judged for want of cells: {names}.")
    return lines


def changed_line(changed: Sequence[str]) -> str:
    """Return the sentence about what is no more as it was measured."""
    what = listed(changed, _NAMED)
    return f"{what} since it was measured: the numbers are of what was there then"


def absent_lines(summary: Summary) -> list[str]:
    """Return a line for every cell without a result, or for many of them together."""
    # Where nothing was measured, they stand in the first lines.
    failed = failure_lines(summary) if summary.counts.done else []
    items = [f"failed: {line}" for line in failed]
    items += [f"damaged: {problem}" for problem in summary.problems]
    missing = {*summary.missing, *summary.stale} - set(summary.damaged)
    unfinished = [
        f"not finished: {row.key.path} seed {seed} (cell {cell})"
        for study in summary.studies.values()
        for row in study.rows
        for seed, cell in row.cells.items()
        if cell in missing
    ]
    items += unfinished[:_LISTED]
    if len(unfinished) > _LISTED:
        items.append(f"and {len(unfinished) - _LISTED} more")
    for reason, ids in grouped(summary.stale, lambda one: summary.because.get(one, ELSE)).items():
        items.append(f"stale: {reason}; not used: {len(ids)} records ({listed(ids, _NAMED)})")
    return items


def failure_lines(summary: Summary) -> list[str]:
    """Return a line for every failed cell; for every reason, where many failed or all did."""
    if summary.counts.done and len(summary.failed) <= _FAILED:
        return [f"{_place(failure)}: {failure.error}" for failure in summary.failed]
    reasons = list(_by_reason(summary.failed))
    more = len(reasons) - _LISTED
    return [*reasons[:_LISTED], *([f"and {more} more reasons"] if more > 0 else [])]


def _by_reason(failures: tuple[Failure, ...]) -> Iterator[str]:
    for reason, cells in grouped(failures, lambda failure: failure.error).items():
        yield (
            f"{_place(cells[0])}: {reason}"
            if len(cells) == 1
            else f"{len(cells)} cells, e.g. {_place(cells[0])}: {reason}"
        )


def _place(failure: Failure) -> str:
    return f"{failure.path} seed {failure.seed} (cell {failure.cell})"
