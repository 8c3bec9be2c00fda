"""The blocks of a training study's settings, and what each value must be. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError


@dataclass(frozen=True)
class Block:
    """A block of settings; a block within it may be given as a mapping."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """The block that `mapping` describes, defaults filled in. Raises `LabError` for an unknown key."""
        known = {f.name: f for f in fields(cls)}
        for key in mapping:
            if key not in known:
                also = did_you_mean(str(key), known)
                raise LabError(f"unknown training setting {key!r}{also}; known: {', '.join(known)}")
        return cls(
            **{key: _value(known[key].default_factory, value) for key, value in mapping.items()}
        )


def _value(factory: Any, value: Any) -> Any:
    if isinstance(factory, type) and issubclass(factory, Block) and isinstance(value, Mapping):
        return factory.from_mapping(value)
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class KLSettings(Block):
    """The pull towards a reference policy. `k1` in the reward is the one that is unbiased for β ∇KL(π‖ref)."""

    place: str = "none"
    type: str = "k1"
    beta: float = 0.05
    reference: str = "frozen"
    reference_every: int = 50

    def problems(self) -> Iterator[str]:
        """What is wrong with these settings, one line each."""
        yield from one_of("kl.place", self.place, ("none", "reward", "loss"))
        yield from one_of("kl.type", self.type, ("k1", "k2", "k3"))
        yield from one_of("kl.reference", self.reference, ("frozen", "moving"))
        yield from at_least("kl.beta", self.beta, 0)
        yield from at_least("kl.reference_every", self.reference_every, 1)


@dataclass(frozen=True)
class LossSettings(Block):
    """The surrogate loss: which ratio, how it is clipped and how its terms are added up (see `training.loss`)."""

    ratio: str = "sequence"
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    dual_clip: float | None = None
    aggregation: str = "seq_sum"
    divisor: float | None = None

    def problems(self) -> Iterator[str]:
        """What is wrong with these settings, one line each."""
        yield from one_of("loss.ratio", self.ratio, ("sequence", "token"))
        yield from one_of(
            "loss.aggregation", self.aggregation, ("seq_sum", "seq_mean", "token_mean", "fixed")
        )
        yield from above("loss.epsilon_low", self.epsilon_low, 0)
        if self.epsilon_low >= 1:
            yield f"loss.epsilon_low must be less than 1, got {self.epsilon_low}"
        yield from above("loss.epsilon_high", self.epsilon_high, 0)
        if self.dual_clip is not None:
            yield from above("loss.dual_clip", self.dual_clip, 1)
        if self.aggregation == "fixed" and self.divisor is None:
            yield "loss.divisor must be given for aggregation fixed"
        if self.divisor is not None:
            yield from above("loss.divisor", self.divisor, 0)


@dataclass(frozen=True)
class EvaluateSettings(Block):
    """How often the policy is evaluated, with how many samples of each of how many held-out instances, and what else at the end.

    `data`, {"path", "sha256"} of a file or folder, takes the place of instances drawn; `reference` says where optima come from.
    """

    every: int = 50
    instances: int = 128
    samples: int = 64
    extras: tuple[str, ...] = ()
    data: Mapping[str, str] | None = field(default=None, hash=False)
    reference: str = "auto"

    def problems(self) -> Iterator[str]:
        """What is wrong with these settings, one line each."""
        for name in ("every", "instances", "samples"):
            yield from at_least(f"evaluate.{name}", getattr(self, name), 1)
        for extra in self.extras:
            yield from one_of("evaluate.extras", extra, ("greedy", "augmentation", "multistart"))
        yield from one_of("evaluate.reference", self.reference, ("auto", "none", "exact", "pyvrp"))


@dataclass(frozen=True)
class KScheduleSettings(Block):
    """The K of every step (see `training.schedule`); `first` and `until` are read unless it is fixed."""

    kind: str = "fixed"
    first: int = 1
    until: int = 100

    def problems(self) -> Iterator[str]:
        """What is wrong with these settings, one line each."""
        yield from one_of("k_schedule.kind", self.kind, ("fixed", "linear", "step"))
        yield from at_least("k_schedule.first", self.first, 1)
        yield from at_least("k_schedule.until", self.until, 1)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> Iterator[str]:
    """The problem of a value that is none of `choices`, with the nearest of them."""
    if value not in choices:
        also = did_you_mean(str(value), choices)
        yield f"{name} must be one of {', '.join(choices)}, got {value!r}{also}"


def at_least(name: str, value: float, low: float) -> Iterator[str]:
    """The problem of a value below `low`, infinite or NaN."""
    if not (math.isfinite(value) and value >= low):
        yield f"{name} must be at least {low}, got {value}"


def above(name: str, value: float, low: float) -> Iterator[str]:
    """The problem of a value not above `low`, infinite or NaN."""
    if not (math.isfinite(value) and value > low):
        yield f"{name} must be greater than {low}, got {value}"
