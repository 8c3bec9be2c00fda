"""A seed that ended apart from the others, and the statements that need no bell shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import scipy

# How often one of several normal seeds is named by chance.
FALSE_ALARM = 0.05


def outlying(values: Sequence[float], noise: float = 0.0, alpha: float = FALSE_ALARM) -> int | None:
    """The number of the seed that ended apart from the others, or None (Grubbs 1950).

    Its distance from the mean of the others, in units of their spread, has Student's t with S − 2
    degrees of freedom, corrected for the choice among S. `noise` is the spread that the instances
    of a seed explain already: that of the others counts as no less, or among shares that are
    nearly all 1 every other one would be called apart. None of two seeds is apart.
    """
    found = np.asarray(values, dtype=float)
    if len(found) < 3 or np.isnan(found).any():
        return None
    which = int(np.abs(found - found.mean()).argmax())
    others = np.delete(found, which)
    spread = max(float(others.std(ddof=1)), noise)
    away = abs(float(found[which] - others.mean()))
    if away <= 1e-9 * float(np.abs(found).max()):
        return None
    t = away / spread / math.sqrt(len(found) / len(others)) if spread > 0 else math.inf
    p_value = 2 * len(found) * float(scipy.special.stdtr(len(others) - 1, -t))
    return which if p_value < alpha else None


@cache
def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided p-value of so many wins and losses where both were as likely."""
    from scipy import stats

    if wins + losses == 0:
        return 1.0
    return float(stats.binomtest(wins, wins + losses).pvalue)
