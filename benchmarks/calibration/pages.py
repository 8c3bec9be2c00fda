"""Generated parts of pages that are written by hand otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def put_between(page: str, begin: str, lines: Sequence[str], end: str) -> str:
    """Return the page with these lines between its two marks. Exits where it does not have them."""
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise SystemExit(f"the page needs one line {begin} and, below it, one line {end}")
    before, after = page.split(begin)[0], page.split(end)[1]
    return before + "\n".join([begin, "", *lines, "", end]) + after


def print_or_put(lines: Sequence[str], into: Path | None, begin: str, end: str) -> None:
    """Print the lines, or put them into a page between its two marks."""
    if into is None:
        print(*lines, sep="\n")
    else:
        page = put_between(into.read_text(encoding="utf-8"), begin, lines, end)
        into.write_text(page, encoding="utf-8")
