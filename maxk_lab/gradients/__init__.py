"""Gradients: trajectories → scores → Gram matrix → variance, bias and signal-to-noise ratio, with their statistics."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "trajectory_scores": "scores",
        "score_gram": "scores",
        "squared_norms": "scores",
        "trajectory_squared_norms": "trajectories",
        "trajectory_grams": "trajectories",
        "ScorePool": "pool",
        "draw_pool": "draw",
        "perturbed": "behaviour",
        "exact_value": "exact",
        "exact_gradient_weights": "exact",
        "complete_moments": "complete",
        "constant_level": "oracle",
        "joint_optimum": "oracle",
        "cross_fit": "fitting",
        "same_batch": "fitting",
        "oracle_coefficients": "fitting",
        "proxy_correlations": "proxies",
        "measure_cells": "measures",
        "Units": "units",
        "interval": "statistics",
        "log_ratio": "log_ratios",
        "bias_verdicts": "bias",
    },
)
