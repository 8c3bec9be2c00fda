"""Estimators: pure maths from the rewards of n i.i.d. trajectories to one gradient weight per trajectory."""

from importlib import import_module
from typing import Any

from maxk_lab.lazy import lazy_exports

_HOMES = {
    "maxk_reward_weights": "combinatorics",
    "maxk_reward_estimate": "rewards",
    "maxk_curve": "rewards",
    "objective_estimate": "rewards",
    "sample_loo_baseline": "rewards",
    "maxk_gradient_weights": "weights",
    "group_mean_weights": "baselines",
    "centred_weights": "baselines",
    "sample_loo_weights": "baselines",
    "pkpo_sloo_weights": "baselines",
    "subloo_weights": "baselines",
    "affine_weights": "baselines",
    "apply_sample_loo": "baselines",
    "mean_weights": "weighted",
    "rloo_weights": "weighted",
    "weighted_mean_weights": "weighted",
    "weighted_loo_weights": "weighted",
    "optimal_weights": "weighted",
    "family_terms": "families",
    "off_policy_weights": "off_policy",
    "off_policy_value": "off_policy",
    "first_order_weights": "first_order",
    "effective_sample_size": "off_policy",
    "advantages": "dispatch",
    "token_advantages": "tokens",
    "WEIGHT_NORMALIZATIONS": "normalization",
    "run_checks": "check",
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
