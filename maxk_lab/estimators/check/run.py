"""The proof that the formulas are right: twins, identities, exact unbiasedness of every row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators import reference
from maxk_lab.estimators.baselines.tokens import token_advantages
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline, choose_estimator
from maxk_lab.estimators.check.laws import BANDITS, BIAS_SEEN, bias, check_pair, methods
from maxk_lab.estimators.check.result import EXACT, CheckResult, error_of, worst
from maxk_lab.estimators.check.shared import check_functions, check_identities
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.methods.kinds import ObjectiveRow
from maxk_lab.estimators.normalization import WEIGHT_NORMALIZATIONS

__all__ = ["CheckResult", "check_options", "check_pair", "check_tokens", "run_checks"]


def run_checks(estimator: str | None = None, baseline: str | None = None) -> list[CheckResult]:
    """Every check, or those of one estimator, baseline or pair and of what all rows share.

    Raises `LabError` for an unknown name. Takes about 20 s on one thread; nothing is random.
    """
    wanted = None if baseline is None else choose_baseline(baseline).name
    if estimator is None:
        chosen = [
            one for row in ESTIMATORS for one in (choose_estimator(row.name).name, *row.examples)
        ]
    else:
        chosen = [choose_estimator(estimator).name]
    results = [*check_functions(), *check_identities(), *check_tokens(), *check_options()]
    for one in chosen:
        for base in _baselines(one) if wanted is None else _existing(one, wanted):
            results += check_pair(one, base)
    return results


def _existing(estimator: str, baseline: str) -> list[str]:
    """The baseline, if it exists with this estimator."""
    return [baseline] if _exists(estimator, baseline) else []


def check_options() -> list[CheckResult]:
    """Each option that rescales weights makes an unbiased pair biased."""
    options: list[tuple[str, dict[str, Any]]] = [
        (f"weight_normalization {how}", {"weight_normalization": how})
        for how in WEIGHT_NORMALIZATIONS
        if how != "none"
    ]
    options.append(("min_gap_scale 0.1", {"min_gap_scale": 0.1}))
    return [
        worst("bias seen", name, bias("maxk", "subloo", **option), BIAS_SEEN)
        for name, option in options
    ]


def check_tokens() -> list[CheckResult]:
    """The token-level baseline against its twin, and its bias for trajectories of one token."""
    row = "reinforce / otb_token"
    bandit, _ = BANDITS[0]
    proxies = bandit.trajectory_weight("logit_proxy")

    def weights(arms: Tensor, rewards: Tensor) -> Tensor:
        one = proxies[arms].unsqueeze(-1)
        return token_advantages(rewards, one, torch.ones_like(one, dtype=torch.bool)).squeeze(-1)

    truth = bandit.gradient(1)
    bias = [
        (f"n={n}", float((bandit.mean_of(weights, n) - truth).norm() / truth.norm()))
        for n in (2, 3, 5)
    ]
    return [
        worst("fast = slow", row, _token_errors(), EXACT),
        worst("bias seen", row, bias, BIAS_SEEN),
    ]


def _baselines(estimator: str) -> list[str]:
    """The baselines to check the estimator with.

    Those of a form of objective share one implementation: they run in one spelling each, and beyond
    the form's default parameter only those run that the others are sums of.
    """
    row = choose_estimator(estimator).row
    form = isinstance(row, ObjectiveRow)
    basic = form and choose_estimator(estimator).name != choose_estimator(row.name).name
    return [
        baseline
        for of in BASELINES
        for baseline in (choose_baseline(of.name).name, *(() if form else of.examples))
        if _exists(estimator, baseline) and (not basic or of.name in ("none", "centred", "subloo"))
    ]


def _exists(estimator: str, baseline: str) -> bool:
    """Whether the pair gives weights per sample at any (n, K).

    `reinforce / subloo`, K = 1 against K >= 2, does not.
    """
    pair = Method.parse(estimator, baseline)
    if pair.is_token_level or (not pair.takes_baseline and baseline != "none"):
        return False
    return any(methods(estimator, baseline, range(1, 33)))


def _token_errors() -> Iterator[tuple[str, float]]:
    """Groups whose trajectories end at different tokens, at the latest at the fifth."""
    generator = torch.Generator().manual_seed(0)
    for n in (2, 3, 5):
        rewards = torch.randn(n, generator=generator, dtype=torch.float64) - 6.0
        proxies = torch.rand(n, 5, generator=generator, dtype=torch.float64)
        lengths = torch.randint(1, 6, (n, 1), generator=generator)
        mask = torch.arange(5) < lengths
        yield (
            f"n={n}",
            error_of(
                token_advantages(rewards, proxies, mask),
                reference.token_advantages(rewards, proxies, mask),
            ),
        )
