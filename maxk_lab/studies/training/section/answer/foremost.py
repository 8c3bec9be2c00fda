"""Who may be the best of a place: the highest row, and those that are not told apart from it."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.studies.training.row.comparison import difference
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.section.answer.place import Place
from maxk_lab.studies.training.section.answer.wording import LISTED, joined, names
from maxk_lab.studies.training.told import has_value, text


def all_equal(place: Place, k: int) -> bool:
    """Return whether several methods have a value at k, all the same."""
    return len(place.best(k)) == len(place.known) > 1


def others(place: Place) -> list[TrainingRow]:
    """The other rows that are not told apart from the best at all samples, the highest first.

    None of them is told to be worse than the row that it is compared with.
    """
    best, worse = place.best(place.top), place.told_to_be(-1, place.top)
    found = [row for row in place.may_be_best(place.top) if row not in best and row not in worse]
    return sorted(found, key=lambda row: -row.curve[place.top - 1].value)


def is_open(place: Place) -> str:
    """Which other rows may be the best at all samples, with how far they are behind."""
    best, rest = place.best(place.top), others(place)
    first = names(place, best)
    if not rest:
        are = "is" if len(best) == 1 else "are"
        return (
            f"The highest there, {first}, {are} told to be best: each of the others is told to be "
            "worse than some method."
        )
    has, it = ("has", "it") if len(best) == 1 else ("have", "them")
    are = "is one other" if len(rest) == 1 else f"are {len(rest)} others"
    return (
        f"Which is best there is open: {first} {has} the highest value, and not "
        f"told apart from {it} {are}: {behind(place, rest)}."
    )


def behind(place: Place, rows: Sequence[TrainingRow]) -> str:
    """The names of rows with their differences to the best, the first ones where they are many."""
    best = place.best(place.top)[0]
    listed = []
    for row in rows[:LISTED]:
        found = difference(row, best, place.top, best.curve[place.top - 1].level)
        by = f" (by {text(found)})" if has_value(found) else ""
        listed.append(f"{place.names[row.key]}{by}")
    more = len(rows) - len(listed)
    return joined([*listed, *([f"{more} more"] if more else [])])


def alike(place: Place, lead: str) -> str:
    """The words of a caption on the rows that are not told apart from the best, after a `lead`."""
    rest, best = others(place), place.best(place.top)
    it = "it" if len(best) == 1 else "them"
    if rest:
        return f"{lead}not told apart from {it}: {names(place, rest)}"
    return f"{lead}told to be best" if len(place.known) > len(best) else ""


def ahead_of_the_next(place: Place, k: int) -> str:
    """How far the one row that is highest at k is ahead of the next, which is no verdict."""
    best = place.best(k)
    known = [row for row in place.known if row not in best and has_value(row.curve[k - 1])]
    if len(best) != 1 or not known:
        return ""
    second = max(known, key=lambda row: row.curve[k - 1].value)
    found = difference(best[0], second, k, best[0].curve[k - 1].level)
    by = f", by {text(found)}" if has_value(found) else ""
    return f", ahead of the next, {place.names[second.key]}{by}"
