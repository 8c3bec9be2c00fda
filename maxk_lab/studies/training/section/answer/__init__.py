"""The answer of a training study in sentences, none of which is stronger than the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.studies.training.section.answer import decoded, headline, rests, several
from maxk_lab.studies.training.section.answer.place import Place
from maxk_lab.studies.training.section.corrected import Told, told_apart


def answer(places: Sequence[Place], level: float, *, claims: bool = False) -> tuple[str, ...]:
    """The sentences on these places of one study, which may have `claims`, the headline first."""
    return tuple(_sentences(places, level, claims=claims)) if places else ()


def _sentences(places: Sequence[Place], level: float, *, claims: bool) -> Iterator[str]:
    tempered = _tempered(places, level)
    ways = tempered is not None
    yield from rests.of_the_unfinished(places)
    if len(places) > 1:
        yield from several.sentences(places, tempered)
    else:
        (place,) = places
        yield from headline.sentences(place)
        of_ways = list(decoded.sentences(place, tempered, level))
        ways = bool(of_ways)
        yield from of_ways
        yield from rests.of_the_optimum(place, level)
    yield from rests.of_seeds(places)
    yield from rests.of_corrections(places, level, ways=ways, claims=claims)


def _tempered(places: Sequence[Place], level: float) -> Told | None:
    """Tell apart the rows where every policy of the study is at its own best temperature."""
    rows = [row.tempered for place in places for row in place.rows if row.tempered is not None]
    return told_apart(rows, 1 - level) if rows else None
