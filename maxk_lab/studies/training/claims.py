"""Verdicts on claims about trained policies: the difference of their final values."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.report.verdicts import Judged, shown, strict_side, together
from maxk_lab.studies.training.row.comparison import difference
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.sweeps.spec.claims.shapes import DifferenceClaim


def judge(
    claim: DifferenceClaim, met: Sequence[tuple[TrainingRow, TrainingRow]], alpha: float
) -> Judged:
    """Judge each paired difference by its interval over seeds, which must exclude the bound.

    With the decoding `best` it is that of both at their own best temperature. Several are each
    judged at a level that makes up for their number (Bonferroni). One seed leaves it undecided: its
    interval is over instances and knows nothing of other runs.
    """
    level = 1 - alpha / len(met)
    verdicts: list[Judged] = []
    for row, partner in met:
        pair = f"{row.key.path} minus {partner.key.path}"
        mine, theirs = (
            (row, partner) if claim.decoding == "sampled" else (row.tempered, partner.tempered)
        )
        if mine is None or theirs is None:
            verdicts.append(("undecided", f"{pair}: no temperature was chosen for each policy"))
            continue
        found = difference(mine, theirs, claim.at_k, level)
        text = f"{pair}: {shown(found)}"
        if row.one_seed:
            verdicts.append(("undecided", f"{text}, of one seed: another may end differently"))
        else:
            verdict = strict_side(found, claim.at_least, claim.at_most)
            words = f"{text} over {len(row.cells)} seeds, at {100 * level:.4g} %"
            apart = {each.seed for each in (*mine.apart, *theirs.apart)}
            if apart:
                words += f"; seed {', '.join(map(str, sorted(apart)))} ended apart from the others"
            verdicts.append((verdict, words))
    return together(verdicts, "differences")
