"""Estimators: pure maths from the rewards of n i.i.d. trajectories to one weight for each."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.estimators import reference as reference
    from maxk_lab.estimators.baselines.leave_one_out import affine_weights as affine_weights
    from maxk_lab.estimators.baselines.leave_one_out import apply_sample_loo as apply_sample_loo
    from maxk_lab.estimators.baselines.leave_one_out import centred_weights as centred_weights
    from maxk_lab.estimators.baselines.leave_one_out import group_mean_weights as group_mean_weights
    from maxk_lab.estimators.baselines.leave_one_out import pkpo_sloo_weights as pkpo_sloo_weights
    from maxk_lab.estimators.baselines.leave_one_out import sample_loo_weights as sample_loo_weights
    from maxk_lab.estimators.baselines.leave_one_out import subloo_weights as subloo_weights
    from maxk_lab.estimators.baselines.linear_families import family_terms as family_terms
    from maxk_lab.estimators.baselines.tokens import token_advantages as token_advantages
    from maxk_lab.estimators.baselines.weighted_means import mean_weights as mean_weights
    from maxk_lab.estimators.baselines.weighted_means import optimal_weights as optimal_weights
    from maxk_lab.estimators.baselines.weighted_means import rloo_weights as rloo_weights
    from maxk_lab.estimators.baselines.weighted_means import (
        weighted_loo_weights as weighted_loo_weights,
    )
    from maxk_lab.estimators.baselines.weighted_means import (
        weighted_mean_weights as weighted_mean_weights,
    )
    from maxk_lab.estimators.by_name import advantages as advantages
    from maxk_lab.estimators.by_name import fit_of as fit_of
    from maxk_lab.estimators.by_name import is_token_level as is_token_level
    from maxk_lab.estimators.by_name import needed_weight as needed_weight
    from maxk_lab.estimators.by_name import needs_ratios as needs_ratios
    from maxk_lab.estimators.by_name import objective as objective
    from maxk_lab.estimators.catalogue import BASELINES as BASELINES
    from maxk_lab.estimators.catalogue import ESTIMATORS as ESTIMATORS
    from maxk_lab.estimators.catalogue import TRAJECTORY_WEIGHTS as TRAJECTORY_WEIGHTS
    from maxk_lab.estimators.check.run import run_checks as run_checks
    from maxk_lab.estimators.method import Method as Method
    from maxk_lab.estimators.methods.first_order import first_order_weights as first_order_weights
    from maxk_lab.estimators.methods.maxk import maxk_gradient_weights as maxk_gradient_weights
    from maxk_lab.estimators.methods.off_policy import (
        effective_sample_size as effective_sample_size,
    )
    from maxk_lab.estimators.methods.off_policy import off_policy_value as off_policy_value
    from maxk_lab.estimators.methods.off_policy import off_policy_weights as off_policy_weights
    from maxk_lab.estimators.normalization import WEIGHT_NORMALIZATIONS as WEIGHT_NORMALIZATIONS
    from maxk_lab.estimators.objectives import Objective as Objective
    from maxk_lab.estimators.ranks.combinatorics import maxk_reward_weights as maxk_reward_weights
    from maxk_lab.estimators.value import maxk_curve as maxk_curve
    from maxk_lab.estimators.value import maxk_reward_estimate as maxk_reward_estimate
    from maxk_lab.estimators.value import objective_estimate as objective_estimate
    from maxk_lab.estimators.value import sample_loo_baseline as sample_loo_baseline
else:
    __getattr__, __dir__ = lazy_exports(__name__)
