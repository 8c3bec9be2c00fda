"""The settings of a training study: every option of the step, unbiased by default. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from maxk_lab.catalogue import nearest
from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import (
    choose_baseline,
    choose_estimator,
    fit_of,
    is_token_level,
    needs_ratios,
    refusal,
)
from maxk_lab.estimators.normalization import WEIGHT_NORMALIZATIONS

STAGES = ("clip", "kl")


@dataclass(frozen=True)
class _Block:
    """A block of settings; a block within it may be given as a mapping."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """The block that `mapping` describes, defaults filled in. Raises `LabError` for an unknown key."""
        known = {f.name: f for f in fields(cls)}
        for key in mapping:
            if key not in known:
                hint = nearest(str(key), known)
                also = f" (did you mean {hint}?)" if hint else ""
                raise LabError(f"unknown training setting {key!r}{also}; known: {', '.join(known)}")
        return cls(**{key: _value(known[key].default_factory, value) for key, value in mapping.items()})


def _value(factory: Any, value: Any) -> Any:
    if isinstance(factory, type) and issubclass(factory, _Block) and isinstance(value, Mapping):
        return factory.from_mapping(value)
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class KLSettings(_Block):
    """The pull towards a reference policy. `k1` in the reward is the one that is unbiased for β ∇KL(π‖ref)."""

    place: str = "none"
    type: str = "k1"
    beta: float = 0.05
    reference: str = "frozen"
    reference_every: int = 50

    def problems(self) -> Iterator[str]:
        """What is wrong with these settings, one line each."""
        yield from _one_of("kl.place", self.place, ("none", "reward", "loss"))
        yield from _one_of("kl.type", self.type, ("k1", "k2", "k3"))
        yield from _one_of("kl.reference", self.reference, ("frozen", "moving"))
        yield from _at_least("kl.beta", self.beta, 0)
        yield from _at_least("kl.reference_every", self.reference_every, 1)


@dataclass(frozen=True)
class LossSettings(_Block):
    """The surrogate loss: which ratio, how it is clipped and how its terms are added up (see `training.loss`)."""

    ratio: str = "sequence"
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    dual_clip: float | None = None
    aggregation: str = "seq_sum"
    divisor: float | None = None

    def problems(self) -> Iterator[str]:
        """What is wrong with these settings, one line each."""
        yield from _one_of("loss.ratio", self.ratio, ("sequence", "token"))
        yield from _one_of(
            "loss.aggregation", self.aggregation, ("seq_sum", "seq_mean", "token_mean", "fixed")
        )
        yield from _above("loss.epsilon_low", self.epsilon_low, 0)
        if self.epsilon_low >= 1:
            yield f"loss.epsilon_low must be less than 1, got {self.epsilon_low}"
        yield from _above("loss.epsilon_high", self.epsilon_high, 0)
        if self.dual_clip is not None:
            yield from _above("loss.dual_clip", self.dual_clip, 1)
        if self.aggregation == "fixed" and self.divisor is None:
            yield "loss.divisor must be given for aggregation fixed"
        if self.divisor is not None:
            yield from _above("loss.divisor", self.divisor, 0)


@dataclass(frozen=True)
class EvaluateSettings(_Block):
    """How often the policy is evaluated, on how many held-out instances, with how many samples of each."""

    every: int = 50
    instances: int = 128
    samples: int = 64

    def problems(self) -> Iterator[str]:
        """What is wrong with these settings, one line each."""
        for name in ("every", "instances", "samples"):
            yield from _at_least(f"evaluate.{name}", getattr(self, name), 1)


@dataclass(frozen=True)
class Settings(_Block):
    """The settings of a training study but for its grid. `batch` counts rollouts, so a step takes batch / n instances."""

    steps: int = 300
    batch: int = 256
    learning_rate: float = 1e-3
    max_grad_norm: float | None = None
    entropy_bonus: float = 0.0
    inner_epochs: int = 1
    reward_clip: tuple[float, float] | None = None
    reward_order: tuple[str, ...] = STAGES
    kl: KLSettings = field(default_factory=KLSettings)
    normalize_advantages: bool = False
    weight_normalization: str = "none"
    min_gap_scale: float | None = None
    loss: LossSettings = field(default_factory=LossSettings)
    truncated: str = "keep"
    checkpoint_every: int = 50
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)

    def problems(self) -> Iterator[str]:
        """What is wrong with these settings, one line each."""
        yield from _at_least("steps", self.steps, 0)
        for name in ("batch", "inner_epochs", "checkpoint_every"):
            yield from _at_least(name, getattr(self, name), 1)
        yield from _above("learning_rate", self.learning_rate, 0)
        yield from _at_least("entropy_bonus", self.entropy_bonus, 0)
        for name in ("max_grad_norm", "min_gap_scale"):
            if getattr(self, name) is not None:
                yield from _above(name, getattr(self, name), 0)
        if self.reward_clip is not None and not (
            len(self.reward_clip) == 2 and self.reward_clip[0] < self.reward_clip[1]
        ):
            yield f"reward_clip must be [low, high] with low < high, got {list(self.reward_clip)}"
        if sorted(self.reward_order) != sorted(STAGES):
            yield f"reward_order must name {' and '.join(STAGES)} once each, got {list(self.reward_order)}"
        yield from _one_of("weight_normalization", self.weight_normalization, tuple(WEIGHT_NORMALIZATIONS))
        yield from _one_of("truncated", self.truncated, ("keep", "mask_loss", "mask_all"))
        yield from self.kl.problems()
        yield from self.loss.problems()
        yield from self.evaluate.problems()


@dataclass(frozen=True)
class Weighting:
    """One value of each axis of the grid: how the n rewards of an instance become n weights, for the objective J_K."""

    estimator: str
    baseline: str
    n: int
    k: int

    def refusal(self, n: int) -> str | None:
        """Why this pair cannot weight `n` samples, or None."""
        return refusal(self.estimator, self.baseline, n, self.k)


def check(settings: Settings, weighting: Weighting) -> None:
    """Raise one `LabError` with everything that forbids training with these settings and this weighting."""
    problems = list(settings.problems())
    problems += filter(None, [weighting.refusal(weighting.n)])
    if weighting.n >= 1 and settings.batch % weighting.n:
        lower = settings.batch // weighting.n * weighting.n
        valid = " or ".join(str(size) for size in (lower, lower + weighting.n) if size)
        problems.append(
            f"n must divide batch: {settings.batch} / {weighting.n}; the nearest batch is {valid}"
        )
    if weighting.k > settings.evaluate.samples:
        problems.append(
            f"evaluate.samples must be at least k = {weighting.k}, got {settings.evaluate.samples}"
        )
    if is_token_level(weighting.baseline) and (
        settings.weight_normalization != "none" or settings.min_gap_scale is not None
    ):
        problems.append(
            f"{weighting.baseline} gives one weight per token: no weight_normalization or min_gap_scale"
        )
    if settings.weight_normalization == "zscore" and weighting.n < 2:
        problems.append(f"weight_normalization zscore needs n >= 2, got {weighting.n}")
    if settings.kl.place == "reward" and _needs_binary(weighting):
        problems.append(f"{weighting.estimator} needs rewards of 0 and 1: no kl.place reward")
    problems += _of_fit(settings, weighting)
    problems += _of_ratios(settings, weighting)
    if problems:
        raise LabError("; ".join(problems))


def _of_fit(settings: Settings, weighting: Weighting) -> Iterator[str]:
    """What keeps a baseline's coefficients from being fitted in a training step."""
    fit = fit_of(weighting.estimator, weighting.baseline)
    if fit == "oracle":
        yield (
            f"{weighting.baseline} is computed from the whole policy, by complete enumeration: "
            "it bounds what a gradient study measures and cannot be trained with"
        )
    if fit == "cross_fit" and settings.batch < 2 * weighting.n:
        yield (
            f"{weighting.baseline} is fitted on the other instances of a batch: batch must be at least 2 n = "
            f"{2 * weighting.n}, got {settings.batch}"
        )


