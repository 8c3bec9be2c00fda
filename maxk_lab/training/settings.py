"""The settings of a training study: every option of the step, unbiased by default. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

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
from maxk_lab.training.blocks import (
    Block,
    EvaluateSettings,
    KLSettings,
    KScheduleSettings,
    LossSettings,
    above,
    at_least,
    one_of,
)
from maxk_lab.training.schedule import scheduled_ks

__all__ = [
    "EvaluateSettings",
    "KLSettings",
    "KScheduleSettings",
    "LossSettings",
    "Settings",
    "Weighting",
    "check",
]

STAGES = ("clip", "kl")


@dataclass(frozen=True)
class Settings(Block):
    """The settings of a training study but for its grid. `batch` counts rollouts, so a step takes batch / n instances.

    With the start `multistart` the samples of an instance are not i.i.d. and the objective is another one. `amp` runs the policy's
    passes of a step, not those of an evaluation, in bfloat16. `snapshots` are steps, 0 the start, after which the policy is kept.
    """

    steps: int = 300
    batch: int = 256
    learning_rate: float = 1e-3
    max_grad_norm: float | None = None
    entropy_bonus: float = 0.0
    inner_epochs: int = 1
    start: str = "iid"
    reward_scale: float = 1.0
    reward_clip: tuple[float, float] | None = None
    reward_order: tuple[str, ...] = STAGES
    kl: KLSettings = field(default_factory=KLSettings)
    k_schedule: KScheduleSettings = field(default_factory=KScheduleSettings)
    normalize_advantages: bool = False
    weight_normalization: str = "none"
    min_gap_scale: float | None = None
    loss: LossSettings = field(default_factory=LossSettings)
    truncated: str = "keep"
    amp: bool = False
    device: str = "auto"
    checkpoint_every: int = 50
    snapshots: tuple[int, ...] = ()
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)

    def problems(self) -> Iterator[str]:
        """What is wrong with these settings, one line each."""
        yield from at_least("steps", self.steps, 0)
        for name in ("batch", "inner_epochs", "checkpoint_every"):
            yield from at_least(name, getattr(self, name), 1)
        for name in ("learning_rate", "reward_scale"):
            yield from above(name, getattr(self, name), 0)
        yield from at_least("entropy_bonus", self.entropy_bonus, 0)
        for name in ("max_grad_norm", "min_gap_scale"):
            if getattr(self, name) is not None:
                yield from above(name, getattr(self, name), 0)
        if self.reward_clip is not None and not (
            len(self.reward_clip) == 2 and self.reward_clip[0] < self.reward_clip[1]
        ):
            yield f"reward_clip must be [low, high] with low < high, got {list(self.reward_clip)}"
        if sorted(self.reward_order) != sorted(STAGES):
            yield f"reward_order must name {' and '.join(STAGES)} once each, got {list(self.reward_order)}"
        yield from one_of(
            "weight_normalization", self.weight_normalization, tuple(WEIGHT_NORMALIZATIONS)
        )
        yield from one_of("start", self.start, ("iid", "multistart"))
        yield from one_of("device", self.device, ("auto", "cpu", "cuda"))
        outside = [step for step in self.snapshots if not 0 <= step <= self.steps]
        if outside:
            yield f"snapshots must be steps from 0 to steps = {self.steps}, got {outside}"
        yield from one_of("truncated", self.truncated, ("keep", "mask_loss", "mask_all"))
        yield from self.kl.problems()
        yield from self.k_schedule.problems()
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
    refused = weighting.refusal(weighting.n)
    problems += list(_on_the_way(settings, weighting)) if refused is None else [refused]
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
    if _needs_binary(weighting):
        problems += [
            f"{weighting.estimator} needs rewards of 0 and 1: no {name}"
            for name in _not_binary(settings)
        ]
    problems += _of_fit(settings, weighting)
    problems += _of_ratios(settings, weighting)
    if problems:
        raise LabError("; ".join(problems))


def _on_the_way(settings: Settings, weighting: Weighting) -> Iterator[str]:
    """Which K of a schedule the pair cannot run with."""
    if next(settings.k_schedule.problems(), None) is not None:
        return
    for k in scheduled_ks(settings.k_schedule, weighting.k, settings.steps):
        reason = replace(weighting, k=k).refusal(weighting.n)
        if reason is not None:
            yield f"k_schedule {settings.k_schedule.kind} comes to K = {k}: {reason}"


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


def _not_binary(settings: Settings) -> Iterator[str]:
    """The settings that make something else of rewards of 0 and 1."""
    clip = settings.reward_clip
    if settings.kl.place == "reward":
        yield "kl.place reward"
    if settings.reward_scale != 1:
        yield f"reward_scale, got {settings.reward_scale}"
    if clip is not None and len(clip) == 2 and (clip[0] > 0 or clip[1] < 1):
        yield f"reward_clip between them, got {list(clip)}"
