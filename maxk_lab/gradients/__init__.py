"""Gradients: trajectories → scores → Gram matrix → variance, bias and signal-to-noise ratio, with their statistics."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "trajectory_scores": "scores",
        "score_gram": "scores",
        "squared_norms": "scores",
        "ScorePool": "pool",
        "exact_value": "exact",
        "exact_gradient_weights": "exact",
        "measure_cells": "measures",
        "Units": "statistics",
        "interval": "statistics",
        "log_ratio": "statistics",
        "bias_verdicts": "bias",
    },
)
