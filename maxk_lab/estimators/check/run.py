"""The proof that the formulas are right: fast against slow, identities, exact unbiasedness of every row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators import reference
from maxk_lab.estimators.baselines.tokens import token_advantages
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline, choose_estimator
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.check.result import (
    EXACT,
    CheckResult,
    error_of,
    name_of,
    settings,
    worst,
)
from maxk_lab.estimators.check.shared import check_functions, check_identities
from maxk_lab.estimators.check.twins import inputs, slow_twin
from maxk_lab.estimators.kinds import ObjectiveRow
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.normalization import WEIGHT_NORMALIZATIONS

__all__ = ["CheckResult", "check_options", "check_pair", "check_tokens", "run_checks"]

BIAS_SEEN = 1e-6
# Rewards below zero with a tie, as tour lengths have; then one rare success, as pass@K has.
BANDITS = (
    (
        TinyBandit((0.3, -0.8, 0.5, 0.1), (-6.25, -5.0, -4.1, -5.0), (2.0, 5.0, 1.0, 3.0)),
        (1, 2, 3, 5, 6),
    ),
    (TinyBandit((0.2, -1.1, 0.7), (0.0, 1.0, 0.0), (4.0, 1.0, 2.0)), (4, 8)),
)
_BINARY = BANDITS[1:]
# The same, drawn from by another policy.
_OFF_POLICY = tuple(
    (replace(bandit, behaviour=behaviour), sizes)
    for (bandit, sizes), behaviour in zip(
        BANDITS, ((-0.1, -0.4, 0.2, 0.6), (-0.3, -0.5, 0.4)), strict=True
    )
)


def run_checks(estimator: str | None = None, baseline: str | None = None) -> list[CheckResult]:
    """Every check, or those of one estimator, one baseline or this pair (and of what all rows share).

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


def check_pair(estimator: str, baseline: str) -> list[CheckResult]:
    """Fast against slow (where there is a twin) and exact unbiasedness, or the catalogued bias."""
    method = Method.parse(estimator, baseline)
    row = f"{method.estimator.name} / {method.baseline.name}"
    results = []
    checks: list[tuple[str, Callable[[], Iterator[tuple[str, float]]]]] = []
    if slow_twin(estimator, baseline) is not None:
        checks.append(("fast = slow", lambda: _pair_errors(estimator, baseline)))
    if method.is_unbiased:
        checks.append(("unbiased", lambda: _bias(estimator, baseline, scaled=False)))
    else:
        checks.append(("bias seen", lambda: _bias(estimator, baseline, scaled=False)))
        if not math.isnan(Method.parse(estimator, baseline, 2).expected_scale(4)):
            checks.append(
                ("unbiased but for scale", lambda: _bias(estimator, baseline, scaled=True))
            )
    for name, errors in checks:
        try:
            results.append(worst(name, row, errors(), BIAS_SEEN if name == "bias seen" else EXACT))
        except (
            Exception
        ) as error:  # rows of other packages may raise anything: a failed check, not a crash
            results.append(
                CheckResult(
                    name, row, f"{type(error).__name__}: {error}", math.nan, EXACT, ok=False
                )
            )
    return results


def check_options() -> list[CheckResult]:
    """Each option that rescales weights makes an unbiased pair biased."""
    options: list[tuple[str, dict[str, Any]]] = [
        (f"weight_normalization {how}", {"weight_normalization": how})
        for how in WEIGHT_NORMALIZATIONS
        if how != "none"
    ]
    options.append(("min_gap_scale 0.1", {"min_gap_scale": 0.1}))
    return [
        worst("bias seen", name, _bias("maxk", "subloo", scaled=False, **option), BIAS_SEEN)
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

    Those of a form of objective share one implementation: they run in one spelling each, and beyond the form's
    default parameter only those run that the others are sums of.
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
    """Whether the pair gives weights per sample for any (n, K): `reinforce / subloo`, K = 1 against K >= 2, does not."""
    method = Method.parse(estimator, baseline)
    if method.is_token_level or (not method.takes_baseline and baseline != "none"):
        return False
    return any(
        Method.parse(estimator, baseline, k).refusal(n) is None
        for n in range(1, 33)
        for k in range(1, n + 1)
    )


def _ks(estimator: str, n: int) -> list[int]:
    """The K that make a difference: 1 alone where K counts as 1."""
    return sorted({Method.parse(estimator, k=k).k for k in range(1, n + 1)})


def _pair_errors(estimator: str, baseline: str) -> Iterator[tuple[str, float]]:
    twin = slow_twin(estimator, baseline)
    assert twin is not None
    for group in settings(binary=Method.parse(estimator, baseline).needs_binary_rewards):
        n = group.shape[-1]
        for k in _ks(estimator, n):
            method = Method.parse(estimator, baseline, k)
            if method.refusal(n) is None:
                given = inputs(estimator, baseline, group, k)
                fast = method.weights(group, **given)
                yield name_of(group, k), error_of(fast, twin(group, k, **given))


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


def _bias(
    estimator: str, baseline: str, *, scaled: bool, **options: Any
) -> Iterator[tuple[str, float]]:
    """Norm of E[estimate] - scale * gradient, relative to the gradient's norm, over bandits, n and K."""
    pair = Method.parse(estimator, baseline)
    bandits = _BINARY if pair.needs_binary_rewards else BANDITS
    for bandit, sizes in _OFF_POLICY if pair.needs_ratios else bandits:
        for n in sizes:
            for k in _ks(estimator, n):
                method = Method.parse(estimator, baseline, k)
                if method.refusal(n) is not None:
                    continue
                truth = bandit.gradient(method.objective)
                scale = method.expected_scale(n) if scaled else 1.0
                estimate = bandit.mean_estimate(
                    n, k, estimator=estimator, baseline=baseline, **options
                )
                error = float((estimate - scale * truth).norm() / truth.norm())
                yield f"{len(bandit.logits)} arms, n={n}, K={k}", error
