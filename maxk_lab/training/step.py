"""One optimisation step: rollouts → shaped rewards → weights → surrogate loss → Adam."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.errors import LabError
from maxk_lab.estimators import effective_sample_size
from maxk_lab.estimators.usable import usable_weights
from maxk_lab.training.batch import Batch, draw
from maxk_lab.training.loss import (
    kl_tokens,
    off_policy_surrogate,
    sequence_mean,
    shape_rewards,
    surrogate,
    token_mean,
)
from maxk_lab.training.metrics import batch_metrics, reward_metrics
from maxk_lab.training.refusals import Weighting
from maxk_lab.training.settings import Settings
from maxk_lab.training.weights import fitted_coefficients, normalized, token_weights

# Of every trajectory y_i: (environment, policy, instances, actions [P, n, T]) → ‖∇ log π(y_i)‖²,
# [P, n], or the products ∇ log π(y_i)·∇ log π(y_j), [P, n, n].
OfScores = Callable[[Environment, nn.Module, Instances, Tensor], Tensor]
# From the ratios of a batch, if any, to its weights and the groups without.
Weigh = Callable[[Tensor | None], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Step:
    """The way a step is taken: all that stays the same from step to step."""

    environment: Environment
    settings: Settings
    weighting: Weighting
    squared_norms: OfScores | None = None
    grams: OfScores | None = None

    @cached_property
    def drawn_from(self) -> Environment:
        """The environment that trajectories start in: itself, or with RL4CO's forced first actions.

        Raises `LabError` for `multistart` where there is no such thing.
        """
        if self.settings.start == "iid":
            return self.environment
        if not supports(self.environment, "forced_starts"):
            raise LabError("start multistart: this environment has no forced starts; use iid")
        return self.environment.forced_starts()

    def at(self, k: int) -> Step:
        """Return the same step for another K."""
        if k == self.weighting.k:
            return self
        return replace(self, weighting=replace(self.weighting, k=k))

    def take(
        self,
        policy: nn.Module,
        optimizer: torch.optim.Optimizer,
        anchor: nn.Module | None,
        *,
        seed: int,
    ) -> dict[str, float]:
        """Draw a batch, update the policy and return `METRICS`.

        The batch depends on the policy and `seed` only. Raises `FloatingPointError` when the loss,
        its gradient or the KL estimate of a drawn token is not finite.
        """
        settings, n = self.settings, self.weighting.n
        batch = draw(self.drawn_from, policy, anchor, settings.batch // n, n, seed)
        kl, penalty = batch.kl(settings.kl.type), None
        if kl is not None and settings.kl.place == "reward":
            penalty = settings.kl.beta * torch.where(batch.numbers.mask, kl, 0.0).sum(-1)
        rewards = shape_rewards(
            batch.rollouts.rewards,
            scale=settings.reward_scale,
            penalty=penalty,
            clip=settings.reward_clip,
            order=settings.reward_order,
        )
        usable = ~rewards.isnan()
        if settings.truncated == "mask_all":
            usable &= ~batch.truncated
        weigh = partial(self._weights, policy, batch, rewards, usable)
        weights, unusable = weigh(self._ratios(batch))
        metrics = reward_metrics(batch.rollouts.rewards, rewards)
        metrics |= batch_metrics(weights, unusable, batch, kl)
        epochs = [
            self._update(policy, optimizer, batch, weights, weigh, first=epoch == 0)
            for epoch in range(settings.inner_epochs)
        ]
        return metrics | {
            name: sum(epoch[name] for epoch in epochs) / len(epochs) for name in epochs[0]
        }

    def _ratios(self, batch: Batch) -> Tensor | None:
        """Return the ratios of the first pass where the estimator needs any."""
        return batch.ratios(batch.tokens) if self.weighting.method.needs_ratios else None

    def _weights(
        self,
        policy: nn.Module,
        batch: Batch,
        rewards: Tensor,
        usable: Tensor,
        ratios: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the weights [P, n], or [P, n, T] at token level, and which groups have none, [P].

        Weights are 0 for samples left out.
        """
        settings, weighting, tokens = self.settings, self.weighting, batch.numbers
        if weighting.method.is_token_level:
            weights, unusable = token_weights(
                rewards, usable, weighting, tokens.logit_proxy, tokens.mask
            )
            counted = tokens.mask & usable.unsqueeze(-1) & ~unusable[:, None, None]
        else:
            weights, unusable = usable_weights(
                weighting.method,
                rewards,
                usable,
                trajectory_weights=self._trajectory_weights(policy, batch),
                ratios=ratios,
                coefficients=self._coefficients(policy, batch, rewards, usable),
                weight_normalization=settings.weight_normalization,
                min_gap_scale=settings.min_gap_scale,
            )
            counted = usable & ~unusable.unsqueeze(-1)
        if settings.normalize_advantages:
            weights = normalized(weights, counted, weighting.n)
        return weights, unusable

    def _trajectory_weights(self, policy: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Return the numbers [P, n] of every trajectory that the baseline weighs rewards with."""
        kind = self.weighting.method.needed_weight
        if kind is None:
            return {}
        if kind == "length":
            return {kind: batch.rollouts.lengths.to(batch.rollouts.rewards)}
        numbers = batch.rollouts.logit_proxy
        if kind == "grad_norm":
            numbers = self._of_scores("squared_norms", policy, batch)
        # At least one rounding error: smaller ones are noise, and may come out negative.
        return {kind: numbers.detach().clamp(min=torch.finfo(numbers.dtype).eps)}

    def _coefficients(
        self, policy: nn.Module, batch: Batch, rewards: Tensor, usable: Tensor
    ) -> Tensor | None:
        if self.weighting.method.fit is None:
            return None
        grams = self._of_scores("grams", policy, batch)
        return fitted_coefficients(rewards, usable, self.weighting, grams)

    def _of_scores(self, name: str, policy: nn.Module, batch: Batch) -> Tensor:
        measure: OfScores | None = getattr(self, name)
        if measure is None:
            raise ValueError(f"{self.weighting.baseline} needs {name}, got None")
        return measure(self.drawn_from, policy, batch.instances, batch.rollouts.actions).cpu()

    def _update(
        self,
        policy: nn.Module,
        optimizer: torch.optim.Optimizer,
        batch: Batch,
        weights: Tensor,
        weigh: Weigh,
        *,
        first: bool,
    ) -> dict[str, float]:
        """Take one inner epoch and return its log.

        All but the first pass the whole batch through the policy once more; the first pass was made
        when the batch was drawn. Weights that hold ratios are those of the policy as it is now,
        `weigh(ratios)`.
        """
        settings, tokens, ratios = self.settings, batch.tokens, self._ratios(batch)
        if not first:
            tokens = self.drawn_from.tokens(policy, batch.instances, batch.rollouts.actions)
            if ratios is not None:
                ratios = batch.ratios(tokens)
                weights, _ = weigh(ratios)
        in_loss = tokens.mask
        if settings.truncated != "keep":
            in_loss = in_loss & ~batch.truncated.unsqueeze(-1).to(in_loss.device)
        if ratios is None:
            terms = surrogate(
                tokens.log_probs, batch.old_log_probs, weights, in_loss, settings.loss
            )
        else:
            terms = off_policy_surrogate(tokens.log_probs, ratios, weights, in_loss, settings.loss)
        loss = terms.loss
        if batch.anchor_log_probs is not None and settings.kl.place == "loss":
            if torch.isneginf(tokens.log_probs[in_loss]).any():
                raise FloatingPointError(
                    "the KL estimate of a token is not finite: after an inner epoch the policy "
                    "gives it no chance (top_p below 1?)"
                )
            kl = kl_tokens(tokens.log_probs, batch.anchor_log_probs, settings.kl.type)
            loss = loss + settings.kl.beta * token_mean(kl, in_loss)
        if settings.entropy_bonus > 0:
            loss = loss - settings.entropy_bonus * sequence_mean(tokens.entropy, in_loss)
        norm = self._descend(policy, optimizer, loss)
        metrics = {
            "clip_ratio/low": terms.below.item(),
            "clip_ratio/high": terms.above.item(),
            "grad_norm": norm,
            "loss": loss.item(),
        }
        if ratios is None:
            return metrics
        return {"ess": effective_sample_size(ratios).mean().item() / ratios.shape[1], **metrics}

    def _descend(self, policy: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
        """Take a step down the loss and return the norm of its gradient before it was clipped."""
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        limit = self.settings.max_grad_norm
        norm = nn.utils.clip_grad_norm_(
            policy.parameters(), float("inf") if limit is None else limit
        )
        for name, value in (("loss", loss), ("gradient's norm", norm)):
            if not torch.isfinite(value):
                raise FloatingPointError(f"the training {name} is {value.item()}")
        optimizer.step()
        return norm.item()
