"""The answer of a study of several environments: counts over all, then those with a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.section.answer.headline import of_one_training, reference_words
from maxk_lab.studies.training.section.answer.place import Place
from maxk_lab.studies.training.section.answer.wording import joined, names
from maxk_lab.studies.training.section.corrected import Told

# Places with a sentence of their own; the tables have the others.
_LISTED = 6


def sentences(places: Sequence[Place], tempered: Told | None) -> Iterator[str]:
    """A headline in counts, a sentence for each place where something is told, and the rest."""
    able = [place for place in places if place.compared]
    if not able:
        yield f"Nothing can be compared yet in any of {len(places)} places."
        return
    yield _counts(able)
    found = [place for place in able if _has_any(place)]
    for place in found[:_LISTED]:
        yield f"{place.where[:1].upper()}{place.where[1:]}: {_findings(place)}."
    if len(found) > _LISTED:
        yield f"The tables tell of {len(found) - _LISTED} more with a finding."
    if tempered is not None:
        yield from _at_own_temperature(able, tempered)
    without = [place.where for place in able if place not in found]
    if without:
        yield f"Nothing is told apart in: {'; '.join(without)}."
    missing = [place.where for place in places if place not in able]
    if missing:
        yield f"Nothing can be compared yet: {'; '.join(missing)}."


def _counts(places: Sequence[Place]) -> str:
    """In how many places some method is told to be better, and worse, at all samples."""
    tops = list(dict.fromkeys(place.at(place.top) for place in places))
    references = list(dict.fromkeys(map(reference_words, places)))
    better, worse = (
        [place for place in places if place.told_to_be(sign, place.top)] for sign in (1, -1)
    )
    once = of_one_training([row for place in places for row in place.known])
    lead = (
        f"{once}t {joined(tops)}, the best of all samples, some method is told to be better than "
        f"{joined(references)} in {len(better) or 'none'} of {len(places)} environments"
    )
    return f"{lead}, and some method to be worse in {len(worse) or 'none'}."


def _at_own_temperature(places: Sequence[Place], tempered: Told) -> Iterator[str]:
    """In how many places a method is told to be better with each at its own best temperature."""
    own = [place.at_own_temperature(tempered) for place in places]
    able = [place for place in own if place.compared]
    if able:
        better = [place for place in able if place.told_to_be(1, place.top)]
        yield (
            "With every policy at the temperature that is best for it, some method is told to be "
            f"better in {len(better)} of {len(able)} environments."
        )


def _has_any(place: Place) -> bool:
    return any(place.told.at(row, sign) for row in place.compared for sign in (1, -1))


def _findings(place: Place) -> str:
    """The rows told apart in one place, and the one that is the highest at all samples."""
    parts = []
    for row in place.compared:
        told = [
            f"{word} {_at(place, row, ks)}"
            for word, sign in (("better", 1), ("worse", -1))
            if (ks := place.told.at(row, sign))
        ]
        if told:
            parts.append(f"{place.names[row.key]} is told to be {' and '.join(told)}")
    best = names(place, place.best(place.top))
    others = [row for row in place.may_be_best(place.top) if row not in place.best(place.top)]
    open_ = f", and {names(place, others)} may be as good" if others else ", told from every other"
    return f"{'; '.join(parts)}; the highest {place.at(place.top)} is that of {best}{open_}"


def _at(place: Place, row: TrainingRow, ks: Sequence[int]) -> str:
    """The K at which a row is told apart, with its difference at the last of them."""
    named = joined(["in the mean" if k == 1 else f"at {place.at(k)}" for k in ks])
    last = f"{place.at(ks[-1])} " if len(ks) > 1 else ""
    return f"{named} ({last}by {place.gain(row, ks[-1])})"
