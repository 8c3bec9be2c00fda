"""The pairs whose weights follow from the rewards of a group alone. Imports no torch."""

from __future__ import annotations

from maxk_lab.estimators.catalogue import fit_of, is_token_level, needed_weight, needs_ratios


def rewards_only_refusal(estimator: str, baseline: str) -> str | None:
    """Return why the weights of this pair need more than rewards, or None.

    Raises `LabError` for unknown names.
    """
    if is_token_level(baseline):
        return f"{baseline} gives one weight per token, which rewards alone do not determine"
    if needs_ratios(estimator):
        return (
            f"{estimator} needs the probability ratios of two policies, "
            "which rewards alone do not determine"
        )
    if fit_of(estimator, baseline) is not None:
        return f"{baseline} is fitted to gradients, which rewards alone do not determine"
    kind = needed_weight(estimator, baseline)
    if kind is not None:
        return (
            f"{baseline} needs the trajectory weight {kind}, which rewards alone do not determine"
        )
    return None
