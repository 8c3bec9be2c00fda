"""The columns of reports that no record has: what follows from several records, and its words."""

from __future__ import annotations

from maxk_lab.statistics.measures.row import Described

_RATIOS = "variance relative to the lowest"

_ROWS = (
    Described("parameter", "", "the parameter of the policy along which the objective is computed"),
    Described("objective", "objective", "what the estimator estimates", "optimum", words=True),
    Described(
        "best",
        "★",
        "significantly lower variance than all other unbiased baselines at the same n and K",
        "variance",
        words=True,
        first=True,
    ),
    Described(
        "typical_relative_variance",
        "median over instances",
        "the median over instances of the relative variance",
        "variance",
        unit="1",
    ),
    Described(
        "effective_instances_variance",
        "effective instances",
        "how many instances carry the mean of the variance",
        "variance",
    ),
    Described(
        "effective_instances_gradient", "", "how many instances carry the mean of ‖∇J‖²", "variance"
    ),
    Described("least", "lowest", "the unbiased baseline of lowest variance", _RATIOS, words=True),
    Described(
        "over_least",
        "mean variance",
        "relative to that of the lowest, paired over instances, not corrected",
        _RATIOS,
        first=True,
    ),
    Described(
        "typical_over_least", "median over instances", "the median of the same ratio", _RATIOS
    ),
    Described("less_on", "lower on", "the instances with less variance than the lowest", _RATIOS),
    Described("ties", "", "the instances with the same variance", _RATIOS),
    Described("sign_test_p", "", "the p-value of a sign test over these instances", _RATIOS),
    Described(
        "over_best",
        "relative to the best possible",
        "the variance relative to that of joint_optimum, the best symmetric leave-one-out baseline",
        _RATIOS,
    ),
    Described(
        "bias_verdict",
        "verdict",
        "proven unbiased by enumeration, or by tests corrected over all rows (Holm)",
        "bias",
        words=True,
        first=True,
    ),
    Described(
        "derived_unbiased", "by formula", "whether the estimate is unbiased by its formula", "bias"
    ),
    Described("bias_p_holm", "adjusted p", "of the test of bias, Holm over all rows", "bias"),
    Described("relative_bias", "", "‖E ĝ − ∇J‖ / ‖∇J‖ over the instances measured", "bias"),
    Described(
        "relative_bias_at_most",
        "bias at most",
        "the upper end of ‖E ĝ − ∇J‖ / ‖∇J‖ over the instances measured",
        "bias",
        first=True,
    ),
    Described(
        "detectable",
        "minimum detectable bias",
        "the smallest bias along ∇J, relative to ‖∇J‖, found with 80 % power",
        "bias",
    ),
    Described("bias_found_on", "", "the instances whose own test found a bias", "bias"),
    Described("bias_worst", "", "the largest relative bias among these", "bias"),
    Described("against", "", "what stands for the true gradient ∇J in the test", "bias"),
    Described("pool", "", "the trajectories that were sampled for each instance"),
    Described("proxy", "", "a number of a trajectory that is cheap to have", "proxies"),
    Described(
        "correlation",
        "correlation with ‖ψ‖²",
        "over the trajectories of an instance, ψ = ∇ log π; mean over instances",
        "proxies",
    ),
    Described(
        "instances_without",
        "",
        "the instances left out, because the proxy or ‖ψ‖² does not vary there",
        "proxies",
    ),
)
COLUMNS = {row.name: row for row in _ROWS}
