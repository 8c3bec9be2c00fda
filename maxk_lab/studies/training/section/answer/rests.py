"""The ground of an answer: optima, seeds that ended apart or not at all, and corrections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.report.tables import grouped
from maxk_lab.studies.training.ending.apart import MARK
from maxk_lab.studies.training.ending.measures import gap_difference
from maxk_lab.studies.training.ending.sheets import optimum_words
from maxk_lab.studies.training.section.answer.foremost import all_equal
from maxk_lab.studies.training.section.answer.headline import focus
from maxk_lab.studies.training.section.answer.place import Place
from maxk_lab.studies.training.section.answer.wording import joined, names, percent
from maxk_lab.studies.training.told import has_value, text


def of_the_optimum(place: Place, level: float) -> Iterator[str]:
    """How far from the optimum the row of the headline is, and the one it is compared with."""
    row = focus(place) or (place.best(place.top)[0] if place.known else None)
    reference = place.reference
    if row is None or row.measures is None:
        return
    gap = row.measures.gaps.get(place.top)
    if gap is None or not has_value(gap):
        return
    said = (
        f"The gap to the optimum at {place.at(place.top)} is {percent(gap)} after "
        f"{place.names[row.key]}"
    )
    if reference is not None and reference is not row and reference.measures is not None:
        other = reference.measures.gaps.get(place.top)
        if other is not None and has_value(other):
            apart = gap_difference(row, reference, place.top, level)
            paired = f" (paired difference {text(apart)} points)" if has_value(apart) else ""
            said += f" and {percent(other)} after {place.names[reference.key]}{paired}"
    yield f"{said}; {optimum_words(place.known)}."


def of_seeds(places: Sequence[Place]) -> Iterator[str]:
    """The seeds that ended apart, with their place of several."""
    for place in places:
        where = f" ({place.where})" if len(places) > 1 else ""
        apart = [row for row in place.known if row.apart]
        if apart:
            also = "every difference here" if place.reference in apart else "their differences"
            yield (
                f"One seed each of {names(place, apart)}{where} ended far from the others: "
                f"their means, and {also}, marked {MARK}, rest on that seed as much as on "
                "the method."
            )


def of_the_unfinished(places: Sequence[Place]) -> Iterator[str]:
    """The rows that have no value, of places where some have: an answer speaks of these alone."""
    for place in places:
        where = f" ({place.where})" if len(places) > 1 else ""
        lacking = [row for row in place.rows if row not in place.known]
        for reason, rows in grouped(lacking, lambda row: row.reason).items():
            if place.known:
                yield (
                    f"Without a value{where}: {names(place, rows)} ({reason or 'no value'}); what "
                    "follows is of the others alone."
                )


def of_corrections(
    places: Sequence[Place], level: float, *, ways: bool, claims: bool
) -> Iterator[str]:
    """The meaning of `told` here, and what intervals are about.

    Other `ways` of decoding were told of, and `claims` will be, where there are any.
    """
    compared = [row for place in places for row in place.compared]
    if places and all(all_equal(place, k) for place in places for k in place.ks):
        return
    if not compared:
        if any(len(place.known) > 1 for place in places):
            yield f"{_of_the_best(places)}. Intervals: {level:.0%}, each of one number alone."
        return
    seeds = max(len(row.cells) for row in compared)
    told = places[0].told
    rest = "each of one difference alone"
    if all(row.one_seed for row in compared):
        over = (
            "over the held-out instances of the one seed: another training may end differently, "
            "and nothing is told of that"
        )
    else:
        over = f"over {seeds} seeds"
    own = _of_the_best(places)
    own += ", and so has each other way of decoding, as is said there." if ways else "."
    yield (
        f"Told of policies that are sampled as trained: at a level of {told.alpha:.0%} for the "
        f"whole study, corrected for its {told.comparisons} differences at {_ks(places)} (Holm), "
        f"{over}. {own} Intervals: {level:.0%}, {rest}."
    )
    if claims:
        yield (
            "A claim, which the sweep file states beforehand, is corrected for its own differences "
            "alone: it can be supported where nothing is told here."
        )


def _of_the_best(places: Sequence[Place]) -> str:
    """The level of the lists of the best."""
    lists = "all these lists" if len(places) > 1 else "its list"
    return (
        f"Who may be best has {places[0].told.alpha:.0%} of its own for {lists}, of every method "
        "against every other"
    )


def _ks(places: Sequence[Place]) -> str:
    ks = sorted({k for place in places if place.known for k in place.ks})
    return f"K = {joined(list(map(str, ks)))}"
