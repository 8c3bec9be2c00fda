"""The pairs whose weights follow from the rewards of a group alone. Imports no torch."""

from __future__ import annotations

from maxk_lab.estimators.method import Method


def rewards_only_refusal(method: Method) -> str | None:
    """Return why the weights of this method need more than rewards, or None."""
    estimator, baseline = method.estimator.name, method.baseline.name
    if method.is_token_level:
        return f"{baseline} gives one weight per token, which rewards alone do not determine"
    if method.needs_ratios:
        return (
            f"{estimator} needs the probability ratios of two policies, "
            "which rewards alone do not determine"
        )
    if method.fit is not None:
        return f"{baseline} is fitted to gradients, which rewards alone do not determine"
    kind = method.needed_weight
    if kind is not None:
        return (
            f"{baseline} needs the trajectory weight {kind}, which rewards alone do not determine"
        )
    return None