def _of_ratios(settings: Settings, weighting: Weighting) -> Iterator[str]:
    """What a loss without a clipped ratio, whose weights hold the ratios of whole sequences, has no place for."""
    if not needs_ratios(weighting.estimator):
        return
    loss, name = settings.loss, weighting.estimator
    if loss.ratio != "sequence":
        yield f"{name} weights whole sequences: loss.ratio must be sequence, got {loss.ratio}"
    if loss.aggregation not in ("seq_sum", "fixed"):
        yield f"{name} weights whole sequences: loss.aggregation must be seq_sum or fixed, got {loss.aggregation}"
    if loss.dual_clip is not None:
        yield f"{name} clips no ratio: no loss.dual_clip, got {loss.dual_clip}"


def _needs_binary(weighting: Weighting) -> bool:
    rows = choose_estimator(weighting.estimator).row, choose_baseline(weighting.baseline).row
    return any(row.binary_rewards for row in rows)


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> Iterator[str]:
    if value not in choices:
        hint = nearest(str(value), choices)
        also = f" (did you mean {hint}?)" if hint else ""
        yield f"{name} must be one of {', '.join(choices)}, got {value!r}{also}"


def _at_least(name: str, value: float, low: float) -> Iterator[str]:
    if not (math.isfinite(value) and value >= low):
        yield f"{name} must be at least {low}, got {value}"


def _above(name: str, value: float, low: float) -> Iterator[str]:
    if not (math.isfinite(value) and value > low):
        yield f"{name} must be greater than {low}, got {value}"
