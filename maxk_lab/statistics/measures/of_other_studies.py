"""The measures of studies of weights and of objectives."""

from __future__ import annotations

from maxk_lab.statistics.measures.row import MeasureRow

OF_WEIGHTS = [
    MeasureRow(
        name="zero_share",
        meaning="the share of the weights that are zero",
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
        meaning="the sum of the weights of a group, mean over groups",
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
        meaning="the smallest weight",
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
        meaning="the standard deviation of all weights",
        implementation="maxk_lab.studies.weights.measures:weight_std",
        study="weights",
        source="cell",
        heading="std",
        unit="reward",
        group="weights",
        claims=(),
    ),
]

OF_OBJECTIVES = [
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
        meaning="the objective at the optimum",
        study="objective",
        source="cell",
        heading="value there",
        unit="reward",
        group="optimum",
        claims=(),
    ),
]
