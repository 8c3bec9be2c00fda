"""The table of measures: the numbers of a finished record, with one name everywhere.

The name of a row is the key in a record, the metric of a claim or a figure, the column in CSV and
JSON, and the last word of the name at Weights & Biases. The heading is the column in tables. This
module does not import numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, SHARES, Range
from maxk_lab.statistics.columns import Described as Described
from maxk_lab.statistics.columns import column

# An interval is about the measured instances, whose trajectories are random, or about new ones.
Question = Literal["fixed instances", "new instances"]
FIXED: Question = "fixed instances"
NEW: Question = "new instances"
Source = Literal["moments", "groups", "units", "cell"]
# The better side of a number; empty if neither side is better.
Better = Literal["", "lower", "higher"]
# Groups of an instance that a test of bias needs: one in the first half, two in the second.
LEAST_GROUPS = 3
# Tuned: the least number of instances or single groups for a spread. Intervals of means of
# log-normal(1.5) values cover 91 % with 12 values and 94 % with 16. A detectable bias is found in
# 69 % to 86 % with 16 groups.
LEAST_SAMPLE = 16
_LACKING = "is measured with a behaviour policy only: give gradient.behaviour a distance above 0"


@dataclass(frozen=True, kw_only=True)
class MeasureRow(Row):
    """A measure of the cells of one kind of study; `meaning` is its formula.

    | source  | in a record                 | `implementation`                                    |
    |---------|-----------------------------|-----------------------------------------------------|
    | moments | the value                   | m2, mean_square, inner, truth of `Units` → the value|
    | groups  | the value, one per unit too | `WeightedGroups` → a number or event of each group  |
    | units   | the value, one per unit too | none: the worker computes it with other numbers     |
    | cell    | the value                   | takes what the worker of its study has, or none     |

    `group` names the table of the report with the measure's column. A measure without `group` is in
    CSV and JSON only. A measure with `needs` exists only in cells with these settings.
    """

    implementation: str = ""
    study: str = "gradient"
    source: Source = "moments"
    heading: str = ""
    unit: str = ""
    better: Better = ""
    group: str = ""
    # The kinds of claims and the ratios in figures that may use the measure.
    claims: tuple[str, ...] = ("equals", "order", "ratio")
    needs: Literal["", "behaviour"] = ""
    # For `moments`: the divisors, and whether the measure uses ∇J.
    divides_by: tuple[str, ...] = ()
    judged: bool = False
    inverse_of: str = ""
    # The value in cells that lack what the measure needs.
    on_policy: float = 0.0
    # Whether the measure is a share of groups: at 0 or 1, its interval is that of a count.
    rate: bool = False
    # The question that the interval answers, and the range of values.
    question: Question = NEW
    range: Range = ANYWHERE
    # How the value of a row follows from the values of its seeds.
    pooled: Literal["mean", "least"] = "mean"

    @property
    def per_unit(self) -> bool:
        """Whether every resampling unit has a number, and the measure is their mean."""
        return self.source in ("groups", "units")

    def measured(self, *, off_policy: bool) -> bool:
        """Return whether the cells of a study have the measure."""
        return off_policy or not self.needs

    @property
    def not_measured(self) -> str:
        """The message for a study without the measure: the setting that would measure it."""
        return f"{self.name} {_LACKING}"


_NORM = "the squared norm of a gradient"


def _row(
    name: str,
    meaning: str,
    heading: str = "",
    unit: str = "1",
    implementation: str = "",
    **more: Any,
) -> MeasureRow:
    """Return a row; positional arguments are name, formula, heading, unit and implementation."""
    return MeasureRow(
        name=name,
        meaning=meaning,
        heading=heading,
        unit=unit,
        implementation=implementation and f"maxk_lab.{implementation}",
        **more,
    )


_variance = partial(_row, group="variance", range=NOT_NEGATIVE)
_fixed = partial(_row, question=FIXED)
_weights = partial(_row, source="groups", group="weights", range=SHARES)
_ratios = partial(_row, source="units", group="ratios", needs="behaviour", range=NOT_NEGATIVE)
_of_weights = partial(_row, study="weights", source="cell", group="weights", claims=("equals",))
_optimum = partial(_row, study="objective", source="cell", group="optimum")

_ROWS = [
    _row(
        "objective",
        "J, or the mean of its unbiased estimate ρ̂ over groups",
        unit="reward",
        source="units",
        claims=(),
    ),
    _row(
        "value",
        "J, or the mean of its unbiased estimate ρ̂ over groups and units",
        unit="reward",
        source="cell",
        claims=(),
    ),
    _row(
        "effective_instances",
        "(Σ‖∇J‖²)² / Σ‖∇J‖⁴ over instances: how many carry the mean",
        unit="instances",
        source="cell",
        claims=(),
    ),
    _variance(
        *("variance", "tr Cov ĝ = E‖ĝ‖² − ‖E ĝ‖²"),
        *("variance", _NORM, "statistics.moments:variance"),
        better="lower",
    ),
    _variance(
        *("relative_variance", "tr Cov ĝ / ‖E ĝ‖²", "relative variance", "1"),
        better="lower",
        divides_by=("mean_square",),
        inverse_of="snr",
    ),
    _variance(
        *("snr", "‖E ĝ‖² / tr Cov ĝ", "SNR", "1", "statistics.moments:snr"),
        better="higher",
        divides_by=("variance",),
    ),
    _fixed(
        *("mean_square", "‖E ĝ‖²", "", _NORM, "statistics.moments:mean_square"),
        claims=(),
        range=NOT_NEGATIVE,
    ),
    _fixed(
        *("squared_bias", "‖E ĝ − ∇J‖²"),
        *("squared bias", _NORM, "statistics.moments:squared_bias"),
        better="lower",
        judged=True,
        range=NOT_NEGATIVE,
    ),
    _fixed(
        *("scale", "⟨E ĝ, ∇J⟩ / ‖∇J‖²", "scale", "1", "statistics.moments:scale"),
        group="bias",
        divides_by=("truth",),
        judged=True,
    ),
    _fixed(
        *("cosine", "⟨E ĝ, ∇J⟩ / (‖E ĝ‖ ‖∇J‖)"),
        *("cosine", "1", "statistics.moments:cosine"),
        better="higher",
        group="bias",
        divides_by=("truth", "mean_square"),
        judged=True,
        range=Range(-1.0, 1.0),
    ),
    _row(
        *("value_variance", "Var ρ̂ of the objective's unbiased estimate over groups"),
        *("value variance", "reward²"),
        better="lower",
        source="units",
        group="value",
        range=NOT_NEGATIVE,
    ),
    _weights(
        *("dead_gradient_rate", "P(w_1 = … = w_n = 0)"),
        *("dead gradients", "1", "gradients.weighted_groups:dead"),
        better="lower",
        rate=True,
    ),
    _ratios(
        *("effective_sample_size", "E[(Σr)² / Σr²] / n, r the importance ratios"),
        *("ESS / n", "1"),
        better="higher",
        on_policy=1.0,
    ),
    _of_weights(
        *("zero_share", "the share of the weights that are zero", "zero share", "1"),
        implementation="studies.exact.work:zero_share",
    ),
    _of_weights(
        *("weight_sum", "the sum of the weights of a group, mean over groups", "sum", "reward"),
        implementation="studies.exact.work:weight_sum",
    ),
    _of_weights(
        *("weight_min", "the smallest weight", "min", "reward"),
        implementation="studies.exact.work:weight_min",
        pooled="least",
    ),
    _optimum(
        *("optimum", "the parameter at which the objective is largest"),
        *("optimum", "the parameter"),
        claims=("order",),
    ),
    _optimum(
        *("optimum_value", "the objective at the optimum", "value there", "reward"), claims=()
    ),
]
MEASURES: Catalogue[MeasureRow] = Catalogue("measure", _ROWS)


def measures_of(study: str) -> tuple[MeasureRow, ...]:
    """Return the measures of one kind of study."""
    return tuple(row for row in MEASURES if row.study == study)


def described(name: str) -> Described | None:
    """Return the meaning, unit and table of a column of a report; None for an unknown column."""
    if (derived := column(name)) is not None or name not in MEASURES.names():
        return derived
    row = MEASURES.get(name)
    return Described(name, row.meaning, row.group, row.unit, row.better)


def claimable(kind: str) -> tuple[str, ...]:
    """Return the names that a claim of this kind may use."""
    return tuple(row.name for row in MEASURES if kind in row.claims)


def group_names(study: str, *groups: str) -> tuple[str, ...]:
    """Return the names of the measures of a study in these groups, group by group."""
    return tuple(row.name for group in groups for row in measures_of(study) if row.group == group)
