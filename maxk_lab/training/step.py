"""One optimisation step: rollouts → shaped rewards → weights → surrogate loss → Adam."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, supports
from maxk_lab.environments.rollouts import TokenStatistics
from maxk_lab.errors import LabError
from maxk_lab.estimators import effective_sample_size
from maxk_lab.estimators.by_name import usable_weights
from maxk_lab.gradients.scores.trajectories import trajectory_squared_norms
from maxk_lab.training.batch import Batch, batch_metrics, draw
from maxk_lab.training.loss import (
    kl_tokens,
    sequence_mean,
    shape_rewards,
    surrogate,
    token_mean,
)
from maxk_lab.training.settings import Settings, Weighting


@dataclass(frozen=True)
class Step:
    """The settings and objects of a step that stay constant during training."""

    environment: Environment
    settings: Settings
    weighting: Weighting

    @cached_property
    def drawn_from(self) -> Environment:
        """The environment of the trajectories, with RL4CO's forced first actions for `multistart`.

        Raises `LabError` if `multistart` is impossible.
        """
        if self.settings.start == "iid":
            return self.environment
        if not supports(self.environment, "forced_starts"):
            raise LabError("start multistart: this environment has no forced starts; use iid")
        return self.environment.forced_starts()

    def at(self, k: int) -> Step:
        """Return the step with another K."""
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

        The batch depends on the policy and `seed` only. Raises `FloatingPointError` if the loss,
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
        )

        # The first inner epoch reuses the policy's pass from the draw; each further epoch passes
        # the whole batch through the policy. Weights with ratios use the current policy.
        tokens = batch.tokens
        ratios = batch.ratios(tokens) if self.weighting.method.needs_ratios else None
        weights, unusable = self._weights(policy, batch, rewards, ratios)
        metrics = batch_metrics(batch, rewards, weights, unusable, kl)
        epochs = []
        for epoch in range(settings.inner_epochs):
            if epoch:
                tokens = self.drawn_from.tokens(policy, *batch.drawn)
                if ratios is not None:
                    ratios = batch.ratios(tokens)
                    weights, _ = self._weights(policy, batch, rewards, ratios)
            loss, log = self._loss(batch, tokens, weights, ratios)
            norm = self._descend(policy, optimizer, loss)
            epochs.append(log | {"grad_norm": norm, "loss": loss.item()})
        return metrics | {
            name: sum(epoch[name] for epoch in epochs) / len(epochs) for name in epochs[0]
        }

    def _weights(
        self, policy: nn.Module, batch: Batch, rewards: Tensor, ratios: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the weights [P, n], and the mask [P] of groups without weights.

        Samples that are left out have weight 0.
        """
        settings, method = self.settings, self.weighting.method
        usable = ~rewards.isnan()
        weights, unusable = usable_weights(
            method,
            rewards,
            usable,
            trajectory_weights=self._trajectory_weights(policy, batch),
            ratios=ratios,
            weight_normalization=settings.weight_normalization,
        )
        if settings.normalize_advantages:
            counted = usable & ~unusable.unsqueeze(-1)
            weights = normalized(weights, counted, self.weighting.n)
        return weights, unusable

    def _trajectory_weights(self, policy: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Return the trajectory weights [P, n] of the baseline."""
        kind, rollouts = self.weighting.method.needed_weight, batch.rollouts
        if kind is None:
            return {}
        if kind == "length":
            return {kind: rollouts.lengths.to(rollouts.rewards)}
        numbers = rollouts.logit_proxy
        if kind == "grad_norm":
            numbers = trajectory_squared_norms(self.drawn_from, policy, *batch.drawn).cpu()
        # At least one rounding error: smaller values are noise, and may be negative.
        return {kind: numbers.detach().clamp(min=torch.finfo(numbers.dtype).eps)}

    def _loss(
        self, batch: Batch, tokens: TokenStatistics, weights: Tensor, ratios: Tensor | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the loss at the policy's `tokens`, and the log of its ratios."""
        settings, in_loss = self.settings, tokens.mask
        log_probs, old = tokens.log_probs, batch.old_log_probs
        terms = surrogate(log_probs, old, weights, in_loss, settings.loss, ratios)
        log = {}
        if ratios is not None:
            log["ess"] = effective_sample_size(ratios).mean().item() / ratios.shape[1]
        log |= {"clip_ratio/low": terms.below.item(), "clip_ratio/high": terms.above.item()}
        loss = terms.loss
        if batch.anchor_log_probs is not None and settings.kl.place == "loss":
            if torch.isneginf(log_probs[in_loss]).any():
                raise FloatingPointError(
                    "the KL estimate of a token is not finite: after an inner epoch the policy "
                    "gives it no chance"
                )
            kl = kl_tokens(log_probs, batch.anchor_log_probs, settings.kl.type)
            loss = loss + settings.kl.beta * token_mean(kl, in_loss)
        if settings.entropy_bonus > 0:
            loss = loss - settings.entropy_bonus * sequence_mean(tokens.entropy, in_loss)
        return loss, log

    def _descend(self, policy: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
        """Take an optimiser step and return the norm of the gradient before clipping."""
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        limit = self.settings.max_grad_norm or float("inf")
        norm = nn.utils.clip_grad_norm_(policy.parameters(), limit)
        for name, value in (("loss", loss), ("gradient's norm", norm)):
            if not torch.isfinite(value):
                raise FloatingPointError(f"the training {name} is {value.item()}")
        optimizer.step()
        return norm.item()


def normalized(weights: Tensor, counted: Tensor, n: int) -> Tensor:
    """Return the weights w with advantages A = n w standardised over the batch.

    A becomes (A − mean) / (std + 1e-4), ddof 1. `counted`, of the shape of `weights`, marks the
    entries that are advantages; other entries stay unchanged, as do fewer than two advantages. This
    is biased: the scale of the whole batch enters each weight.
    """
    values = n * weights[counted]
    if len(values) < 2:
        return weights
    result = weights.clone()
    result[counted] = (values - values.mean()) / (values.std() + 1e-4) / n
    return result
