"""The shape of a catalogue row of this room.

A row says what holds for an estimator or a baseline, and where it cannot run.

Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Row
from maxk_lab.settings import Setting

# The positive numbers per trajectory that a baseline may weight by, and what each is.
TRAJECTORY_WEIGHTS = {
    "uniform": "1",
    "length": "the number of tokens or decisions",
    "logit_proxy": "the sum over t of 1 - 2 pi_t + sum_a pi_t(a)^2",
    "grad_norm": "the exact squared norm of grad log pi",
}


@dataclass(frozen=True, kw_only=True)
class MethodRow(Row):
    """The facts of estimators and baselines alike: objective, bias, and (n, K) allowed.

    Whether it is `unbiased`, under `condition`, must be said. Its `constraint` follows from its
    bounds unless it is written.
    """

    formula: str
    objective: str = "J_K"
    unbiased: bool
    condition: str = "the n samples are i.i.d."
    constraint: str = ""
    shift_invariant: bool = False
    parameter: Setting | None = None
    least_n: int = 1
    least_k: int = 1
    most_k: int | None = None
    k_below_n: bool = False
    # Whether the row is defined for rewards 0 and 1 only.
    binary_rewards: bool = False
    # Of a biased row, where E[estimate] = scale(n, K) * gradient; None if its direction is biased.
    scale: Callable[[int, int], float] | None = None
    # Values of the parameter at which a row that is biased in general is unbiased.
    unbiased_settings: tuple[Any, ...] = ()
    # Values of the parameter at which a row that is unbiased in general is biased, in direction
    # too.
    biased_settings: tuple[Any, ...] = ()
    # The definition on a group of exact fractions, `package.module:name`, that `maxk-lab check`
    # compares the function with; a row without one is checked for its bias only.
    twin: str | None = None
    # Further spellings, with other values of the parameter, that `maxk-lab check` runs.
    examples: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.constraint:
            k = f"{self.least_k} <= K {'<' if self.k_below_n else '<='} n"
            if self.most_k == self.least_k:
                k = f"K = {self.most_k}"
            n = f" and n >= {self.least_n}" if self.least_n > 1 else ""
            # The dataclass is frozen to all others.
            vars(self)["constraint"] = k + n

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        """Why this row cannot run with n samples and subsets of K, or None."""
        most = n - 1 if self.k_below_n else n
        if self.most_k is not None:
            most = min(most, self.most_k)
        if n >= self.least_n and self.least_k <= k <= most:
            return None
        return self.unmet(n, k)

    def unmet(self, n: int, k: int) -> str:
        """The message that n and K do not meet the constraint."""
        return f"{self.name} needs {self.constraint}, got K = {k} and n = {n}"

    def is_unbiased(self, **params: Any) -> bool:
        """Whether the row is unbiased with its parameter at this value, by default the default."""
        if self.parameter is None:
            return self.unbiased
        value = params.get(self.parameter.name, self.parameter.default)
        settings = self.biased_settings if self.unbiased else self.unbiased_settings
        return (value in settings) is not self.unbiased

    def expected_scale(self, n: int, k: int, **params: Any) -> float:
        """The estimate's mean over the gradient; NaN if its direction is biased, too."""
        if self.is_unbiased(**params):
            return 1.0
        return math.nan if self.unbiased or self.scale is None else self.scale(n, k)
