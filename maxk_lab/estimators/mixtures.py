"""Mixtures lambda A + (1 - lambda) B of two methods, with their bias.

E[Σ w ∇log π] is lambda times that of A plus 1 - lambda times that of B. A mixture of unbiased
methods is unbiased for lambda J_A + (1 - lambda) J_B. A mixture has a scale if both methods have a
scale, and share the scale or the objective. This module does not import torch.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from maxk_lab.errors import LabError, shown
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.settings import Setting

if TYPE_CHECKING:
    from torch import Tensor

# A word of the parameter; brackets of a method may contain blanks.
_WORD = re.compile(r"(?:\[[^\]]*\]|[^\s\[])+")
_SHARE = Setting("lambda", Annotated[float, Field(ge=0, le=1)], 0.5)
Parts = tuple[float, str, str]


class Mixture(Method):
    """The estimator `mix` at a K: its objective, bias and rewards follow from its parts."""

    @cached_property
    def parts(self) -> list[tuple[float, Method]]:
        """Return the share and the method of each part with a share above 0."""
        return _methods(self.estimator.params["parts"], self.k)

    def objective_at(self, n: int) -> Objective:
        first, *rest = (method.objective_at(n) for _, method in self.parts)
        return Objective.mixture(self.parts[0][0], first, rest[0]) if rest else first

    def refusal(self, n: int) -> str | None:
        reasons = (method.refusal(n) for _, method in self.parts)
        return self.pair_refusal or next((reason for reason in reasons if reason), None)

    @property
    def is_unbiased(self) -> bool:
        return all(method.is_unbiased for _, method in self.parts)

    @property
    def is_derived(self) -> bool:
        return all(method.is_derived for _, method in self.parts)

    def expected_scale(self, n: int) -> float:
        scales = [method.expected_scale(n) for _, method in self.parts]
        objectives = {method.objective_at(n) for _, method in self.parts}
        if len(objectives) > 1 and len(set(scales)) > 1:
            return math.nan
        return math.fsum(
            share * scale for (share, _), scale in zip(self.parts, scales, strict=True)
        )

    @property
    def is_shift_invariant(self) -> bool:
        return all(method.is_shift_invariant for _, method in self.parts)

    @property
    def needs_binary_rewards(self) -> bool:
        return any(method.needs_binary_rewards for _, method in self.parts)


def mixed_weights(rewards: Tensor, k: int, parts: Parts) -> Tensor:
    """Return share * weights(A) + (1 - share) * weights(B) `[..., n]`, float64."""
    first, *rest = (
        share * method.weights(rewards.double()) for share, method in _methods(parts, k)
    )
    return sum(rest, first)


def read_parts(written: Any) -> Parts:
    """Parse `0.5 maxk/subloo reinforce/rloo`. Raises `ValueError` with what is allowed."""
    words = _WORD.findall(written) if isinstance(written, str) else written
    if not isinstance(words, list | tuple) or len(words) != 3:
        raise ValueError(f"must be lambda and two methods, got {shown(written)}")
    try:
        share, names = float(_SHARE.parse(words[0])), [_name(_method(word)) for word in words[1:]]
    except LabError as error:
        raise ValueError(str(error).strip()) from None
    return share, names[0], names[1]


def _methods(parts: Parts, k: int) -> list[tuple[float, Method]]:
    """Return the share and the method of each part with a share above 0."""
    share, *names = parts
    both = zip((share, 1.0 - share), (_method(name, k) for name in names), strict=True)
    return [(each, method) for each, method in both if each]


def _method(name: str, k: int = 1) -> Method:
    """Return the method `estimator/baseline`, or `estimator` with its default baseline."""
    chosen, _, baseline = name.partition("/")
    return Method.parse(chosen, baseline or choose_estimator(chosen).row.default_baseline, k)


def _name(method: Method) -> str:
    """Return the spelling of a part. Raises `LabError` if the method cannot be a part."""
    estimator, baseline = method.estimator.name, method.baseline.name
    if (problem := method.pair_refusal) is not None:
        raise LabError(problem)
    if isinstance(method, Mixture) or not method.needs_rewards_alone:
        raise LabError(f"must be methods that need rewards alone, got {estimator}/{baseline}")
    return f"{estimator}/{baseline}" if method.takes_baseline else estimator
