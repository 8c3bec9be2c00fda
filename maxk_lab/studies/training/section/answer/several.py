"""The answer of a study of several environments: counts over all, then those with a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.report.document import number
from maxk_lab.studies.training.row.comparison import difference
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.section.answer import foremost
from maxk_lab.studies.training.section.answer.decoded import own_level
from maxk_lab.studies.training.section.answer.headline import of_one_training, reference_words
from maxk_lab.studies.training.section.answer.place import Place
from maxk_lab.studies.training.section.answer.wording import joined, names, with_gains
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
    without = [place for place in able if place not in found]
    for place in without[:_LISTED]:
        yield f"{place.where[:1].upper()}{place.where[1:]}: nothing is told apart. {_untold(place)}"
    if len(without) > _LISTED:
        listed = "; ".join(place.where for place in without[_LISTED:])
        yield f"Nothing is told apart in: {listed}."
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
            f"With every policy at the temperature that is best for it ({own_level(tempered)}), "
            f"some method is told to be better in {len(better)} of {len(able)} environments."
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
    if foremost.all_equal(place, place.top):
        return "; ".join([*parts, f"all methods end at the same {place.at(place.top)}"])
    best, others = names(place, place.best(place.top)), foremost.others(place)
    are = "is" if len(others) == 1 else "are"
    rest = foremost.behind(place, others)
    open_ = f", from which {rest} {are} not told apart" if others else ", told to be best"
    return f"{'; '.join(parts)}; the highest {place.at(place.top)} is that of {best}{open_}"


def _untold(place: Place) -> str:
    """On which side of their reference rows are, and what could have been told of them."""
    reference = reference_words(place)
    rows, top = place.compared, place.top
    sides = {
        side: [row for row in rows if all(sign * row.differences[k].value > 0 for k in place.ks)]
        for side, sign in (("above", 1), ("below", -1))
    }
    parts = [
        f"{side} {reference} at every K asked for: {names(place, own)}"
        for side, own in sides.items()
        if own
    ]
    shown = [f"in the mean {with_gains(place, rows, 1)}"] if top > 1 else []
    shown.append(f"at {place.at(top)} {with_gains(place, rows, top)}")
    said = ". ".join(f"{part[:1].upper()}{part[1:]}" for part in (*parts, "; ".join(shown)))
    return f"{said}.{_could_tell(place)}"


def _could_tell(place: Place) -> str:
    """The differences from which on one of these would have been told, by its own spread."""
    by_path = {row.key.path: row for row in place.rows}
    level = 1 - place.told.alpha / max(1, place.told.comparisons)
    parts = []
    for k in sorted({1, place.top}):
        found = [difference(row, by_path[row.compared_with], k, level) for row in place.compared]
        sizes = [number((each.high - each.low) / 2) for each in found if each.known]
        if sizes:
            named = "in the mean" if k == 1 else f"at {place.at(k)}"
            parts.append(f"{' or '.join(dict.fromkeys(sizes))} {named}")
    if not parts:
        return ""
    seeds = max(len(row.cells) for row in place.compared)
    over = "one training" if seeds == 1 else f"{seeds} seeds"
    return f" Of {over} that spread as these do, about {joined(parts)} would have been told."


def _at(place: Place, row: TrainingRow, ks: Sequence[int]) -> str:
    """The K at which a row is told apart, with its difference at the last of them."""
    named = joined(["in the mean" if k == 1 else f"at {place.at(k)}" for k in ks])
    last = f"{place.at(ks[-1])} " if len(ks) > 1 else ""
    return f"{named} ({last}by {place.gain(row, ks[-1])})"
