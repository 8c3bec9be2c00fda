"""Estimators: pure maths from the rewards of n i.i.d. trajectories to one weight for each."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.estimators.by_name import advantages as advantages
    from maxk_lab.estimators.objectives import Objective as Objective
    from maxk_lab.estimators.off_policy import effective_sample_size as effective_sample_size
    from maxk_lab.estimators.off_policy import off_policy_value as off_policy_value
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
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "by_name": "advantages",
            "objectives": "Objective",
            "off_policy": "effective_sample_size off_policy_value",
            "rows": "baseline estimator",
            "value": "apply_sample_loo maxk_curve maxk_gradient_weights maxk_reward_estimate "
            "maxk_reward_weights objective_estimate sample_loo_baseline subloo_weights",
        },
    )
