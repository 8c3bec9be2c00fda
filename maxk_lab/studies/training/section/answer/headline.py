"""The sentences about one place: who is better at all samples, who may be best, at what cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.report.document import UNDEFINED
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.section.answer import foremost
from maxk_lab.studies.training.section.answer.place import Place
from maxk_lab.studies.training.section.answer.wording import are_told, names, plain, with_gains

# More rows than this have no room in a headline.
_FEW = 2
# Rows that are not told apart from their reference: one of them may have the lead of a claim.
_LISTED = 6
# The verdict on a difference by its sign.
VERDICTS = {1: "told to be better", -1: "told to be worse", 0: "not told apart"}


def sentences(place: Place) -> Iterator[str]:
    """The headline, and then what else is told of trained policies that are sampled as trained."""
    if not place.known:
        yield f"Nothing can be said yet: none of {len(place.rows)} methods has all of its seeds."
        return
    if len(place.known) == 1:
        (only,) = place.known
        value = plain(only.curve[place.top - 1])
        yield (
            f"The only method with a value, {place.names[only.key]}, ends at {place.at(place.top)} "
            f"= {value}: there is nothing to compare it with."
        )
        return
    if foremost.all_equal(place, place.top):
        yield (
            f"All {len(place.known)} methods end at {place.at(place.top)} = "
            f"{plain(place.known[0].curve[place.top - 1])}: nothing differs there. "
            "A smaller K or a harder task would show more."
        )
        yield from filter(None, (_between(place), _price(place)))
        return
    if not place.compared:
        yield from _without_reference(place)
        return
    yield _headline(place)
    yield from filter(
        None, (_of_the_rest(place), foremost.is_open(place), _between(place), _price(place))
    )


def focus(place: Place) -> TrainingRow | None:
    """The row that further sentences are about: the best of those told better, or the highest.

    None where no row but the one that the others are compared with is the highest.
    """
    if not place.known or not place.compared:
        return None
    better = place.told_to_be(1, place.top)
    first = better[0] if better else place.best(place.top)[0]
    return first if first in place.compared else None


def of_one_training(rows: Sequence[TrainingRow]) -> str:
    """The beginning of a headline, `A`, with a reserve where every method was trained once."""
    once = all(row.one_seed for row in rows)
    return "Of one training each, which says nothing of others: a" if once else "A"


def what_it_is(place: Place) -> str:
    """The words that explain the largest K."""
    if all(row.passes for row in place.known):
        return f"the share of instances of which at least one of {place.top} samples is right"
    return f"the best of {place.top} samples"


def reference_words(place: Place) -> str:
    """The name of the row that most are compared with."""
    reference = place.reference
    return place.names[reference.key] if reference is not None else UNDEFINED


def _without_reference(place: Place) -> Iterator[str]:
    """The highest row of those that can be compared with no reference, and who may be as good."""
    best, reference = place.best(place.top), place.reference
    value = plain(best[0].curve[place.top - 1])
    if reference is not None and reference not in place.known:
        yield f"Nothing can be told against {place.names[reference.key]}, which has no value."
    yield f"The highest {place.at(place.top)} so far is that of {names(place, best)}: {value}."
    yield foremost.is_open(place)


def _headline(place: Place) -> str:
    top, reference = place.top, reference_words(place)
    better = place.told_to_be(1, top)
    at = f"{of_one_training(place.known)}t {place.at(top)}, {what_it_is(place)},"
    if better:
        told = are_told(better, of=len(place.compared))
        return f"{at} {told} to be better than {reference}: {_foremost(place, better)}."
    best = place.best(top)
    value = plain(best[0].curve[top - 1])
    lead = f"{at} no method is told to be better than {reference}"
    if best[0] is place.reference:
        alike = f", as high as {names(place, best[1:])}" if best[1:] else ""
        return f"{lead}, which is itself the highest with {value}{alike}."
    if len(best) > 1:
        return (
            f"{lead}: {names(place, best)} are the highest, all with {value}, "
            f"{_undecided(place, best[0])}."
        )
    return f"{lead}: the highest, {place.names[best[0].key]}, is {_undecided(place, best[0])}."


def _foremost(place: Place, better: Sequence[TrainingRow]) -> str:
    """The rows that are told to be better; of many that with the largest difference."""
    if len(better) <= _FEW:
        return with_gains(place, better, place.top)
    return f"the largest difference is that of {with_gains(place, better[:1], place.top)}"


def _undecided(place: Place, row: TrainingRow) -> str:
    """How far a row is ahead that is not told to be, and why that is not enough."""
    found = row.differences.get(place.top)
    if found is None or row not in place.compared:
        return "without a difference to compare"
    why = "whose interval holds 0"
    if not found.known:
        why = "which has no interval"
    elif found.low > 0:
        why = (
            "whose interval is above 0, but not with a correction for "
            f"{place.told.comparisons} comparisons"
        )
    return f"ahead by {place.gain(row, place.top)}, {why}"


def _of_the_rest(place: Place) -> str:
    """Who else is better at all samples, who is told to be worse, and how many are neither."""
    worse, top = place.told_to_be(-1, place.top), place.top
    rest = [row for row in place.compared if place.told.sign(row, top) == 0]
    better = place.told_to_be(1, top)
    others = better[1:] if len(better) > _FEW else []
    parts = [f"Better there, too: {with_gains(place, others, top)}"] if others else []
    if worse:
        parts.append(f"Told to be worse: {with_gains(place, worse, top)}")
    if rest and len(rest) < len(place.compared):
        rest.sort(key=lambda row: -row.differences[top].value)
        listed = with_gains(place, rest, top, _LISTED)
        parts.append(f"Not told apart from {reference_words(place)}: {listed}")
    return ". ".join([*parts, ""]).strip()


def _between(place: Place) -> str:
    """The K that are trained for, which are between the mean and all samples."""
    parts = []
    for k in (k for k in place.ks[1:-1] if not foremost.all_equal(place, k)):
        better = place.told_to_be(1, k)
        found = (
            f": {with_gains(place, better, k, 2)}"
            if better
            else f", and the highest is {_highest(place, k)}"
        )
        parts.append(f"at {place.at(k)}, {are_told(better)} to be better{found}")
    found = "; ".join(parts)
    return f"{found[:1].upper()}{found[1:]}." if found else ""


def _highest(place: Place, k: int) -> str:
    """The highest row at k with how far it is ahead."""
    best = place.best(k)
    if best[0] is place.reference or k not in best[0].differences:
        return names(place, best)
    return f"{names(place, best)} (by {place.gain(best[0], k)})"


def _price(place: Place) -> str:
    """The mean of the row that the headline is about, beside that of its reference."""
    row, top = focus(place), place.top
    if top == 1 or foremost.all_equal(place, 1):
        return ""
    next_ = foremost.ahead_of_the_next(place, 1)
    highest = names(place, place.best(1)) + next_
    if row is None:
        return f"The highest mean is that of {highest}."
    verb = VERDICTS[place.told.sign(row, 1)]
    itself = [row] == place.best(1)
    also = f", the highest of all{next_}" if itself else f"; the highest mean is that of {highest}"
    return f"In the mean, {place.names[row.key]} differs by {place.gain(row, 1)} ({verb}){also}."
