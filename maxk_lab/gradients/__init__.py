"""Gradients: trajectories → scores → Gram matrix → variance, bias and signal-to-noise ratio, with their statistics."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "trajectory_scores": "scores.per_trajectory",
        "score_gram": "scores.per_trajectory",
        "squared_norms": "scores.per_trajectory",
        "trajectory_squared_norms": "scores.trajectories",
        "trajectory_grams": "scores.trajectories",
        "ScorePool": "scores.pool",
        "draw_pool": "scores.draw",
        "perturbed": "scores.behaviour",
        "exact_value": "enumerated.exact",
        "exact_gradient_weights": "enumerated.exact",
        "complete_moments": "enumerated.moments",
        "constant_level": "enumerated.oracle",
        "joint_optimum": "enumerated.oracle",
        "cross_fit": "fitting",
        "same_batch": "fitting",
        "oracle_coefficients": "fitting",
        "proxy_correlations": "scores.proxies",
        "measure_cells": "sampled.measures",
        "Units": "maxk_lab.statistics.units",
        "interval": "maxk_lab.statistics.intervals",
        "log_ratio": "maxk_lab.statistics.log_ratios",
        "bias_verdicts": "maxk_lab.statistics.bias",
    },
)
