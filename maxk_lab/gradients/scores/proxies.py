"""Correlations per instance of the cheap trajectory weights with ‖ψ‖², which they replace."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.gradients.scores.pool import ScorePool

PROXIES = ("length", "logit_proxy")
# A spread below this share of the largest value is rounding.
ROUNDING = 1e-12


def proxy_correlations(pool: ScorePool) -> dict[str, list[float | None]]:
    """Return the correlation of each of `PROXIES` with ‖ψ‖², a number per instance.

    It is None where one of the two does not vary or does not exist. Exact, under the policy's own
    probabilities, where the pool lists every trajectory; over the drawn trajectories elsewhere.
    """
    found: dict[str, list[float | None]] = {name: [] for name in PROXIES}
    for i in range(len(pool.rewards)):
        for name in PROXIES:
            if pool.listed:
                proxy, norm = pool.listed_weight(name)[i], pool.listed_weight("grad_norm")[i]
                chance = pool.probabilities[i]
            else:
                proxy, norm = (
                    pool.trajectory_weight(name)[i],
                    pool.trajectory_weight("grad_norm")[i],
                )
                chance = torch.full_like(norm, 1 / len(norm))
            found[name].append(correlation(proxy, norm, chance))
    return found


def correlation(x: Tensor, y: Tensor, chance: Tensor) -> float | None:
    """Return the Pearson correlation of x and y [A] under the probabilities `chance` [A].

    It is None where one of them does not vary or is NaN.
    """
    chance = chance / chance.sum()
    centred, spreads = [], []
    for values in (x.double(), y.double()):
        centred.append(values - chance @ values)
        spreads.append((chance @ centred[-1].square()).sqrt())
        if not float(spreads[-1]) > ROUNDING * float(values.abs().max()):
            return None
    return float((chance @ (centred[0] * centred[1])) / (spreads[0] * spreads[1]))
