"""The forms of objectives: L-statistics with their parameters and weights. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field

from maxk_lab.errors import LabError
from maxk_lab.estimators.parameters import number_or_word
from maxk_lab.fields import AtLeastOne
from maxk_lab.settings import Setting

Weights = tuple[Fraction, ...]


@dataclass(frozen=True)
class Form:
    """A kind of L-statistic: its parameter, and alpha_1..alpha_K of a parsed value and K.

    `weights` raises `LabError` where there is no such statistic of K rewards.
    """

    name: str
    parameter: Setting | None
    weights: Callable[[Any, int], Weights]


def _exact(number: float) -> Fraction:
    """The decimal that was written: 0.07 * 100 is 7, as a sweep's writer means it."""
    return Fraction(repr(number))


def _between(low: Fraction, high: Fraction, k: int) -> Weights:
    """The mean of the quantiles from `low` to `high`.

    Each order statistic stands for one K-th of [0, 1]; that on a boundary counts with the part of
    its K-th that is inside.
    """
    inside = [
        max(Fraction(0), min(high, Fraction(j, k)) - max(low, Fraction(j - 1, k)))
        for j in range(1, k + 1)
    ]
    return tuple(share / (high - low) for share in inside)


def _top(m: int, k: int) -> Weights:
    if m > k:
        raise LabError(f"the m of top_m must be at most K = {k}, got {m}")
    return _between(Fraction(k - m, k), Fraction(1), k)


def _median(k: int) -> Weights:
    middle = {(k - 1) // 2, k // 2}
    return tuple(Fraction(j in middle, len(middle)) for j in range(k))


def _explicit(alpha: tuple[float, ...], k: int) -> Weights:
    if len(alpha) != k:
        raise LabError(f"l_statistic must have as many weights as K = {k}, got {len(alpha)}")
    return tuple(map(_exact, alpha))


def _share_of(which: str) -> Setting:
    meaning = f"the share of {which} rewards that count, more than 0"
    return Setting("q", Annotated[float, Field(gt=0, le=1.0)], 0.25, meaning)


FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        Form("max", None, lambda value, k: _top(1, k)),
        Form(
            "top_m",
            Setting("m", AtLeastOne, 2, "how many of the best count, at most K"),
            _top,
        ),
        Form(
            "cvar_upper",
            _share_of("best"),
            lambda q, k: _between(1 - _exact(q), Fraction(1), k),
        ),
        Form(
            "cvar_lower",
            _share_of("worst"),
            lambda q, k: _between(Fraction(0), _exact(q), k),
        ),
        Form("median", None, lambda value, k: _median(k)),
        Form(
            "trimmed_mean",
            Setting(
                "p",
                Annotated[float, Field(ge=0.0, lt=0.5)],
                0.1,
                "the share cut off at either end, less than 0.5",
            ),
            lambda p, k: _between(_exact(p), 1 - _exact(p), k),
        ),
        Form(
            "l_statistic",
            number_or_word(
                "alpha",
                (1.0,),
                "alpha_1 to alpha_K, worst reward first; K is their number",
                several=True,
            ),
            _explicit,
        ),
    )
}
