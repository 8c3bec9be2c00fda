"""Gradients: trajectories → scores → Gram matrix → variance, bias and signal-to-noise ratio."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.gradients.enumerated.exact import exact_gradient_weights as exact_gradient_weights
    from maxk_lab.gradients.enumerated.exact import exact_value as exact_value
    from maxk_lab.gradients.enumerated.oracle import joint_optimum as joint_optimum
    from maxk_lab.gradients.fitting import oracle_coefficients as oracle_coefficients
    from maxk_lab.gradients.sampled.measures import measure_cells as measure_cells
    from maxk_lab.gradients.scores.draw import draw_pool as draw_pool
    from maxk_lab.gradients.scores.draw import perturbed as perturbed
    from maxk_lab.gradients.scores.per_trajectory import trajectory_scores as trajectory_scores
    from maxk_lab.gradients.scores.pool import ScorePool as ScorePool
    from maxk_lab.gradients.scores.pool import proxy_correlations as proxy_correlations
    from maxk_lab.gradients.scores.products import score_gram as score_gram
    from maxk_lab.gradients.scores.trajectories import (
        trajectory_squared_norms as trajectory_squared_norms,
    )
    from maxk_lab.statistics.bias import bias_verdicts as bias_verdicts
    from maxk_lab.statistics.intervals import interval as interval
    from maxk_lab.statistics.log_ratios import log_ratio as log_ratio
    from maxk_lab.statistics.units import Units as Units
else:
    __getattr__, __dir__ = lazy_exports(__name__)
