"""Estimators: pure maths from the rewards of n i.i.d. trajectories to one weight for each."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.estimators.by_name import advantages as advantages
    from maxk_lab.estimators.catalogue import BASELINES as BASELINES
    from maxk_lab.estimators.catalogue import ESTIMATORS as ESTIMATORS
    from maxk_lab.estimators.check.run import run_checks as run_checks
    from maxk_lab.estimators.method import WEIGHT_NORMALIZATIONS as WEIGHT_NORMALIZATIONS
    from maxk_lab.estimators.method import Method as Method
    from maxk_lab.estimators.objectives import Objective as Objective
    from maxk_lab.estimators.off_policy import effective_sample_size as effective_sample_size
    from maxk_lab.estimators.off_policy import off_policy_value as off_policy_value
    from maxk_lab.estimators.rows import TRAJECTORY_WEIGHTS as TRAJECTORY_WEIGHTS
    from maxk_lab.estimators.rows import baseline as baseline
    from maxk_lab.estimators.rows import estimator as estimator
    from maxk_lab.estimators.value import apply_sample_loo as apply_sample_loo
    from maxk_lab.estimators.value import maxk_curve as maxk_curve
    from maxk_lab.estimators.value import maxk_gradient_weights as maxk_gradient_weights
    from maxk_lab.estimators.value import maxk_reward_estimate as maxk_reward_estimate
    from maxk_lab.estimators.value import maxk_reward_weights as maxk_reward_weights
    from maxk_lab.estimators.value import objective_estimate as objective_estimate
    from maxk_lab.estimators.value import sample_loo_baseline as sample_loo_baseline
    from maxk_lab.estimators.value import subloo_weights as subloo_weights
else:
    __getattr__, __dir__ = lazy_exports(__name__)
