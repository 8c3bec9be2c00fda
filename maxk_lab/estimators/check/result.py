"""The findings of a check, and the small groups of rewards it is run on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

EXACT = 1e-12


@dataclass(frozen=True)
class CheckResult:
    """One check of one row: the worst error over its settings against its tolerance."""

    name: str
    row: str
    detail: str
    error: float
    tolerance: float
    ok: bool


def small_groups(*, binary: bool = False) -> Iterator[Tensor]:
    """Small groups of rewards, `[..., n]` float64: plain, tied, binary, shifted, tiny and huge.

    With `binary`, 0 and 1 only.
    """
    generator = torch.Generator().manual_seed(0)
    for n in (1, 2, 3, 4, 6, 7):
        plain = torch.randn(n, generator=generator, dtype=torch.float64)
        tied = torch.randint(0, 3, (n,), generator=generator).double()
        single = torch.zeros(n, dtype=torch.float64)
        single[n // 2] = 1.0
        if binary:
            yield torch.stack([single, 1.0 - single, 0.0 * single, (plain > 0).double()])
            continue
        yield torch.stack([plain, tied, single])
        yield (-1e4 + 1e-3 * plain).float().double()
        yield torch.stack([1e-200 * plain, 1e200 * plain])


def trajectory_weights(rewards: Tensor) -> dict[str, Tensor]:
    """A g of every kind for rewards `[..., n]`.

    Lengths are whole, proxies moderate, norms span many magnitudes.
    """
    generator = torch.Generator().manual_seed(rewards.shape[-1])
    norms = torch.randn(rewards.shape, generator=generator, dtype=torch.float64)
    return {
        "length": torch.randint(1, 6, rewards.shape, generator=generator),
        "logit_proxy": torch.rand(rewards.shape, generator=generator, dtype=torch.float64) + 0.01,
        "grad_norm": 10.0 ** (4.0 * norms),
    }


def importance_ratios(rewards: Tensor) -> Tensor:
    """Importance ratios around 1 for rewards `[..., n]`, of the same shape."""
    generator = torch.Generator().manual_seed(rewards.shape[-1])
    return torch.randn(rewards.shape, generator=generator, dtype=torch.float64).mul_(0.5).exp_()


def worst(
    name: str, row: str, errors: Iterable[tuple[str, float]], tolerance: float
) -> CheckResult:
    """The largest error of all settings, NaN above all.

    For `bias seen` it must exceed the tolerance.
    """
    found = list(errors)
    if not found:
        return CheckResult(
            name, row, "no setting of this check can run the row", math.nan, tolerance, ok=False
        )
    setting, error = max(found, key=lambda pair: math.inf if math.isnan(pair[1]) else pair[1])
    ok = error > tolerance if name == "bias seen" else error <= tolerance
    return CheckResult(
        name, row, f"{len(found)} settings, largest at {setting}", error, tolerance, ok
    )


def error_of(fast: Tensor, slow: Tensor) -> float:
    """The largest difference relative to the group's largest value, or absolute if that is 0."""
    scale = slow.abs().amax(dim=-1, keepdim=True) if slow.dim() else slow.abs()
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return float(((fast - slow).abs() / scale).max())


def name_of(group: Tensor, k: int) -> str:
    return f"n={group.shape[-1]}" + (f", K={k}" if k else "")
