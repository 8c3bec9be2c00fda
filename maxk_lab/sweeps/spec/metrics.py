"""The numbers of finished cells that claims and figures may name, by study. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated

from pydantic import AfterValidator

from maxk_lab.catalogue import did_you_mean

# Only where the trajectories are drawn from a behaviour policy.
BEHAVIOUR_METRICS = ("effective_sample_size", "kl", "ratio_std")
# Only where every group of trajectories is enumerated.
ANATOMY_METRICS = ("variance_first", "variance_cross", "variance_baseline", "variance_interaction")
GRADIENT_METRICS = (
    "variance",
    "relative_variance",
    "snr",
    "squared_bias",
    "scale",
    "cosine",
    "value_variance",
    "dead_gradient_rate",
    "weight_concentration",
    *BEHAVIOUR_METRICS,
    *ANATOMY_METRICS,
)
OBJECTIVE_METRICS = ("optimum",)
WEIGHTS_METRICS = ("weight_sum", "weight_min", "zero_share")


def study_of(metric: str) -> str:
    """The study whose cells have this number."""
    if metric in OBJECTIVE_METRICS:
        return "objective"
    return "weights" if metric in WEIGHTS_METRICS else "gradient"


def not_measured(metric: str) -> str:
    """What a gradient study lacks that would measure the metric."""
    if metric in BEHAVIOUR_METRICS:
        return f"{metric} is measured with a behaviour policy only: give gradient.behaviour a distance above 0"
    return f"{metric} is measured by complete enumeration only: give gradient complete: true"


def measured(complete: bool, off_policy: bool) -> tuple[str, ...]:
    """The metrics that a gradient study of these settings has."""
    left_out = (() if complete else ANATOMY_METRICS) + (() if off_policy else BEHAVIOUR_METRICS)
    return tuple(metric for metric in GRADIENT_METRICS if metric not in left_out)


def _one_of(known: Collection[str]) -> Callable[[str], str]:
    def check(metric: str) -> str:
        if metric not in known:
            also = did_you_mean(metric, known)
            raise ValueError(f"must be one of {', '.join(known)}, got {metric!r}{also}")
        return metric

    return check


GradientMetric = Annotated[str, AfterValidator(_one_of(GRADIENT_METRICS))]
EqualsMetric = Annotated[str, AfterValidator(_one_of((*GRADIENT_METRICS, *WEIGHTS_METRICS)))]
OrderMetric = Annotated[str, AfterValidator(_one_of((*GRADIENT_METRICS, *OBJECTIVE_METRICS)))]
