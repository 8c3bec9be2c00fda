"""The words below the figures: what is shown, how to read it, and what it says in this run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from maxk_lab.report.document import number
from maxk_lab.studies.training.ending.sheets import optimum_words
from maxk_lab.studies.training.figures.board import Board
from maxk_lab.studies.training.figures.lines import dashes
from maxk_lab.studies.training.row.model import TrainingKey, TrainingRow
from maxk_lab.studies.training.section.answer.foremost import alike
from maxk_lab.studies.training.section.answer.place import Place
from maxk_lab.studies.training.section.answer.wording import joined, percent
from maxk_lab.studies.training.section.notes import over_what
from maxk_lab.studies.training.told import has_value, text


def bands(rows: Sequence[TrainingRow], level: float) -> str:
    """The meaning of the bands and the broken lines."""
    broken = any(dashes(row) != "-" for row in rows)
    said = f"Bands: {level:.0%} intervals over {over_what(rows)}."
    return said + (" Broken lines: estimates that are biased, or of another objective." * broken)


def log_bands(rows: Sequence[TrainingRow], level: float) -> str:
    """The same of the log, which has no instances: one seed has no bands."""
    one = all(row.one_seed for row in rows)
    return "One seed: no bands." if one else bands(rows, level)


def behind(board: Board) -> str:
    """The meaning of the grey lines, where there are any."""
    grey = any(panel.behind for panel in board.panels)
    return "Grey: the methods of the other panels." if grey else ""


def costs(rows: Sequence[TrainingRow]) -> str:
    """The side on which values are better, where rewards are minus costs."""
    below = all(value.value < 0 for row in rows for value in row.curve)
    return "Rewards are minus costs, so higher is better." if below else "Higher is better."


def told(places: Sequence[Place]) -> str:
    """The number of methods told apart at all samples, in this run."""
    able = [place for place in places if place.compared]
    if len(able) > 1:
        better, worse = (
            [place for place in able if place.told_to_be(sign, place.top)] for sign in (1, -1)
        )
        return (
            f"Here: at all samples some method is told to be better in {len(better)} of "
            f"{len(able)} environments, and worse in {len(worse)}."
        )
    if not able:
        return ""
    (place,) = able
    counts = [len(place.told_to_be(sign, k)) for k in (place.top, 1) for sign in (1, -1)]
    return (
        f"Here: of {len(place.compared)} methods {counts[0]} are told to be better and {counts[1]} "
        f"to be worse at {place.at(place.top)}; in the mean {counts[2]} and {counts[3]}."
    )


def highest(places: Sequence[Place]) -> str:
    """Which row ends highest at all samples, in this run."""
    if len(places) > 1:
        return ""
    (place,) = places
    best = place.best(place.top)
    names = joined([place.names[row.key] for row in best])
    value = text(best[0].curve[place.top - 1])
    are = "is" if len(best) == 1 else "are"
    return f"Here: highest at {place.at(place.top)} {are} {names} with {value}{alike(place, '; ')}."


def least_gap(places: Sequence[Place]) -> str:
    """The least gap at all samples, in this run."""
    if len(places) > 1:
        return ""
    (place,) = places
    gaps = {
        row.key: gap
        for row in place.known
        if row.measures and (gap := row.measures.gaps.get(place.top)) and has_value(gap)
    }
    if not gaps:
        return ""
    least = min(gaps, key=lambda key: gaps[key].value)
    best = place.best(place.top)
    # The verdict is on rewards, and holds for gaps where these have the same row first.
    first = least in [row.key for row in best]
    tied = alike(place, "; by their rewards ") if first else ""
    after = joined([place.names[row.key] for row in best]) if first else place.names[least]
    return f"Here: least at {place.at(place.top)} after {after}, {percent(gaps[least])}{tied}."


def known_optima(rows: Sequence[TrainingRow]) -> str:
    """How the optima are known."""
    words = optimum_words(rows)
    return f"{words[:1].upper()}{words[1:]}."


def seconds(places: Sequence[Place]) -> str:
    """How long trainings took, in this run."""
    ends = [
        (row.evaluations[-1].seconds, place.names[row.key])
        for place in places
        for row in place.known
        if row.evaluations and not math.isnan(row.evaluations[-1].seconds)
    ]
    if len(places) > 1 or len(ends) < 2:
        return ""
    (least, first), (most, last) = min(ends), max(ends)
    return f"Here: from {number(least)} s ({first}) to {number(most)} s ({last})."


def off_the_axis(board: Board, gone: Mapping[TrainingKey, tuple[float, float]]) -> str:
    """The rows that leave an axis, from where to where."""
    named = {row.key: panel.of.names[row.key] for panel in board.panels for row in panel.rows}
    listed = [
        f"{named[key]} ({number(low)} to {number(high)})" for key, (low, high) in gone.items()
    ]
    return f"Beyond the axis: {joined(listed)}." if listed else ""


def outside(board: Board, rows: Sequence[TrainingRow]) -> str:
    """The rows that the axes leave out."""
    if not rows:
        return ""
    named = {row.key: panel.of.names[row.key] for panel in board.panels for row in panel.rows}
    listed = joined([named[row.key] for row in rows])
    return f"The axes show what most methods reach in the second half, and leave out {listed}."


def sentences(*parts: str) -> str:
    """The parts that have something to say."""
    return " ".join(filter(None, parts))
