"""Generated parts of pages that are written by hand otherwise."""

from __future__ import annotations

from collections.abc import Sequence


def put_between(page: str, begin: str, lines: Sequence[str], end: str) -> str:
    """Return the page with these lines between its two marks. Exits where it does not have them."""
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise SystemExit(f"the page needs one line {begin} and, below it, one line {end}")
    before, after = page.split(begin)[0], page.split(end)[1]
    return before + "\n".join([begin, "", *lines, "", end]) + after
