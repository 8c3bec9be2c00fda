"""The measurement of samples that a training of the user's own has drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from maxk_lab.api.reporting import RunReport
from maxk_lab.own.audit import Audit
from maxk_lab.own.measure import BASELINES, measured


def measure(
    rewards: Any,
    *,
    gram: Any = None,
    scores: Any = None,
    log_probs: Tensor | None = None,
    parameters: Sequence[nn.Parameter] = (),
    n: int | Sequence[int] = (),
    k: int | Sequence[int] = (),
    estimators: Sequence[str] = ("maxk",),
    baselines: Sequence[str] = BASELINES,
    name: str = "measured",
) -> RunReport | Audit:
    """Measure which estimator and baseline the samples of a training call for.

    `rewards` [P, M]: M i.i.d. samples of each of P prompts. Of their gradients ψ = ∇ log π one of:
    `scores` [P, M, D], the gradients or `GradientSketch`es of them; `gram` [P, M, M], their
    products ψ·ψ; or `log_probs` [P, M] with a graph, and the `parameters` that gradients are taken
    in (a backward pass for each sample). Groups of `n` samples are cut out of the M, for each K of
    `k`; by default the largest power of 2 that M holds four times, and the powers of 2 below it.

    Returns the report of a gradient study, its bias judged against a reference estimator. Without
    gradients it returns an `Audit`: what rewards alone say. Raises `LabError` for wrong shapes,
    numbers that are not finite, and samples too few for two groups.
    """
    found = measured(
        rewards,
        gram=gram,
        scores=scores,
        log_probs=log_probs,
        parameters=parameters,
        n=n,
        k=k,
        estimators=estimators,
        baselines=baselines,
        name=name,
    )
    return found if isinstance(found, Audit) else RunReport(found)
