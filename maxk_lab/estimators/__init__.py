"""Estimators: pure maths from the rewards of n i.i.d. trajectories to one gradient weight per trajectory."""

from importlib import import_module
from typing import Any

from maxk_lab.lazy import lazy_exports

_HOMES = {
    "maxk_reward_weights": "ranks.combinatorics",
    "maxk_reward_estimate": "value",
    "maxk_curve": "value",
    "objective_estimate": "value",
    "sample_loo_baseline": "value",
    "maxk_gradient_weights": "methods.maxk",
    "group_mean_weights": "baselines.leave_one_out",
    "centred_weights": "baselines.leave_one_out",
    "sample_loo_weights": "baselines.leave_one_out",
    "pkpo_sloo_weights": "baselines.leave_one_out",
    "subloo_weights": "baselines.leave_one_out",
    "affine_weights": "baselines.leave_one_out",
    "apply_sample_loo": "baselines.leave_one_out",
    "mean_weights": "baselines.weighted",
    "rloo_weights": "baselines.weighted",
    "weighted_mean_weights": "baselines.weighted",
    "weighted_loo_weights": "baselines.weighted",
    "optimal_weights": "baselines.weighted",
    "family_terms": "baselines.families",
    "off_policy_weights": "methods.off_policy",
    "off_policy_value": "methods.off_policy",
    "first_order_weights": "methods.first_order",
    "effective_sample_size": "methods.off_policy",
    "advantages": "method",
    "token_advantages": "baselines.tokens",
    "WEIGHT_NORMALIZATIONS": "normalization",
    "run_checks": "check.run",
    "Objective": "objectives",
    "objective": "catalogue",
    "needed_weight": "catalogue",
    "needs_ratios": "catalogue",
    "fit_of": "catalogue",
    "is_token_level": "catalogue",
    "TRAJECTORY_WEIGHTS": "catalogue",
    "ESTIMATORS": "catalogue",
    "BASELINES": "catalogue",
}
__all__ = [*_HOMES, "reference"]

_export, __dir__ = lazy_exports(__name__, {**_HOMES, "reference": "reference"})


def __getattr__(name: str) -> Any:
    return import_module(f"{__name__}.reference") if name == "reference" else _export(name)
