"""The values of a row of a gradient study in plain words, and those to look at first."""

from __future__ import annotations

# Of all but the measures, whose table has theirs.
MEANINGS = {
    "best": "★: told apart from all others as the least variance of the unbiased baselines",
    "typical_relative_variance": "the median over instances of the relative variance",
    "effective_instances_variance": "how many instances the mean variance rests on",
    "effective_instances_gradient": "how many instances the mean of ‖∇J‖² rests on",
    "derived_unbiased": "whether the estimate is unbiased by its formula",
    "bias_verdict": "what the measured trajectories say of a bias, corrected for all rows",
    "bias_p_holm": "the p-value of the test for a bias, corrected for all rows (Holm)",
    "relative_bias": "the size of the bias relative to the gradient: ‖E ĝ − ∇J‖ / ‖∇J‖",
    "relative_bias_at_most": "the upper end of ‖E ĝ − ∇J‖ / ‖∇J‖ over these instances",
    "bias_found_on": "the instances whose own test found a bias",
    "bias_worst": "the largest relative bias among these",
    "detectable": "the smallest bias along ∇J that the test would have found, relative to ‖∇J‖",
    "against": "what stands for the true gradient ∇J in the test",
    "least": "the unbiased baseline of least variance at the same n and K",
    "over_least": "the variance over that of this baseline, paired",
    "typical_over_least": "the median over instances of that ratio",
    "less_on": "the instances on which the row has less variance than this baseline",
    "ties": "the instances on which both have the same",
    "sign_test_p": "the p-value of a sign test over these instances",
    "over_best": "the variance over that of the best symmetric leave-one-out baseline there is",
    "pool": "the trajectories that were sampled for each instance",
}
FIRST = (
    "best",
    "variance",
    "relative_variance",
    "over_least",
    "bias_verdict",
    "relative_bias_at_most",
)
