"""The columns of training studies, whose names hold a K or a way of decoding."""

from __future__ import annotations

import re
from typing import NamedTuple

from maxk_lab.statistics.measures.row import Described

_MAX = "best of K samples after training"
_DIFFERENCE = "difference to the reference"
_GAP = "optimality gap in per cent"
_WAYS = "other ways of decoding"
_BY_WAY = "difference in each way of decoding"
_OWN = "each policy at its best temperature"
_OWN_WAY = "each policy in its best way of decoding"
_SAMPLES = "quantiles of single samples"
_ROBUST = "without the mean"


class _Pattern(NamedTuple):
    """Names that match, their heading (with the parts of the name), meaning and table."""

    name: str
    heading: str
    meaning: str
    group: str = ""
    words: bool = False
    first: bool = False


_PATTERNS = (
    _Pattern(r"max@\d+_(.+)", "{0}", "the expected best of all samples at temperature T", _WAYS),
    _Pattern(
        r"max@(\d+)",
        "K = {0}",
        "the expected best reward of K samples on held-out instances",
        _MAX,
        first=True,
    ),
    _Pattern(
        r"difference@(\d+)",
        "K = {0}",
        "minus that of the reference, paired; positive is better; each interval alone",
        _DIFFERENCE,
        first=True,
    ),
    _Pattern("better_at", "better at K", "significant after correction", _DIFFERENCE, words=True),
    _Pattern("worse_at", "worse at K", "significant after correction", _DIFFERENCE, words=True),
    _Pattern(
        "best_at", "best or tied at K", "no other is significantly better there", _MAX, words=True
    ),
    _Pattern("derived", "gradient", "by formula and settings", _MAX, words=True, first=True),
    _Pattern(r"gap@\d+_(.+)", "{0}", "best of all samples at temperature T", _GAP),
    _Pattern(r"gap@(\d+)", "K = {0}", "(optimum − value) / |optimum| of an instance, mean", _GAP),
    _Pattern(r"gap_(.+)", "{0}", "the same of another way of decoding", _GAP),
    _Pattern(r"extra_(.+)", "{0}", "the mean reward in this way, no estimate of Max@K", _WAYS),
    _Pattern(
        r"difference_(.+)", "{0}", "minus the reference, both decoded in the same way", _BY_WAY
    ),
    _Pattern(
        r"own_temperature_max@(\d+)",
        "K = {0}",
        "Max@K at the temperature that is best for a policy on tuning instances",
        _OWN,
    ),
    _Pattern(r"own_temperature_difference@(\d+)", "difference, K = {0}", "to the reference", _OWN),
    _Pattern("own_way_reward", "reward", "in the way that is best on tuning instances", _OWN_WAY),
    _Pattern("own_way_difference", "difference", "to the reference in its own best way", _OWN_WAY),
    _Pattern("own_way_gap", "gap", "the optimality gap in per cent", _OWN_WAY),
    _Pattern("own_way", "way", "that is best on tuning instances", _OWN_WAY, words=True),
    _Pattern(r"sample_p(\d+)", "{0} %", "quantile of rewards, mean over instances", _SAMPLES),
    _Pattern("iqm", "IQM", "the mean of the middle half of the instances", _ROBUST),
    _Pattern(
        "improvement",
        "P(better)",
        "the probability of a better value than the reference on an instance of a seed, ties half",
        _ROBUST,
    ),
    _Pattern(r"instance_p(\d+)", "{0} %", "quantile over instances", _ROBUST),
    _Pattern("robust_of", "of", "what this table is made of, at all samples", _ROBUST, words=True),
    _Pattern("steps", "", "optimisation steps of the training"),
    _Pattern("rollouts", "", "trajectories that were sampled in training"),
    _Pattern("reference", "", "the row that this one is compared with"),
    _Pattern("bent_by", "", "the settings that bias the gradient, whichever the estimator"),
    _Pattern("seeds_apart", "", "seeds whose training ended far from the others (Grubbs' test)"),
    _Pattern("optima_by", "", "where the best rewards come from that gaps are measured from"),
    _Pattern("optima_exact", "", "whether these are proven optimal, or the best known"),
    _Pattern(r"won@(\d+)", "", "the seeds in which the row is ahead of its reference"),
    _Pattern(r"lost@(\d+)", "", "the seeds in which it is behind"),
    _Pattern(r"p@(\d+)", "", "the p-value of this difference, alone"),
)


def of_training(name: str) -> Described | None:
    """Return the column of this name; None where no training study has one."""
    for one in _PATTERNS:
        if found := re.fullmatch(one.name, name):
            heading = one.heading.format(*(part.replace("_", " ") for part in found.groups()))
            return Described(
                name, heading, one.meaning, one.group, words=one.words, first=one.first
            )
    return None
