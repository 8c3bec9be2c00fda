"""The coefficients of the shortest gradient estimate, by least squares, from Gram products."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import BASELINES
from maxk_lab.estimators.checks import check_rewards

# Eigenvalues below this share of the largest count as zero: they are rounding errors in float64.
LEAST_EIGENVALUE = 1e-12


class Equations(NamedTuple):
    """The normal equations A α = c of least squares: a `[..., D, D]` and c `[..., D]`."""

    a: Tensor
    c: Tensor

    @classmethod
    def from_products(cls, products: Tensor) -> Equations:
        """Return the equations from the products of directions with directions and w0.

        products: `[..., D, D + 1]`.
        """
        return cls(products[..., :-1], -products[..., -1])

    def leave_one_out(self) -> Equations:
        """Return, for each entry of the first dimension, the sum over all other entries."""
        return Equations(sum_of_others(self.a), sum_of_others(self.c))

    def solution(self) -> Tensor:
        """Return the α `[..., D]` of least norm that minimises the error of A α = c, in float64.

        A is symmetric. A direction with eigenvalue 0 gets the coefficient 0.
        """
        inverse = torch.linalg.pinv(self.a.double(), rtol=LEAST_EIGENVALUE, hermitian=True)
        solution: Tensor = (inverse @ self.c.double().unsqueeze(-1)).squeeze(-1)
        return solution


def family_terms(rewards: Tensor, k: int, baseline: str) -> tuple[Tensor, Tensor]:
    """Return the weights of a baseline with coefficients as w = start + directions @ coefficients.

        affine    D = 1    start centred, direction subloo - centred, for 2 <= K < n;
                           the coefficient is alpha
        ladder    D = K-1  start centred, direction k (K/n) (rho_-i(K) - rho_-i(k)), for 2 <= K < n,
                           with rho_-i(k) the Max@k value of the others; the coefficients are
                           alpha_1 to alpha_(K-1), and alpha_K is what is left of 1
        constant  D = 1    start the score weights, direction -K/n, for 1 <= K <= n;
                           the coefficient c is in units of reward

    Unbiased for every coefficient that does not depend on the samples' own rewards and scores.

    rewards: `[..., n]`, i.i.d. along n, higher is better. Returns start `[..., n]` and directions
    `[..., n, D]` in the samples' order, float64 for any dtype of the rewards.
    """
    row = BASELINES.get(baseline)
    problem = row.refusal(check_rewards(rewards), k)
    if problem is not None:
        raise LabError(problem)
    return row.terms(rewards, k)


def sum_of_others(values: Tensor) -> Tensor:
    """Return the sum of all other entries of the first dimension.

    An entry's own value adds no rounding error.
    """
    none = torch.zeros_like(values[:1])
    before = torch.cat([none, values[:-1]]).cumsum(0)
    behind = torch.cat([values[1:], none]).flip(0).cumsum(0).flip(0)
    return before + behind
