"""The proof that the formulas are right: fast against slow, identities, exact unbiasedness of every row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from maxk_lab.estimators import baselines, combinatorics, reference, rewards, weights
from maxk_lab.estimators.catalogue import (
    BASELINES,
    ESTIMATORS,
    choose_baseline,
    choose_estimator,
    effective_k,
    expected_scale,
    is_unbiased,
    refusal,
)
from maxk_lab.estimators.dispatch import advantages
from maxk_lab.estimators.enumeration import TinyBandit

EXACT = 1e-12
LARGE_N = 65_536
BIAS_SEEN = 1e-6
# Rewards below zero with a tie, as tour lengths have; then one rare success, as pass@K has.
BANDITS = (
    (TinyBandit((0.3, -0.8, 0.5, 0.1), (-6.25, -5.0, -4.1, -5.0)), (1, 2, 3, 5, 6)),
    (TinyBandit((0.2, -1.1, 0.7), (0.0, 1.0, 0.0)), (4, 8)),
)


@dataclass(frozen=True)
class CheckResult:
    """One check of one row: the worst error over its settings against its tolerance."""

    name: str
    row: str
    detail: str
    error: float
    tolerance: float
    ok: bool


def run_checks(estimator: str | None = None) -> list[CheckResult]:
    """Every check, or those of one estimator's rows (and of the functions all rows share).

    Raises `LabError` for an unknown estimator. Takes seconds on one thread; nothing is random.
    """
    chosen = ESTIMATORS.names() if estimator is None else (choose_estimator(estimator).name,)
    results = [*check_functions(), *check_identities()]
    for one in chosen:
        for row in BASELINES:
            for baseline in (choose_baseline(row.name).name, *row.examples):
                if _exists(one, baseline):
                    results += check_pair(one, baseline)
    return results


def check_pair(estimator: str, baseline: str) -> list[CheckResult]:
    """Fast against slow (where there is a twin) and exact unbiasedness, or the catalogued bias."""
    row = f"{choose_estimator(estimator).name} / {choose_baseline(baseline).name}"
    results = []
    twin = choose_baseline(baseline).row.name in reference.TWINS and estimator in reference.TWIN_K
    checks: list[tuple[str, Callable[[], Iterator[tuple[str, float]]]]] = []
    if twin:
        checks.append(("fast = slow", lambda: _pair_errors(estimator, baseline)))
    if is_unbiased(estimator, baseline):
        checks.append(("unbiased", lambda: _bias(estimator, baseline, scaled=False)))
    else:
        checks.append(("bias seen", lambda: _bias(estimator, baseline, scaled=False)))
        if not math.isnan(expected_scale(estimator, baseline, 4, 2)):
            checks.append(("unbiased but for scale", lambda: _bias(estimator, baseline, scaled=True)))
    for name, errors in checks:
        try:
            results.append(_worst(name, row, errors(), BIAS_SEEN if name == "bias seen" else EXACT))
        except Exception as error:  # rows of other packages may raise anything: a failed check, not a crash
            results.append(
                CheckResult(name, row, f"{type(error).__name__}: {error}", math.nan, EXACT, ok=False)
            )
    return results


def check_functions() -> list[CheckResult]:
    """The functions that every row shares, against their twins."""
    ks = [(group, k) for group in settings() for k in range(1, group.shape[-1] + 1)]
    cases: dict[str, Iterable[tuple[str, float]]] = {
        "maxk_reward_weights": (
            (
                f"n={n}, K={k}",
                _error(combinatorics.maxk_reward_weights(n, k), reference.maxk_reward_weights(n, k)),
            )
            for n, k in ((1, 1), (7, 3), (200, 1), (200, 2), (200, 100), (200, 199), (200, 200))
        ),
        "maxk_reward_estimate": (
            (_name(g, k), _error(rewards.maxk_reward_estimate(g, k), reference.maxk_reward_estimate(g, k)))
            for g, k in ks
        ),
        "maxk_curve": (
            (_name(g, 0), _error(rewards.maxk_curve(g), reference.maxk_curve(g))) for g in settings()
        ),
        "sample_loo_baseline": (
            (_name(g, k), _error(rewards.sample_loo_baseline(g, k), reference.sample_loo_baseline(g, k)))
            for g, k in ks
            if k < g.shape[-1]
        ),
        "apply_sample_loo": (
            (
                _name(g, k),
                _error(
                    baselines.apply_sample_loo(weights.maxk_gradient_weights(g, k), g, k),
                    reference.sample_loo_weights(g, k),
                ),
            )
            for g, k in ks
            if k < g.shape[-1]
        ),
    }
    return [_worst("fast = slow", function, errors, EXACT) for function, errors in cases.items()]


def check_identities() -> list[CheckResult]:
    """I1: sum s = K value.

    I2: value = s_i + (n-K)/n left-out value. I3: that left-out value, computed afresh.
    """
    found: dict[str, list[tuple[str, float]]] = {"I1": [], "I2": [], "I3": []}
    for n in (2, 9, 1_000, LARGE_N):
        group = torch.randn(n, generator=torch.Generator().manual_seed(n), dtype=torch.float64) - 6.0
        for k in sorted({1, 2, min(17, n), max(1, n // 2), n - 1, n} - {0}):
            value, s = rewards.maxk_reward_estimate(group, k), weights.maxk_gradient_weights(group, k)
            setting = f"n={n}, K={k}"
            found["I1"].append((setting, _error(s.sum(), k * value)))
            if k == n:
                continue
            left_out = rewards.sample_loo_baseline(group, k)
            found["I2"].append((setting, _error(s + (n - k) / n * left_out, value.expand(n))))
            for i in {0, n // 3, int(group.argmax()), int(group.argmin())}:
                afresh = rewards.maxk_reward_estimate(torch.cat([group[:i], group[i + 1 :]]), k)
                found["I3"].append((f"{setting}, i={i}", _error(left_out[i], afresh)))
    names = {
        "I1": "sum s = K value",
        "I2": "value = s + (n-K)/n left-out value",
        "I3": "left-out value afresh",
    }
    return [_worst(f"identity {key}", names[key], errors, 1e-10) for key, errors in found.items()]


def settings() -> Iterator[Tensor]:
    """Small groups of rewards, `[..., n]` in float64: plain, tied, binary, shifted, tiny and huge."""
    generator = torch.Generator().manual_seed(0)
    for n in (1, 2, 3, 4, 6, 7):
        plain = torch.randn(n, generator=generator, dtype=torch.float64)
        tied = torch.randint(0, 3, (n,), generator=generator).double()
        binary = torch.zeros(n, dtype=torch.float64)
        binary[n // 2] = 1.0
        yield torch.stack([plain, tied, binary])
        yield (-1e4 + 1e-3 * plain).float().double()
        yield torch.stack([1e-200 * plain, 1e200 * plain])


def _exists(estimator: str, baseline: str) -> bool:
    """Whether the pair runs for any (n, K) at all: `reinforce / subloo`, K = 1 against K >= 2, does not."""
    return any(refusal(estimator, baseline, n, k) is None for n in range(1, 33) for k in range(1, n + 1))


def _pair_errors(estimator: str, baseline: str) -> Iterator[tuple[str, float]]:
    choice = choose_baseline(baseline)
    twin, twin_k = reference.TWINS[choice.row.name], reference.TWIN_K[estimator]
    for group in settings():
        n = group.shape[-1]
        for k in range(1, n + 1):
            if refusal(estimator, baseline, n, k) is None:
                fast = advantages(group, estimator=estimator, baseline=baseline, k=k)
                yield _name(group, k), _error(fast, twin(group, twin_k(k), **choice.params))


def _bias(estimator: str, baseline: str, *, scaled: bool) -> Iterator[tuple[str, float]]:
    """Norm of E[estimate] - scale * gradient, relative to the gradient's norm, over bandits, n and K."""
    for bandit, sizes in BANDITS:
        for n in sizes:
            for k in range(1, n + 1):
                if refusal(estimator, baseline, n, k) is not None:
                    continue
                truth = bandit.gradient(effective_k(estimator, k))
                scale = expected_scale(estimator, baseline, n, k) if scaled else 1.0
                estimate = bandit.mean_estimate(n, k, estimator=estimator, baseline=baseline)
                error = float((estimate - scale * truth).norm() / truth.norm())
                yield f"{len(bandit.logits)} arms, n={n}, K={k}", error


def _worst(name: str, row: str, errors: Iterable[tuple[str, float]], tolerance: float) -> CheckResult:
    """The largest error of all settings, NaN above all; for `bias seen` it must exceed the tolerance."""
    found = list(errors)
    if not found:
        return CheckResult(
            name, row, "no setting of this check can run the row", math.nan, tolerance, ok=False
        )
    setting, error = max(found, key=lambda pair: math.inf if math.isnan(pair[1]) else pair[1])
    ok = error > tolerance if name == "bias seen" else error <= tolerance
    return CheckResult(name, row, f"{len(found)} settings, largest at {setting}", error, tolerance, ok)


def _error(fast: Tensor, slow: Tensor) -> float:
    """Largest difference within a group, relative to the group's largest value (absolute if that is 0)."""
    scale = slow.abs().amax(dim=-1, keepdim=True) if slow.dim() else slow.abs()
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return float(((fast - slow).abs() / scale).max())


def _name(group: Tensor, k: int) -> str:
    return f"n={group.shape[-1]}" + (f", K={k}" if k else "")
