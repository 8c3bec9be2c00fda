"""Measures of another package: a function and a row each, of every source that has one."""

from maxk_lab.statistics.measures import MeasureRow


def noise_share(m2, mean_square, inner, truth):
    """The share of E‖ĝ‖² that is variance."""
    return (m2 - mean_square) / m2


def largest_share(groups):
    """The largest |w| of a group over Σ|w|; NaN where all are zero."""
    size = groups.weights.abs()
    return size.amax(-1) / size.sum(-1)


def agreeing(groups):
    """Whether the sample of the largest reward has the largest weight."""
    return groups.weights.argmax(-1) == groups.rewards.argmax(-1)


def weight_max(weights):
    """The largest weight of all groups."""
    return float(weights.max())


NOISE_SHARE = MeasureRow(
    name="noise_share",
    meaning="tr Cov ĝ / E‖ĝ‖²",
    implementation="shop_measures:noise_share",
    heading="noise share",
    unit="1",
    group="variance",
)
LARGEST_SHARE = MeasureRow(
    name="largest_share",
    meaning="E[max |w| / Σ|w|] over groups that are not dead",
    implementation="shop_measures:largest_share",
    source="groups",
    heading="largest share",
    unit="1",
    group="weights",
)
AGREEING = MeasureRow(
    name="agreeing",
    meaning="P(the best sample has the largest weight)",
    implementation="shop_measures:agreeing",
    source="groups",
    heading="agreeing",
    unit="1",
    group="weights",
    rate=True,
)
WEIGHT_MAX = MeasureRow(
    name="weight_max",
    meaning="the largest",
    implementation="shop_measures:weight_max",
    study="weights",
    source="cell",
    heading="max",
    unit="reward",
    group="weights",
    claims=("equals",),
)
