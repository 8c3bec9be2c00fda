"""Rows of a training study compared: for claims, and with those of another run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from maxk_lab.report.claims import Judged, shown, strict_side, together
from maxk_lab.report.tables import Effect, Pooled
from maxk_lab.statistics.families import Comparison
from maxk_lab.studies.training.decoding import in_way
from maxk_lab.studies.training.ending import gap_difference
from maxk_lab.studies.training.pairs import difference, why_not_paired
from maxk_lab.studies.training.places import comparisons, places_of
from maxk_lab.studies.training.row import TrainingRow
from maxk_lab.sweeps.spec.claims import DifferenceClaim


def judged(pooled: Pooled[TrainingRow], *, level: float, alpha: float) -> Pooled[TrainingRow]:
    """The rows with the K at which they are better or worse, or may be the best of their place.

    The level of these families is that of the intervals, whatever `alpha` is for claims.
    """
    verdicts = {}
    for place in places_of(pooled.rows, level):
        best = {k: place.may_be_best(k, len(place.ks)) for k in place.ks} if place.known else {}
        for row in place.rows:
            verdicts[row.key] = {
                "better_at": tuple(place.tested.at(row, 1)),
                "worse_at": tuple(place.tested.at(row, -1)),
                "best_at": tuple(k for k, rows in best.items() if row in rows),
            }
    rows = (replace(row, verdicts=verdicts[row.key]) for row in pooled.rows)
    return replace(pooled, rows=tuple(rows))


def compare(pooled: Pooled[TrainingRow], *, level: float, alpha: float) -> Iterator[Comparison]:
    """The lines of `comparisons`."""
    return comparisons(pooled.rows, level)


def judge(
    claim: DifferenceClaim, met: Sequence[tuple[TrainingRow, TrainingRow]], alpha: float
) -> Judged:
    """Judge each paired difference by its interval over seeds, which must exclude the bound.

    It is that of both policies as they are decoded for the claim. Several are each judged at a
    level that makes up for their number (Bonferroni). One seed leaves it undecided: its
    interval is over instances and knows nothing of other runs.
    """
    level = 1 - alpha / len(met)
    verdicts: list[Judged] = []
    for row, partner in met:
        pair = f"{row.key.path} minus {partner.key.path}"
        mine, theirs = _decoded(claim, row, level), _decoded(claim, partner, level)
        if mine is None or theirs is None:
            verdicts.append(Judged("undecided", f"{pair}: not every policy was decoded so"))
            continue
        found = difference(mine, theirs, claim.at_k, level)
        text = f"{pair}: {shown(found)}"
        if row.one_seed:
            text += ", of one seed: another may end differently"
            verdicts.append(Judged("undecided", text, found))
        else:
            verdict = strict_side(found, claim.at_least, claim.at_most)
            at = f", at {100 * level:.4g} %" if len(met) == 1 else ""
            words = f"{text} over {len(row.cells)} seeds{at}"
            apart = {each.seed for each in (*mine.apart, *theirs.apart)}
            if apart:
                words += f"; seed {', '.join(map(str, sorted(apart)))} ended apart from the others"
            verdicts.append(Judged(verdict, words, found))
    return together(verdicts, "differences", alpha)


def _decoded(claim: DifferenceClaim, row: TrainingRow, level: float) -> TrainingRow | None:
    """The row as it is decoded for the claim; None where it was not."""
    if claim.way is not None:
        return row.own_way if claim.way == "own_way" else in_way(row, claim.way, level)
    return row.tempered if claim.decoding == "best" else row


def effect(row: TrainingRow, other: TrainingRow, name: str, level: float) -> Effect | None:
    """The difference of Max@K, or of its gap, paired by seed; with one seed by instance."""
    kind, _, at = name.partition("@")
    if kind not in ("max", "gap") or not at.isdigit() or why_not_paired(row, other, int(at)):
        return None
    differ = difference if kind == "max" else gap_difference
    paired = "instance" if row.one_seed else "seed"
    return Effect(differ(row, other, int(at), level), paired=paired)
