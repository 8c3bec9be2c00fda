"""The rows of the baselines whose coefficients can be fitted. Imports no torch."""

from __future__ import annotations

from maxk_lab.estimators.baselines.kinds import AffineRow, BaselineRow, FittedRow, LadderRow
from maxk_lab.estimators.parameters import number_or_word

_FITS = ("cross_fit", "same_batch", "oracle")
_FITTED = (
    "cross_fit: least squares on other instances; same_batch: on the own samples, biased; "
    "oracle: of least variance under the policy, by complete enumeration"
)

FITTED_ROWS: tuple[BaselineRow, ...] = (
    AffineRow(
        name="affine",
        meaning="between centred (alpha = 0) and subloo (alpha = 1), and beyond",
        formula="w_i = s_i - (K/n) [rho_-i(K) - alpha (rho_-i(K) - rho_-i(K-1))]",
        unbiased=True,
        condition="the n samples are i.i.d. and alpha does not depend on them: all but same_batch",
        constraint="2 <= K < n (1 <= K < n if alpha = 0)",
        shift_invariant=True,
        k_below_n=True,
        any_objective=True,
        parameter=number_or_word("alpha", 0.5, f"0 is centred, 1 is subloo; {_FITTED}", _FITS),
        examples=(
            "affine[0.0]",
            "affine[1.0]",
            "affine[-0.75]",
            "affine[1.5]",
            *(f"affine[{word}]" for word in _FITS),
        ),
        implementation="maxk_lab.estimators.baselines.leave_one_out:affine_weights",
        fitted="maxk_lab.estimators.baselines.with_coefficients:affine_weights",
        twin="maxk_lab.estimators.reference.baselines:affine",
        fitted_twin="maxk_lab.estimators.reference.baselines:fitted_affine",
        citation="this project",
    ),
    LadderRow(
        name="ladder",
        meaning="weighted mean of the Max@k values of the other samples for every k up to K",
        formula="w_i = s_i - (K/n) sum_k<=K alpha_k rho_-i(k), sum_k alpha_k = 1",
        unbiased=True,
        condition="the n samples are i.i.d. and alpha does not depend on them: all but same_batch",
        shift_invariant=True,
        least_k=2,
        k_below_n=True,
        parameter=number_or_word(
            "alpha",
            "cross_fit",
            f"alpha_1 to alpha_K, whose sum is 1; {_FITTED}",
            _FITS,
            several=True,
        ),
        examples=(
            "ladder[same_batch]",
            "ladder[oracle]",
            "ladder[0.25 0.75]",
            "ladder[0.5 -1.0 1.5]",
        ),
        implementation="maxk_lab.estimators.baselines.with_coefficients:fixed_ladder_weights",
        fitted="maxk_lab.estimators.baselines.with_coefficients:ladder_weights",
        twin="maxk_lab.estimators.reference.baselines:ladder",
        fitted_twin="maxk_lab.estimators.reference.baselines:fitted_ladder",
        citation="this project",
    ),
    FittedRow(
        name="constant",
        meaning="a fixed reward level on the scale of s",
        formula="w_i = s_i - (K/n) c",
        unbiased=True,
        condition="the n samples are i.i.d. and c does not depend on them",
        parameter=number_or_word(
            "c",
            "oracle",
            "in units of reward; oracle: of least variance under the policy, by complete "
            "enumeration",
            ("oracle",),
        ),
        examples=("constant[0.0]", "constant[-5.0]"),
        implementation="maxk_lab.estimators.baselines.with_coefficients:fixed_constant_weights",
        fitted="maxk_lab.estimators.baselines.with_coefficients:constant_weights",
        twin="maxk_lab.estimators.reference.baselines:constant",
        fitted_twin="maxk_lab.estimators.reference.baselines:fitted_constant",
        citation="this project; at K = 1: Greensmith, Bartlett and Baxter 2004, JMLR 5",
    ),
    FittedRow(
        name="joint_optimum",
        meaning=(
            "the best of all symmetric leave-one-out baselines: a bound for every other, not "
            "one to train with"
        ),
        formula=(
            "w_i = s_i - b(tau_-i), b the symmetric function of the other trajectories of "
            "least total variance"
        ),
        unbiased=True,
        condition=(
            "the n samples are i.i.d. and b is computed from the policy, by complete enumeration"
        ),
        shift_invariant=True,
        least_n=2,
        implementation="maxk_lab.estimators.baselines.with_coefficients:baseline_weights",
        fitted="maxk_lab.estimators.baselines.with_coefficients:baseline_weights",
        fitted_twin="maxk_lab.estimators.reference.baselines:given",
        citation="this project",
    ),
)
