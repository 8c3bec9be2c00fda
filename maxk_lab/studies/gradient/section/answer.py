"""The answer of a gradient study in sentences, each no stronger than the records behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.report.model import Summary
from maxk_lab.report.naming import listed
from maxk_lab.report.tables import grouped
from maxk_lab.studies.gradient.row.contests import Contest, contests
from maxk_lab.studies.gradient.row.model import GradientRow, ProxyRow
from maxk_lab.studies.gradient.section.across import Across, across_sentence
from maxk_lab.studies.gradient.section.bias import bias_sentences
from maxk_lab.studies.gradient.section.distances import from_best, how_much, stand_ins
from maxk_lab.studies.gradient.section.focus import Focus
from maxk_lab.studies.gradient.section.harm import worse_than_none
from maxk_lab.studies.gradient.section.least import headline, how_far
from maxk_lab.studies.gradient.section.trends import trends
from maxk_lab.studies.gradient.section.words import Words, counted, joined, method, varied

_LISTED = 3


def answer(
    rows: Sequence[GradientRow],
    at: Focus,
    words: Words,
    met: Sequence[Across],
    proxies: Sequence[ProxyRow],
    summary: Summary,
) -> tuple[str, ...]:
    """The headline and what goes with it; of rows without results alone, how many there are.

    `met` are the comparisons between estimators, `proxies` those of weights that stand in.
    """
    found = contests(rows)
    if not any(row.units is not None for row in rows):
        return (*_missing(rows, found, summary), *_without_signal(rows, found))
    return tuple(filter(None, _sentences(rows, found, at, words, met, proxies, summary)))


def _sentences(
    rows: Sequence[GradientRow],
    found: Sequence[Contest],
    at: Focus,
    words: Words,
    met: Sequence[Across],
    proxies: Sequence[ProxyRow],
    summary: Summary,
) -> Iterator[str]:
    varying = trends(rows, words, alone=not found, alpha=summary.alpha)
    yield from _missing(rows, found, summary)
    yield from _without_signal(rows, found)
    if found:
        yield from headline(found, words)
    else:
        yield _no_choice(rows)
        yield from varying
    yield from how_far(found)
    yield how_much([one for one in found if at.has(one.first)], words)
    yield across_sentence(met)
    yield from_best([row for row in rows if at.has(row)], words)
    yield worse_than_none(found, at, words, level=summary.level, alpha=summary.alpha)
    yield stand_ins(proxies, rows)
    yield from bias_sentences(rows, words)
    if found:
        yield from varying
    yield _one_seed(rows)


def _no_choice(rows: Sequence[GradientRow]) -> str:
    """The headline where there are no baselines to choose from."""
    if not any(row.catalogued_unbiased for row in rows):
        return (
            "Every method here is derived biased: their variances are those of different "
            "gradients, and none is said to have the least."
        )
    methods = dict.fromkeys(method(row, estimator=True) for row in rows)
    if len(methods) > 1:
        return (
            "No two unbiased baselines of one estimator stand at the same size: there is no "
            "choice between baselines."
        )
    names = varied(rows)
    what = f": what varies is {joined(names)}" if names else ""
    return f"One method ({next(iter(methods))}), and so no choice{what}."


def _one_seed(rows: Sequence[GradientRow]) -> str:
    """The limit of a sweep of one seed."""
    if any(len(row.cells) > 1 for row in rows):
        return ""
    return "All of this is of one seed: one draw of the instances, and of the policy's parameters."


def _missing(
    rows: Sequence[GradientRow], found: Sequence[Contest], summary: Summary
) -> Iterator[str]:
    """The rows without a result, of which nothing is said, and what they leave open."""
    missing = [row for row in rows if not row.all_finished]
    if not missing:
        return
    named = listed([row.key.path for row in missing], _LISTED)
    sentence = (
        f"Not finished ({summary.counts}): {len(missing)} of {len(rows)} rows lack results "
        f"({named}); nothing is said of them"
    )
    if waiting := sum(one.unfinished for one in found):
        points = counted(waiting, "point")
        where = f"any of the {points}" if waiting == len(found) > 1 else f"the {points}"
        sentence += f", nor of who is least at {where} of the grid where they could be"
    if begun := sum(bool(row.finished) for row in missing):
        sentence += f"; {begun} of them have results of some seeds, which are no average over all"
    if summary.counts.failed:
        sentence += "; why cells failed stands below, with what is without a result"
    yield f"{sentence}."


def _without_signal(rows: Sequence[GradientRow], found: Sequence[Contest]) -> Iterator[str]:
    """The rows whose groups show no variance, why, and which comparisons they leave open."""
    for reason, members in grouped(rows, lambda row: row.no_signal).items():
        if not reason:
            continue
        named = listed([row.key.path for row in members], _LISTED)
        open_points = sum(any(row.no_signal == reason for row in one.rows) for one in found)
        at = f" at {counted(open_points, 'point')} of the grid" if open_points else ""
        yield (
            f"{reason[0].upper()}{reason[1:]} in {len(members)} of {len(rows)} rows ({named}). "
            f"Their variance and bias are undefined, and no lowest variance is named{at}: measure "
            "with a larger pool, or on a harder task."
        )
