"""The table of measures: the numbers of a finished record, and their names everywhere.

The name of a row is the key in a record, the metric of a claim or a figure, the key in CSV and JSON
and the last word of the name at Weights & Biases; its heading stands in tables. Imports no numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, SHARES, Range

# These stay, and their trajectories are random; or they are random themselves.
Question = Literal["these instances", "instances like these"]
Source = Literal["moments", "groups", "units", "cell"]
ANY_CLAIM = ("equals", "order", "ratio")
_LACKING = {
    "behaviour": "is measured with a behaviour policy only: "
    "give gradient.behaviour a distance above 0",
    "enumeration": "is measured by complete enumeration only: give gradient complete: true",
}


@dataclass(frozen=True, kw_only=True)
class MeasureRow(Row):
    """A measure of the cells of one kind of study; `meaning` is its formula.

    | source  | in a record                 | `implementation`                                    |
    |---------|-----------------------------|-----------------------------------------------------|
    | moments | the value                   | m2, mean_square, inner, truth of `Units` → the value|
    | groups  | the value, one per unit too | `WeightedGroups` → a number or event of each group  |
    | units   | the value, one per unit too | none: the worker counts it with what else it needs  |
    | cell    | the value                   | takes what the worker of its study has, or none     |

    `group` names the table of a report that has its column; without one it is in CSV and JSON only.
    A measure is there in every cell, or only in those that have what it `needs`.
    """

    implementation: str = ""
    study: str = "gradient"
    source: Source = "moments"
    heading: str = ""
    unit: str = ""
    group: str = ""
    # The kinds of claims that may name it; figures take what a ratio may compare.
    claims: tuple[str, ...] = ANY_CLAIM
    tracked: bool = True
    needs: Literal["", "behaviour", "enumeration"] = ""
    # Measures of `moments`: the moments that must be told from zero, and whether it looks at ∇J.
    divides_by: tuple[str, ...] = ()
    judged: bool = False
    inverse_of: str = ""
    # Its value where trajectories are drawn by the policy itself, and it needs another.
    on_policy: float = 0.0
    # The share of groups that are something: if none or all are, its interval is that of a count.
    rate: bool = False
    # The question that its interval answers, and the values that it can have.
    question: Question = "instances like these"
    range: Range = ANYWHERE
    # How the value of a row follows from those of its seeds.
    pooled: Literal["mean", "least"] = "mean"

    @property
    def of_units(self) -> bool:
        """Every resampling unit has a number of its own, and the measure is their mean."""
        return self.source in ("groups", "units")

    def measured(self, *, enumerated: bool, off_policy: bool) -> bool:
        """Whether the cells of a study have it."""
        return {"behaviour": off_policy, "enumeration": enumerated}.get(self.needs, True)

    @property
    def not_measured(self) -> str:
        """The sentence for a study that lacks it: what would measure it."""
        return f"{self.name} {_LACKING[self.needs]}"


_OF_GROUPS = "maxk_lab.gradients.weighted_groups"
_MOMENTS = "maxk_lab.statistics.moments"
_NORM = "the squared norm of a gradient"

_OF_GRADIENT = [
    MeasureRow(
        name="objective",
        meaning="J, or the mean of its unbiased estimate ρ̂ over groups",
        source="units",
        unit="reward",
        claims=(),
        tracked=False,
    ),
    MeasureRow(
        name="value",
        meaning="J, or the mean of its unbiased estimate ρ̂ over groups and units",
        source="cell",
        unit="reward",
        claims=(),
    ),
    MeasureRow(
        name="effective_instances",
        meaning="(Σ‖∇J‖²)² / Σ‖∇J‖⁴ over instances: how many carry the mean",
        source="cell",
        unit="instances",
        claims=(),
    ),
    MeasureRow(
        name="variance",
        meaning="tr Cov ĝ = E‖ĝ‖² − ‖E ĝ‖²",
        implementation=f"{_MOMENTS}:variance",
        heading="variance",
        unit=_NORM,
        group="variance",
        range=NOT_NEGATIVE,
    ),
    MeasureRow(
        name="relative_variance",
        meaning="tr Cov ĝ / ‖E ĝ‖²",
        heading="relative variance",
        unit="1",
        group="variance",
        divides_by=("mean_square",),
        inverse_of="snr",
        range=NOT_NEGATIVE,
    ),
    MeasureRow(
        name="snr",
        meaning="‖E ĝ‖² / tr Cov ĝ",
        implementation=f"{_MOMENTS}:snr",
        heading="SNR",
        unit="1",
        group="variance",
        divides_by=("variance",),
        range=NOT_NEGATIVE,
    ),
    MeasureRow(
        name="mean_square",
        meaning="‖E ĝ‖²",
        implementation=f"{_MOMENTS}:mean_square",
        unit=_NORM,
        claims=(),
        range=NOT_NEGATIVE,
        question="these instances",
    ),
    MeasureRow(
        name="squared_bias",
        meaning="‖E ĝ − ∇J‖²",
        implementation=f"{_MOMENTS}:squared_bias",
        heading="squared bias",
        unit=_NORM,
        judged=True,
        range=NOT_NEGATIVE,
        question="these instances",
    ),
    MeasureRow(
        name="scale",
        meaning="⟨E ĝ, ∇J⟩ / ‖∇J‖²",
        implementation=f"{_MOMENTS}:scale",
        heading="scale",
        unit="1",
        group="bias",
        divides_by=("truth",),
        judged=True,
        question="these instances",
    ),
    MeasureRow(
        name="cosine",
        meaning="⟨E ĝ, ∇J⟩ / (‖E ĝ‖ ‖∇J‖)",
        implementation=f"{_MOMENTS}:cosine",
        heading="cosine",
        unit="1",
        group="bias",
        divides_by=("truth", "mean_square"),
        judged=True,
        range=Range(-1.0, 1.0),
        question="these instances",
    ),
    MeasureRow(
        name="value_variance",
        meaning="Var ρ̂ of the objective's unbiased estimate over groups",
        source="units",
        heading="value variance",
        unit="reward²",
        group="value",
        range=NOT_NEGATIVE,
    ),
    MeasureRow(
        name="dead_gradient_rate",
        meaning="P(w_1 = … = w_n = 0)",
        implementation=f"{_OF_GROUPS}:dead",
        source="groups",
        heading="dead gradients",
        unit="1",
        group="weights",
        rate=True,
        range=SHARES,
    ),
    MeasureRow(
        name="weight_concentration",
        meaning="E[Σw² / (Σ|w|)²] over groups that are not dead",
        implementation=f"{_OF_GROUPS}:concentration",
        source="groups",
        heading="concentration",
        unit="1",
        group="weights",
        range=SHARES,
    ),
    MeasureRow(
        name="effective_sample_size",
        meaning="E[(Σr)² / Σr²] / n, r the importance ratios",
        source="units",
        heading="ESS / n",
        unit="1",
        group="ratios",
        needs="behaviour",
        on_policy=1.0,
        range=NOT_NEGATIVE,
    ),
    MeasureRow(
        name="kl",
        meaning="KL(behaviour ‖ π) = −E log r",
        source="units",
        heading="KL",
        unit="nat",
        group="ratios",
        needs="behaviour",
        range=NOT_NEGATIVE,
    ),
    MeasureRow(
        name="ratio_std",
        meaning="the standard deviation of r",
        source="units",
        heading="std of ratios",
        unit="1",
        group="ratios",
        needs="behaviour",
        range=NOT_NEGATIVE,
    ),
    MeasureRow(
        name="variance_first",
        meaning="n · tr Cov E[ĝ | τ_1], the first Hoeffding term of ĝ",
        source="units",
        heading="first order",
        unit=_NORM,
        group="anatomy",
        needs="enumeration",
        range=NOT_NEGATIVE,
    ),
    MeasureRow(
        name="variance_cross",
        meaning="tr Cov of the higher Hoeffding terms of Σ s_i ψ_i",
        source="units",
        heading="cross terms",
        unit=_NORM,
        group="anatomy",
        needs="enumeration",
        range=NOT_NEGATIVE,
    ),
    MeasureRow(
        name="variance_baseline",
        meaning="tr Cov of the higher Hoeffding terms of Σ b_i ψ_i",
        source="units",
        heading="baseline",
        unit=_NORM,
        group="anatomy",
        needs="enumeration",
        range=NOT_NEGATIVE,
    ),
    MeasureRow(
        name="variance_interaction",
        meaning="−2 tr Cov between these two; the four sum to tr Cov ĝ",
        source="units",
        heading="interaction",
        unit=_NORM,
        group="anatomy",
        needs="enumeration",
    ),
]

_OF_WEIGHTS = [
    MeasureRow(
        name="zero_share",
        meaning="of all weights",
        implementation="maxk_lab.studies.weights.measures:zero_share",
        study="weights",
        source="cell",
        heading="zero share",
        unit="1",
        group="weights",
        claims=("equals",),
    ),
    MeasureRow(
        name="weight_sum",
        meaning="of the weights of a group, mean over groups",
        implementation="maxk_lab.studies.weights.measures:weight_sum",
        study="weights",
        source="cell",
        heading="sum",
        unit="reward",
        group="weights",
        claims=("equals",),
    ),
    MeasureRow(
        name="weight_min",
        meaning="the least",
        implementation="maxk_lab.studies.weights.measures:weight_min",
        study="weights",
        source="cell",
        heading="min",
        unit="reward",
        group="weights",
        claims=("equals",),
        pooled="least",
    ),
    MeasureRow(
        name="weight_std",
        meaning="over all weights",
        implementation="maxk_lab.studies.weights.measures:weight_std",
        study="weights",
        source="cell",
        heading="std",
        unit="reward",
        group="weights",
        claims=(),
    ),
]

_OF_OBJECTIVE = [
    MeasureRow(
        name="optimum",
        meaning="the parameter at which the objective is largest",
        study="objective",
        source="cell",
        heading="optimum",
        unit="the parameter",
        group="optimum",
        claims=("order",),
    ),
    MeasureRow(
        name="optimum_value",
        meaning="the objective there",
        study="objective",
        source="cell",
        heading="value there",
        unit="reward",
        group="optimum",
        claims=(),
    ),
]

MEASURES: Catalogue[MeasureRow] = Catalogue(
    "measure", [*_OF_GRADIENT, *_OF_WEIGHTS, *_OF_OBJECTIVE], "maxk_lab.measures"
)


def measures_of(study: str) -> tuple[MeasureRow, ...]:
    """Return the measures of one kind of study."""
    return tuple(row for row in MEASURES if row.study == study)


def claimable(kind: str) -> tuple[str, ...]:
    """Return the names that a claim of this kind may use."""
    return tuple(row.name for row in MEASURES if kind in row.claims)


def in_group(study: str, *groups: str) -> tuple[str, ...]:
    """Return the names of the measures of a study in these groups, group by group."""
    return tuple(row.name for group in groups for row in measures_of(study) if row.group == group)
