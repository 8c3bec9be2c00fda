"""The result of a check, also of an unfinished check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Law:
    """A property of weights, whether it holds, and the smallest group that breaks it.

    `needed` is True if the weights are wrong without it.
    """

    name: str
    holds: bool
    detail: str = ""
    needed: bool = False


@dataclass(frozen=True)
class Bias:
    """E[Σ w_i ψ_i] at one n against ∇J_K on tiny bandits, with all outcomes enumerated.

    `factor` is the lowest and the highest multiple along the gradient, `cosine` the lowest cosine.
    `variance` is the largest relative variance, tr Cov/‖E‖², over that of the best unbiased row.
    """

    n: int
    factor: tuple[float, float]
    cosine: float
    variance: float


@dataclass(frozen=True)
class Verdict:
    """The result of a check.

    `verdict` is one line, and `seen` describes the groups behind it. `unbiased` means that E[Σ w_i
    ψ_i] is ∇J_K times a factor of n and K on all groups. `ok` means unbiased without a broken law
    that weights need. `objective` names the J whose gradient it estimates. `equals` is the
    catalogue row with the same weights times `factor`; `example` is the smallest counterexample,
    and `change` the advice.
    """

    function: str
    k: int
    verdict: str
    seen: str = ""
    unbiased: bool = False
    ok: bool = False
    objective: str = ""
    equals: str = ""
    factor: str = ""
    example: str = ""
    change: str = ""
    bias: tuple[Bias, ...] = ()
    laws: tuple[Law, ...] = ()


class LateError(Exception):
    """The time of a check is up."""


def judge_steps(
    steps: Iterable[Callable[[], object]], judge: Callable[[], Verdict]
) -> Iterator[Callable[[], Verdict]]:
    """Yield `judge` after 1, 2, 4, 8 ... steps and every few seconds, and at the end."""
    last = time.monotonic()
    try:
        for number, step in enumerate(steps, start=1):
            step()
            if number & (number - 1) == 0 or time.monotonic() > last + 5:
                yield judge
                last = time.monotonic()
    except LateError:
        pass
    yield judge
