"""The coherence of measured scores: how large mean gradients are, and how far prompts differ.

P prompts, M samples, D numbers of a score, J logs that each lack a block of prompts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.own.plans.jackknife import half_width, shares_of_prompts
from maxk_lab.own.plans.products import BlockScores, LoggedScores
from maxk_lab.statistics.estimates import Array

Range = tuple[float, float, float]
# Random halves of the samples of a prompt.
_HALVES = 8
# κ and β lie in this range, or no gradient would be left.
_LEAST, _MOST = 1e-6, 0.999


# How a plan knows gradients, by the rule of `plans.steps`.
_RULES = {
    "scores": "scores of these samples; ",
    "ranks": "scores measured at the ranks of rewards; ",
    "coherence": "",
}


@dataclass(frozen=True)
class Coherence:
    """κ and β, each a value with the ends of a range, and how they are known.

    `coherence` κ is E‖∇J_K‖² over prompts as a share of the most that scores of this norm allow,
    E‖ψ‖² Var h_K(R). `between` β is the share of E‖∇J_K‖² that differs between prompts. `rule` is
    that of `plans.steps`: κ is 1 where a rule has the norm of gradients itself.
    """

    coherence: Range = (0.05, 0.005, 0.5)
    between: Range = (0.5, 0.5, 0.5)
    source: str = "assumed"
    rule: str = "coherence"

    def under(self, rule: str) -> Coherence:
        """Return the values that a rule uses."""
        kappa = self.coherence if rule == "coherence" else (1.0, 1.0, 1.0)
        return replace(self, coherence=kappa, rule=rule)

    def __str__(self) -> str:
        """Return one line."""
        words = {"coherence": self.coherence, "share between prompts": self.between}
        texts = [
            f"{name} {value:.2g}" + (f" ({low:.2g} to {high:.2g})" if low < high else "")
            for name, (value, low, high) in words.items()
            if self.rule == "coherence" or name != "coherence"
        ]
        return f"{_RULES[self.rule]}{self.source}: {', '.join(texts)}"


ASSUMED = Coherence()
_UNKNOWN: Range = (0.5, 0.1, 0.9)


def coherences(
    rewards: Tensor, products: Tensor, scores: Tensor | None, ks: Iterable[int]
) -> dict[int, Coherence]:
    """Return the coherence of rewards [P, M] with products ψ·ψ [P, M, M] for each K that it has.

    The share between prompts is assumed without `scores` [P, M, D], and with two prompts. The
    ranges are 95 % jackknife intervals over prompts. A K is left out if half of the samples are too
    few for it, if there are fewer than two prompts, or if its mean gradient is not above zero.
    """
    prompts, samples = rewards.shape
    counts = shares_of_prompts(prompts)
    norms = products.diagonal(0, 1, 2).mean(1)
    result = {}
    for k in ks:
        method = Method.parse("maxk", "centred", k)
        if method.refusal(samples // 2) is not None or prompts < 2:
            continue
        squared = squared_gradients(rewards, LoggedScores(products), k)
        weights = method.weights(rewards)
        most = (norms * (samples - 1) * weights.square().sum(1)).numpy()
        with np.errstate(divide="ignore", invalid="ignore"):
            kappa = (counts @ squared) / (counts @ most)
        if not kappa[0] > 0:
            continue
        between = _UNKNOWN
        if scores is not None and prompts > 2:  # the jackknife leaves one out, and needs a pair
            means = (weights[:, None, :] @ scores)[:, 0]
            across = (means @ means.T).fill_diagonal_(0).numpy()
            pairs = counts.sum(1) ** 2 - (counts**2).sum(1)
            across = ((counts @ across) * counts).sum(1) / pairs
            share = 1 - across / (counts @ squared / counts.sum(1))
            between = _range(share)
        result[k] = Coherence(_range(kappa), between, "measured")
    return result


def squared_gradients(rewards: Tensor, scores: BlockScores, k: int) -> Array:
    """Return unbiased estimates of ‖∇J_K‖² of each prompt, [P].

    They are products of the estimates of two halves of the samples.
    """
    prompts, samples = rewards.shape
    half, generator = samples // 2, torch.Generator().manual_seed(0)
    method, total = Method.parse("maxk", "centred", k), np.zeros(prompts)
    for _ in range(_HALVES):
        order = torch.rand(prompts, samples, generator=generator).argsort(1)
        first, second = (
            torch.zeros_like(rewards).scatter(1, places, method.weights(rewards.gather(1, places)))
            for places in (order[:, :half], order[:, half : 2 * half])
        )
        total += scores.inner_products(first, second).numpy() / _HALVES
    return total


def _range(values: Array) -> Range:
    """Return the first value [1 + J] with its 95 % interval, inside the bounds."""
    value, *lacking = np.nan_to_num(values, nan=_MOST, posinf=_MOST, neginf=_LEAST)
    half = half_width(np.array(lacking))
    ends = np.clip((value, value - half, value + half), _LEAST, _MOST)
    return float(ends[0]), float(ends[1]), float(ends[2])
