"""The captions of the figures: what is shown, how to read it, and what it says in this run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from maxk_lab.report.document import UNDEFINED, compact, exact, number
from maxk_lab.report.naming import listed
from maxk_lab.report.tables import grouped
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.figures.anatomy import multiple
from maxk_lab.studies.gradient.figures.curves import MOST, lines_of, told, value_of
from maxk_lab.studies.gradient.figures.heat_map import may_be_best
from maxk_lab.studies.gradient.figures.lines import drawable, is_rounding, value_in
from maxk_lab.studies.gradient.figures.questions import about
from maxk_lab.studies.gradient.figures.strips import (
    PAGED,
    line_names,
    line_of,
    place_of,
    place_words,
    shown_sizes,
)
from maxk_lab.studies.gradient.figures.variance import Values
from maxk_lab.studies.gradient.pool import FOUND_BIASED, OF_RATIOS, GradientRow, is_oracle

if TYPE_CHECKING:
    from maxk_lab.sweeps.spec.figures import Figure as Declared

_NAMED = 6


def over_least(page: Sequence[GradientRow], shown: Sequence[GradientRow], values: Values) -> str:
    """The caption of variances over the least: who has it how often, and who how much more."""
    least = [row for row in page if row.key in values and row.over_least is None]
    least = [row for row in least if row.catalogued_unbiased and not is_oracle(row)]
    often = Counter(line_names(page)[line_of(row)] for row in least).most_common()
    sure = sum(row.best for row in page)
    most = max(
        (row for row in page if row.key in values and row.catalogued_unbiased),
        key=lambda row: values[row.key].value,
    )
    names = listed([f"that of {name} in {count}" for name, count in often], 4)
    notes = [
        "1: the least itself",
        "ring: told apart from all others, corrected for all comparisons" if sure else "",
        "biased: of another gradient, and not better for less variance"
        if any(not row.catalogued_unbiased for row in page)
        else "",
        f"{UNDEFINED}: no such ratio, of all n or of those beside it"
        if any(row.key not in values for row in page)
        else "",
    ]
    measured = f"Here the least measured is {names} of {len(least)} comparisons at one n and K"
    said = [
        "The variance of each method over that of the least unbiased baseline of the same "
        f"estimator, n and K ({'; '.join(filter(None, notes))}).",
        _bars(values[row.key] for row in page if row.key in values),
        f"{measured}, told apart from all others in {sure or 'none'}; the largest of an "
        f"unbiased one is {compact(values[most.key])} times the least, of {_named(most, page)}."
        if least and most.over_least is not None
        else "",
        *_not_shown(page, shown),
    ]
    return _sentences(said)


def relative(page: Sequence[GradientRow], shown: Sequence[GradientRow], values: Values) -> str:
    """The caption of relative variances, where there is no least to compare with."""
    known = [row for row in page if row.key in values]
    least = min(known, key=lambda row: values[row.key].value)
    said = [
        "The variance of an estimate over the squared length of its mean: noise over signal, so "
        "further left is better.",
        _bars(values[row.key] for row in known),
        f"Here the least measured is {compact(values[least.key])}, of {_named(least, page)}.",
        *_not_shown(page, shown),
    ]
    return _sentences(said)


def bias(page: Sequence[GradientRow], shown: Sequence[GradientRow]) -> str:
    """The caption of biases: which methods were found biased, and the scale farthest from 1."""
    names = line_names(page)
    found = dict.fromkeys(
        names[line_of(row)].removesuffix(" (biased)")
        for row in page
        if row.bias.verdict in FOUND_BIASED
    )
    known, sizes = [row for row in page if row.intervals["scale"].known], shown_sizes(page)
    wrong = [row for row in known if row.bias.verdict in FOUND_BIASED]
    verdicts = {row.bias.verdict for row in page}
    words = [text for verdict, text in _VERDICTS.items() if verdict in verdicts]
    said = [
        "The length of the mean estimate along the true gradient (1: right; 0.5: half as long; an "
        "arrow: beyond the axis), in the colour of its verdict, which is corrected for all rows: "
        f"{'; '.join(words)}.",
        _bars(row.intervals["scale"] for row in known)
        if any(row.intervals["scale"].width for row in known)
        else "",
        f"The marks of a line are, from above, of n = {', '.join(map(str, sizes))}."
        if len(sizes) > 1
        else "",
        f"Here a bias was found for {listed(list(found), _NAMED)}: the scale farthest from 1 is "
        f"{_scale(max(wrong, key=_from_one))}, of {_named(max(wrong, key=_from_one), page)}."
        if wrong
        else "Here no bias was found.",
        *_not_shown(page, shown),
    ]
    return _sentences(said)


_VERDICTS = {
    "unbiased": "unbiased (every group was enumerated)",
    "no bias seen": "no bias seen (it may be too small to see)",
    "scale bias": "scale bias (too short or too long)",
    "biased": "biased (in direction, too)",
    "alarm": "alarm (rejected although unbiased by proof)",
    "reference": "reference (the others are judged against it)",
    "undefined": "undefined (nothing could be tested)",
}


def heat_map(page: Sequence[GradientRow]) -> str:
    """The caption of the heat map: who has the least of a column as measured, how often."""
    columns = grouped(filter(may_be_best, page), lambda row: (place_of(row), row.key.k, row.key.n))
    least = [
        min(rows, key=lambda row: row.intervals["relative_variance"].value)
        for rows in columns.values()
        if len(rows) > 1
    ]
    often = Counter(line_names(page)[line_of(row)] for row in least).most_common()
    biased = any(row.bias.verdict in FOUND_BIASED or not row.catalogued_unbiased for row in page)
    said = [
        "A number is the variance of an estimate over the squared length of its mean: noise over "
        "signal, so lower is better; ᵇ: found biased; —: no finite interval.",
        "The colour says how many times the least of the unbiased in its column that is; columns "
        "of different K have different objectives.",
        "Biased ones are grey: theirs is the variance of another gradient." if biased else "",
        f"Here the least measured of its column is {listed(each, _NAMED)} of {len(least)}; which "
        "are told apart from the next, the stars of the tables say."
        if (each := [f"that of {name} in {count}" for name, count in often])
        else "",
    ]
    return _sentences(said)


def anatomy(page: Sequence[GradientRow], shown: Sequence[GradientRow]) -> str:
    """The caption of the parts of variances: the largest variance beside the least."""
    fair = [row for row in page if row.catalogued_unbiased] or page
    most = max(fair, key=lambda row: _or_nothing(multiple(row, page)))
    what = "most of an unbiased one" if len(fair) < len(page) else "most"
    times = multiple(most, page)
    several = len({row.key.method.objective.name for row in page}) > 1
    said = [
        f"The parts that sum to the variance at n = {page[0].key.n}, in multiples of the least of "
        f"an unbiased method beside it{' with the same objective' if several else ''}; parts left "
        "of zero lower it, and a bar that is cut has its number inside.",
        "Exact for these instances, so without intervals.",
        f"Here the {what} is {number(times)} times the least, of {_named(most, page)}."
        if math.isfinite(times)
        else "",
        *_not_shown(page, shown),
    ]
    return _sentences(said)


def declared(rows: Sequence[GradientRow], figure: Declared) -> str:
    """The caption of a figure of the sweep file: the ends at the last value of its axis."""
    known = drawable(rows, figure)
    lines = lines_of(rows, figure)
    last = max(float(value_of(row, figure.against)) for row in known)
    ends = [row for row in known if float(value_of(row, figure.against)) == last]
    ends = [row for row in ends if not is_rounding(row, figure)] or ends
    fair = [row for row in ends if row.catalogued_unbiased]
    measure = MEASURES.get(figure.metric)
    # What is smaller for a bias is no better; a measure of the bias itself is about these.
    aside = not (measure.judged or figure.metric in OF_RATIOS) and 0 < len(fair) < len(ends)
    ends = fair if aside else ends
    low, high = (pick(ends, key=lambda row: value_in(row, figure).value) for pick in (min, max))

    def end(row: GradientRow) -> str:
        found = value_in(row, figure)
        value = compact(found) if found.known else exact(found.value)
        axes = [*figure.lines, *([] if figure.panels is None else [figure.panels])]
        axes = [axis for axis in axes if len({value_of(one, axis) for one in known}) > 1]
        where = ", ".join(told(axis, value_of(row, axis)) for axis in axes)
        return f"{value} ({where})" if where else value

    found = [value_in(row, figure) for row in known]
    it = "that of the others" if any(is_rounding(row, figure) for row in known) else "it"
    it = "that of the unbiased ones" if aside else it
    said = [
        f"{measure.heading[0].upper()}{measure.heading[1:]}: {measure.meaning}.",
        _bars(found) if any(one.known for one in found) else "",
        "Dashed lines were derived biased." if any(not line.unbiased for line in lines) else "",
        "In grey the lines of the other panels." if len(lines) > MOST else "",
        "At the lower edge: unbiased, by enumeration."
        if any(is_rounding(row, figure) for row in known)
        else "",
        f"Here, at {told(figure.against, last)}, {it} is from {end(low)} to {end(high)}.",
    ]
    return _sentences(said)


def _sentences(said: Iterable[str]) -> str:
    return " ".join(filter(None, said))


def _bars(intervals: Iterable[Interval]) -> str:
    found = [one for one in intervals if one.known]
    return f"Bars are {found[0].level:.0%} intervals {about(found)}."


def _named(row: GradientRow, page: Sequence[GradientRow]) -> str:
    """`centred at K = 4, n = 16, after 200 steps`."""
    name = line_names(page)[line_of(row)].removesuffix(" (biased)")
    parts = (f"K = {row.key.k}", f"n = {row.key.n}", place_words(place_of(row), page))
    return f"{name} at {', '.join(filter(None, parts))}"


def _from_one(row: GradientRow) -> float:
    return abs(row.intervals["scale"].value - 1)


def _scale(row: GradientRow) -> str:
    found = row.intervals["scale"]
    return compact(found) if found.width else number(found.value)


def _or_nothing(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _not_shown(page: Sequence[GradientRow], shown: Sequence[GradientRow]) -> list[str]:
    """The sentences about what is in the tables alone."""
    sizes, places = {row.key.n for row in page}, {place_of(row) for row in shown}
    few = shown_sizes(page)
    return [
        f"Of {len(sizes)} values of n, {len(few)} are shown." if len(few) < len(sizes) else "",
        f"The first {PAGED} of {len(places)} settings have figures." if len(places) > PAGED else "",
    ]
