"""Whether an answer holds under other ways of decoding: at the own best temperature, and POMO's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.studies.training.ending.own_best import in_way
from maxk_lab.studies.training.ending.ways import POMO_WAY, heading
from maxk_lab.studies.training.row.comparison import with_differences_to
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import is_pomo
from maxk_lab.studies.training.section.answer.headline import (
    VERDICTS,
    focus,
    reference_words,
)
from maxk_lab.studies.training.section.answer.place import Place
from maxk_lab.studies.training.section.answer.wording import are_told, names, with_gains
from maxk_lab.studies.training.section.corrected import Told, told_apart
from maxk_lab.studies.training.told import text


def sentences(place: Place, tempered: Told | None, level: float) -> Iterator[str]:
    """Sentences on policies at their own best temperature, and on all decoded as POMO is.

    `tempered` has what is told of the whole study at these temperatures; None where there are none.
    """
    if not place.compared:
        return
    if tempered is not None:
        there = place.at_own_temperature(tempered)
        if there.compared:
            yield _at_own_temperature(place, there, tempered)
    yield from _as_pomo(place, level)


def own_level(told: Told) -> str:
    """The level of a family of comparisons beside that of policies that are sampled as trained."""
    return f"told at a level of {told.alpha:.0%} for {told.comparisons} differences of its own"


def _at_own_temperature(place: Place, there: Place, tempered: Told) -> str:
    """Who is told to be better at all samples, and what becomes of the leads at temperature 1."""
    top = there.top
    better = there.told_to_be(1, top)
    here = {row.key for row in place.told_to_be(1, top)}
    chosen = next(iter(there.known)).settings.evaluate.tuning
    lead = (
        "With every policy at the temperature that is best for it (chosen on "
        f"{chosen} other instances; {own_level(tempered)}), "
    )
    parts = [
        f"{are_told(better)} to be better than {reference_words(there)} at {there.at(top)}"
        + (f": {with_gains(there, better, top, 3)}" if better else "")
    ]
    row = focus(place)
    mine = next((each for each in there.compared if row is not None and each.key == row.key), None)
    if mine is not None and mine not in better:
        verdict = VERDICTS[tempered.sign(mine, top)]
        parts.append(f"{there.names[mine.key]} differs by {there.gain(mine, top)} ({verdict})")
    found = lead + "; ".join(parts) + "."
    lost = [each for each in there.compared if each.key in here and each not in better]
    if lost:
        leads = f"The lead of {names(there, lost)} at temperature 1 is"
        found += f" {leads} thus not told from one of temperature alone."
    return found


def _as_pomo(place: Place, level: float) -> Iterator[str]:
    """The row of the headline where all are decoded in POMO's own way."""
    row = focus(place)
    if row is None or place.reference is None:
        return
    decoded = {
        each.key: found
        for each in place.known
        if (found := in_way(each, POMO_WAY, level)) is not None
    }
    reference = decoded.get(place.reference.key)
    mine = decoded.get(row.key)
    if reference is None or mine is None or row.compared_with != place.reference.key.path:
        return
    shipped = [
        found
        for found in decoded.values()
        if is_pomo(found) and found.settings.start == "multistart" and found is not reference
    ]
    rivals = [reference, *shipped[:1]]
    # Two families, where there are two rivals, share the level.
    families = [
        _family(list(decoded.values()), rival, place.told.alpha / len(rivals), level)
        for rival in rivals
    ]
    told = Told({}, sum(told.comparisons for _, told in families), place.told.alpha)
    costs = place.reference.measures.trajectories if place.reference.measures else {}
    trajectories = costs.get(POMO_WAY)
    cost = f"; {trajectories} trajectories an instance" if trajectories else ""
    parts = [
        _against(place, mine, rival, *family)
        for rival, family in zip(rivals, families, strict=True)
    ]
    yield (
        f"Decoded in POMO's own way ({heading(POMO_WAY)}{cost}; {own_level(told)}), "
        f"{place.names[row.key]} differs {' and '.join(parts)}."
    )


def _family(
    rows: Sequence[TrainingRow], rival: TrainingRow, alpha: float, level: float
) -> tuple[list[TrainingRow], Told]:
    """All other rows compared with a rival, and what is told of these."""
    others = [with_differences_to(row, rival, level) for row in rows if row is not rival]
    return others, told_apart(others, alpha)


def _against(
    place: Place, mine: TrainingRow, rival: TrainingRow, others: Sequence[TrainingRow], told: Told
) -> str:
    """The difference to a rival, judged among those of all rows to it."""
    (found,) = [row for row in others if row.key == mine.key]
    verdict = VERDICTS[told.sign(found, 1)]
    return f"from {place.names[rival.key]} by {text(found.differences[1])} ({verdict})"
