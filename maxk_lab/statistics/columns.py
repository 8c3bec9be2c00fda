"""The columns of reports that combine several records: meaning, table, unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache


@dataclass(frozen=True)
class Described:
    """A column of a report: its meaning, unit, better side, and the `group` of its table.

    A column without `group` is in CSV and JSON only. `words` is True for a column of text.
    """

    name: str
    meaning: str
    group: str = ""
    unit: str = "1"
    better: str = ""
    words: bool = False

    @property
    def heading(self) -> str:
        """The name in tables."""
        return self.name.replace("_", " ")


# Tables, each with the unit and the better side of its numbers, and its columns. A column is a
# pattern of names (for trainings with a K or a decoding) and a meaning.
_TABLES: Sequence[tuple[str, str, str, Sequence[tuple[str, str]]]] = (
    (
        *("", "", ""),
        (
            ("instances", "the problems or prompts of each seed"),
            ("pool", "the sampled trajectories of each instance"),
            ("steps", "the optimisation steps of the training"),
            ("rollouts", "the sampled trajectories of the training"),
            ("effective_instances_gradient", "how many instances carry the mean of ‖∇J‖²"),
        ),
    ),
    (
        *("variance", "1", "lower"),
        (
            (
                "verdict",
                "lowest (significantly lower variance than all other unbiased baselines at the "
                "same n and K), tied (not significantly higher than the lowest) or worse",
            ),
            ("median_relative_variance", "the median over instances of the relative variance"),
            ("effective_instances_variance", "how many instances carry the mean of the variance"),
        ),
    ),
    (
        *("variance relative to the lowest", "1", "lower"),
        (
            (
                "over_lowest",
                "the mean variance over that of the unbiased baseline of lowest variance, paired "
                "by instance, not corrected",
            ),
            ("median_over_lowest", "the median over instances of the same ratio"),
            ("lower_on", "the instances with less variance than the lowest baseline"),
            (
                "over_optimum",
                "the variance over that of joint_optimum, the best symmetric leave-one-out "
                "baseline",
            ),
        ),
    ),
    (
        *("bias", "1", "lower"),
        (
            ("bias", "unbiased (proved), not proved or biased: by formula and by measurement"),
            ("bias_test", "proved by enumeration, or by a test that is corrected over all rows"),
            ("bias_p", "the p-value of the test of bias, Holm over all rows"),
            ("bias_at_most", "the upper bound of ‖E ĝ − ∇J‖ / ‖∇J‖ on the fixed instances"),
            (
                "detectable_bias",
                "the smallest bias along ∇J, over ‖∇J‖, that the test detects with 80 % power",
            ),
        ),
    ),
    (
        *("trajectory weights", "1", ""),
        (
            (
                "correlation",
                "with ‖ψ‖² over the trajectories of an instance, ψ = ∇ log π; mean over instances",
            ),
            ("instances_without", "the instances on which the weight or ‖ψ‖² does not vary"),
        ),
    ),
    (
        *("best of K samples after training", "reward", "higher"),
        (
            (r"max@(\d+)", "the expected best reward of K samples on held-out instances"),
            ("best_at", "the K at which no method is significantly better"),
        ),
    ),
    (
        *("difference to the reference", "reward", "higher"),
        (
            (
                r"difference@(\d+)",
                "max@K minus that of the reference, paired; positive is better; not corrected",
            ),
            ("better_at", "the K at which it is significantly better, corrected"),
            ("worse_at", "the K at which it is significantly worse, corrected"),
        ),
    ),
    (
        *("optimality gap", "% of the optimum", "lower"),
        (
            (r"gap@\d+_(.+)", "of the best of all samples at temperature T"),
            (r"gap@(\d+)", "(optimum − max@K) / |optimum| of an instance, mean"),
            (r"gap_(.+)", "of another way of decoding"),
        ),
    ),
    (
        *("other ways of decoding", "reward", "higher"),
        (
            (r"max@\d+_(.+)", "the expected best of all samples at temperature T"),
            (r"extra_(.+)", "the mean reward in this way, no estimate of Max@K"),
        ),
    ),
    (
        *("difference in each way of decoding", "reward", "higher"),
        ((r"difference_(.+)", "minus the reference, both decoded in the same way"),),
    ),
    (
        *("each policy at its best temperature", "reward", "higher"),
        (
            (
                r"own_temperature_max@(\d+)",
                "max@K at the temperature that is best on tuning instances",
            ),
            (r"own_temperature_difference@(\d+)", "difference to the reference"),
        ),
    ),
    (
        *("optimality gap, each policy at its best temperature", "% of the optimum", "lower"),
        ((r"own_temperature_gap@(\d+)", "(optimum − max@K) / |optimum| of an instance, mean"),),
    ),
    (
        *("Max@K over forced starts", "reward", "higher"),
        (
            (
                r"forced_max@(\d+)",
                "J_K^starts of as many starts as samples, the mean over their K-subsets of E[max]",
            ),
            (r"forced_difference@(\d+)", "difference to the reference"),
        ),
    ),
)
_WORDS = ("verdict", "bias", "bias_test", "best_at", "better_at", "worse_at")
_OTHER_UNITS = {
    "instances": "instances",
    "pool": "trajectories",
    "steps": "steps",
    "rollouts": "trajectories",
    "effective_instances_gradient": "instances",
    "effective_instances_variance": "instances",
    "lower_on": "instances",
    "instances_without": "instances",
}
_COLUMNS = tuple(
    Described(name, meaning, group, _OTHER_UNITS.get(name, unit), better, name in _WORDS)
    for group, unit, better, columns in _TABLES
    for name, meaning in columns
)


@cache
def column(name: str) -> Described | None:
    """Return the column of this name; None if no report has it."""
    for described in _COLUMNS:
        if re.fullmatch(described.name, name):
            return replace(described, name=name)
    return None
