"""The weights of the Lightning classes: every pair that RL4CO's step can supply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from torch import Tensor

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.estimators import objective_estimate
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.estimators.method import Method
from maxk_lab.fields import AtLeastOne, Model, Positive
from maxk_lab.training.schedule import scheduled_k, scheduled_ks
from maxk_lab.training.settings import KScheduleSettings, WeightNormalization

VARIANCE_REDUCTIONS = ("none", "sample_loo", "subloo")
INSTEAD = "train it with a training study of maxk-lab instead"


class PomoWeighting(Model):
    """A pair of the catalogue, its K and every option of its weights.

    The number n of samples is the batch's.
    """

    estimator: str
    baseline: str
    k: AtLeastOne
    k_schedule: KScheduleSettings
    weight_normalization: WeightNormalization = "none"
    min_gap_scale: Positive | None = None
    stable_sort: bool = True

    @cached_property
    def ks(self) -> tuple[int, ...]:
        """Every K of the schedule."""
        return tuple(scheduled_ks(self.k_schedule, self.k, self.k_schedule.until))

    @property
    def unbiased(self) -> bool:
        """Whether the catalogue has the weights of i.i.d. samples as unbiased, none rescaled."""
        plain = self.weight_normalization == "none" and self.min_gap_scale is None
        return plain and self.method_at(self.k).is_unbiased

    @property
    def needs_lengths(self) -> bool:
        """Whether the baseline weights the samples with their lengths."""
        return self.method_at(self.k).needed_weight == "length"

    def check(self) -> None:
        """Raise one `LabError` with everything that the pair needs and RL4CO lacks."""
        problems = list(_not_supplied(self.estimator, self.baseline))
        if problems:
            raise LabError("; ".join(problems))

    def check_size(self, n: int) -> None:
        """Raise `ValueError` where n samples are too few for the pair at a K of the schedule."""
        for k in self.ks:
            problem = self.method_at(k).refusal(n)
            if problem is not None:
                raise ValueError(problem)

    def method_at(self, k: int) -> Method:
        """Return the estimator with its baseline at this K."""
        return Method.parse(self.estimator, self.baseline, k)

    def k_at(self, step: int) -> int:
        """The K of optimisation step `step`, which counts from 0."""
        return scheduled_k(self.k_schedule, self.k, step)

    def weights(self, rewards: Tensor, k: int, trajectory_weights: Mapping[str, Tensor]) -> Tensor:
        """Return the weights [B, n] of rewards [B, n] at this K.

        They are those of the sum Σ_i w_i ∇log π_i and carry 1/n. Raises as `Method.weights`.
        """
        return self.method_at(k).weights(
            rewards,
            stable_sort=self.stable_sort,
            trajectory_weights=trajectory_weights,
            weight_normalization=self.weight_normalization,
            min_gap_scale=self.min_gap_scale,
        )

    def value(self, rewards: Tensor, k: int) -> Tensor:
        """Return the estimate [B] of the estimator's objective from rewards [B, n].

        For an estimator of the maximum that is ρ(K).
        """
        objective = self.method_at(k).objective
        return objective_estimate(rewards, objective, stable_sort=self.stable_sort)


def baseline_of(estimator: str, baseline: str | None, variance_reduction: str | None) -> str:
    """Return the catalogue's baseline that is meant.

    `variance_reduction` is its older name, `shared` is RL4CO's for `group_mean`. With neither it is
    `centred`, and `none` for an estimator that takes none. Raises `LabError` for unknown names, and
    if both are given.
    """
    row = choose_estimator(estimator).row
    if variance_reduction is not None:
        if variance_reduction not in VARIANCE_REDUCTIONS:
            also = did_you_mean(str(variance_reduction), VARIANCE_REDUCTIONS)
            also = also or "; name any other baseline as baseline="
            names = ", ".join(VARIANCE_REDUCTIONS)
            raise LabError(
                f"variance_reduction must be one of {names}, got {variance_reduction!r}{also}"
            )
        if baseline not in (None, "shared", variance_reduction):
            raise LabError(
                f"give variance_reduction or baseline, got {variance_reduction} and {baseline}"
            )
        return variance_reduction
    if baseline is None or (baseline == "shared" and not row.takes_baseline):
        return row.default_baseline
    return "group_mean" if baseline == "shared" else choose_baseline(baseline).name


def _not_supplied(estimator: str, baseline: str) -> Iterator[str]:
    """Yield all that the pair needs and RL4CO's training step does not have."""
    method = Method.parse(estimator, baseline)
    if method.needs_ratios:
        yield (
            f"{estimator} weights samples of an older policy: "
            "RL4CO takes one step per batch, where every ratio is 1; use estimator maxk"
        )
    if method.is_token_level:
        yield (
            f"{baseline} gives one weight per token: "
            f"RL4CO's step adds up the log-probabilities of a trajectory; {INSTEAD}"
        )
    fit = method.fit
    if fit == "oracle":
        yield (
            f"{baseline} is computed from the whole policy by complete enumeration "
            "and cannot be trained with"
        )
    elif fit is not None:
        yield (
            f"{baseline} is fitted to the gradient of every trajectory: "
            "RL4CO's step has only that of the batch; "
            f"give numbers in place of {fit}, or {INSTEAD}"
        )
    kind = method.needed_weight
    if kind == "grad_norm":
        yield (
            f"{baseline} needs the gradient of every trajectory: "
            f"RL4CO's step has only that of the batch; {INSTEAD}"
        )
    if kind == "logit_proxy":
        yield (
            f"{baseline} needs the whole distribution of every decision: "
            f"RL4CO's step keeps the chosen action's log-probability; {INSTEAD}"
        )
