"""Gradients: trajectories → scores → Gram matrix → variance, bias and signal-to-noise ratio."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.gradients.enumerated.exact import exact_gradient_weights as exact_gradient_weights
    from maxk_lab.gradients.enumerated.exact import exact_value as exact_value
    from maxk_lab.gradients.scores.per_trajectory import trajectory_scores as trajectory_scores
    from maxk_lab.gradients.scores.trajectories import (
        trajectory_squared_norms as trajectory_squared_norms,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "enumerated.exact": "exact_gradient_weights exact_value",
            "scores.per_trajectory": "trajectory_scores",
            "scores.trajectories": "trajectory_squared_norms",
        },
    )
