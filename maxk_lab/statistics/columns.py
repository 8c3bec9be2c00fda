"""Heading and meaning of the columns of reports that follow from several records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache


@dataclass(frozen=True)
class Described:
    """A column of a report: its heading, meaning, and the table, `group`, that it stands in.

    Without a heading it is in CSV and JSON only. `words` says that it holds words, not numbers, and
    `first` that a page shows it at first.
    """

    name: str
    heading: str
    meaning: str
    group: str = ""
    unit: str = ""
    words: bool = False
    first: bool = False


# Table → its columns: a pattern of names (of trainings they hold a K or a way of decoding), the
# heading, with the groups of the pattern, and the meaning.
_TABLES: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "": (
        ("parameter", "", "the parameter of the policy along which the objective is computed"),
        ("pool", "", "the trajectories that were sampled for each instance"),
        ("steps", "", "optimisation steps of the training"),
        ("rollouts", "", "trajectories that were sampled in training"),
        ("reference", "", "the row that this one is compared with"),
        ("bent_by", "", "the settings that bias the gradient, whichever the estimator"),
        ("seeds_apart", "", "seeds whose training ended far from the others (Grubbs' test)"),
        ("optima_by", "", "where the best rewards come from that gaps are measured from"),
        ("optima_exact", "", "whether these are proven optimal, or the best known"),
        (r"won@(\d+)", "", "the seeds in which the row is ahead of its reference"),
        (r"lost@(\d+)", "", "the seeds in which it is behind"),
        (r"p@(\d+)", "", "the p-value of this difference, alone"),
    ),
    "optimum": (("objective", "objective", "what the estimator estimates"),),
    "variance": (
        (
            "best",
            "★",
            "significantly lower variance than all other unbiased baselines at the same n and K",
        ),
        (
            "typical_relative_variance",
            "median over instances",
            "the median over instances of the relative variance",
        ),
        (
            "effective_instances_variance",
            "effective instances",
            "how many instances carry the mean of the variance",
        ),
        ("effective_instances_gradient", "", "how many instances carry the mean of ‖∇J‖²"),
    ),
    "variance relative to the lowest": (
        ("least", "lowest", "the unbiased baseline of lowest variance"),
        (
            "over_least",
            "mean variance",
            "relative to that of the lowest, paired over instances, not corrected",
        ),
        ("typical_over_least", "median over instances", "the median of the same ratio"),
        ("less_on", "lower on", "the instances with less variance than the lowest"),
        ("ties", "", "the instances with the same variance"),
        ("sign_test_p", "", "the p-value of a sign test over these instances"),
        (
            "over_best",
            "relative to the best possible",
            "the variance relative to that of joint_optimum, "
            "the best symmetric leave-one-out baseline",
        ),
    ),
    "bias": (
        (
            "bias_verdict",
            "verdict",
            "proven unbiased by enumeration, or by tests corrected over all rows (Holm)",
        ),
        ("derived_unbiased", "by formula", "whether the estimate is unbiased by its formula"),
        ("bias_p_holm", "adjusted p", "of the test of bias, Holm over all rows"),
        ("relative_bias", "", "‖E ĝ − ∇J‖ / ‖∇J‖ over the instances measured"),
        (
            "relative_bias_at_most",
            "bias at most",
            "the upper end of ‖E ĝ − ∇J‖ / ‖∇J‖ over the instances measured",
        ),
        (
            "detectable",
            "minimum detectable bias",
            "the smallest bias along ∇J, relative to ‖∇J‖, found with 80 % power",
        ),
        ("bias_found_on", "", "the instances whose own test found a bias"),
        ("bias_worst", "", "the largest relative bias among these"),
        ("against", "", "what stands for the true gradient ∇J in the test"),
    ),
    "proxies": (
        ("proxy", "", "a number of a trajectory that is cheap to have"),
        (
            "correlation",
            "correlation with ‖ψ‖²",
            "over the trajectories of an instance, ψ = ∇ log π; mean over instances",
        ),
        (
            "instances_without",
            "",
            "the instances left out, because the proxy or ‖ψ‖² does not vary there",
        ),
    ),
    "best of K samples after training": (
        (r"max@(\d+)", "K = {0}", "the expected best reward of K samples on held-out instances"),
        ("best_at", "best or tied at K", "no other is significantly better there"),
        ("derived", "gradient", "by formula and settings"),
    ),
    "difference to the reference": (
        (
            r"difference@(\d+)",
            "K = {0}",
            "minus that of the reference, paired; positive is better; each interval alone",
        ),
        ("better_at", "better at K", "significant after correction"),
        ("worse_at", "worse at K", "significant after correction"),
    ),
    "optimality gap in per cent": (
        (r"gap@\d+_(.+)", "{0}", "best of all samples at temperature T"),
        (r"gap@(\d+)", "K = {0}", "(optimum − value) / |optimum| of an instance, mean"),
        (r"gap_(.+)", "{0}", "the same of another way of decoding"),
    ),
    "other ways of decoding": (
        (r"max@\d+_(.+)", "{0}", "the expected best of all samples at temperature T"),
        (r"extra_(.+)", "{0}", "the mean reward in this way, no estimate of Max@K"),
    ),
    "difference in each way of decoding": (
        (r"difference_(.+)", "{0}", "minus the reference, both decoded in the same way"),
    ),
    "each policy at its best temperature": (
        (
            r"own_temperature_max@(\d+)",
            "K = {0}",
            "Max@K at the temperature that is best for a policy on tuning instances",
        ),
        (r"own_temperature_difference@(\d+)", "difference, K = {0}", "to the reference"),
    ),
    "Max@K over forced starts": (
        (
            r"forced_max@(\d+)",
            "K = {0}",
            "J_K^starts of as many starts as samples, the mean over their K-subsets of E[max]",
        ),
        (r"forced_difference@(\d+)", "difference, K = {0}", "to the reference"),
    ),
}
_UNITS = {"typical_relative_variance": "1"}
_WORDS = (
    "objective",
    "best",
    "least",
    "bias_verdict",
    "better_at",
    "worse_at",
    "best_at",
    "derived",
)
_FIRST = (
    *("best", "over_least", "bias_verdict", "relative_bias_at_most", "derived"),
    *(r"max@(\d+)", r"difference@(\d+)"),
)
_COLUMNS = tuple(
    Described(*row, table, _UNITS.get(row[0], ""), row[0] in _WORDS, row[0] in _FIRST)
    for table, rows in _TABLES.items()
    for row in rows
)


@cache
def column(name: str) -> Described | None:
    """Return the column of this name; None where it is that of no report."""
    for one in _COLUMNS:
        if match := re.fullmatch(one.name, name):
            parts = (part.replace("_", " ") for part in match.groups())
            return replace(one, name=name, heading=one.heading.format(*parts))
    return None
