"""One optimisation step, from the draw of its batch to the update of the policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.environments.rollouts import TokenStatistics
from maxk_lab.errors import LabError
from maxk_lab.estimators import effective_sample_size
from maxk_lab.training.refusals import Weighting
from maxk_lab.training.settings import Settings
from maxk_lab.training.step.batch import Batch, draw, tokens_of
from maxk_lab.training.step.fitted import fitted_coefficients
from maxk_lab.training.step.kl import drawn_kl, kl_tokens
from maxk_lab.training.step.loss import off_policy_surrogate, sequence_mean, surrogate, token_mean
from maxk_lab.training.step.metrics import batch_metrics, reward_metrics
from maxk_lab.training.step.shaping import shape_rewards
from maxk_lab.training.step.weights import GroupWeights, group_weights, normalized, token_weights

# ‖∇ log π(y_i)‖² of every trajectory: (environment, policy, instances, actions [P, n, T]) → [P, n].
SquaredNorms = Callable[[Environment, nn.Module, Instances, Tensor], Tensor]
# ∇ log π(y_i)·∇ log π(y_j) of each instance's trajectories: same arguments → [P, n, n].
Grams = Callable[[Environment, nn.Module, Instances, Tensor], Tensor]


@dataclass(frozen=True)
class Step:
    """The way a step is taken: all that stays the same from step to step."""

    environment: Environment
    settings: Settings
    weighting: Weighting
    squared_norms: SquaredNorms | None = None
    grams: Grams | None = None

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
        return (
            self if k == self.weighting.k else replace(self, weighting=replace(self.weighting, k=k))
        )

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
        batch = draw(self.drawn_from, policy, anchor, self.settings, self.weighting.n, seed)
        kl = drawn_kl(batch, self.settings.kl.type)
        rewards = self._shaped(batch, kl)
        usable = ~rewards.isnan()
        if self.settings.truncated == "mask_all":
            usable &= ~batch.truncated
        weigh = partial(self._weights, policy, batch, rewards, usable)
        found = weigh(self._ratios(batch, batch.tokens))
        metrics = reward_metrics(batch.rollouts.rewards, rewards)
        metrics |= batch_metrics(
            found, batch.numbers.mask, batch.truncated, batch.numbers.entropy, kl
        )
        epochs = [
            self._update(policy, optimizer, batch, found.weights, weigh, first=epoch == 0)
            for epoch in range(self.settings.inner_epochs)
        ]
        return metrics | {
            name: sum(epoch[name] for epoch in epochs) / len(epochs) for name in epochs[0]
        }

    def _shaped(self, batch: Batch, kl: Tensor | None) -> Tensor:
        settings, penalty = self.settings, None
        if kl is not None and settings.kl.place == "reward":
            penalty = settings.kl.beta * torch.where(batch.numbers.mask, kl, 0.0).sum(-1)
        return shape_rewards(
            batch.rollouts.rewards,
            scale=settings.reward_scale,
            penalty=penalty,
            clip=settings.reward_clip,
            order=settings.reward_order,
        )

    def _ratios(self, batch: Batch, tokens: TokenStatistics) -> Tensor | None:
        """Return the ratios of the batch where the estimator needs them."""
        return batch.ratios(tokens) if self.weighting.method.needs_ratios else None

    def _weights(
        self,
        policy: nn.Module,
        batch: Batch,
        rewards: Tensor,
        usable: Tensor,
        ratios: Tensor | None,
    ) -> GroupWeights:
        settings, weighting, tokens = self.settings, self.weighting, batch.numbers
        if weighting.method.is_token_level:
            found = token_weights(rewards, usable, weighting, tokens.logit_proxy, tokens.mask)
            counted = tokens.mask & usable.unsqueeze(-1) & ~found.unusable[:, None, None]
        else:
            found = group_weights(
                rewards,
                usable,
                weighting,
                trajectory_weights=self._trajectory_weights(policy, batch),
                ratios=ratios,
                coefficients=self._coefficients(policy, batch, rewards, usable),
                weight_normalization=settings.weight_normalization,
                min_gap_scale=settings.min_gap_scale,
            )
            counted = usable & ~found.unusable.unsqueeze(-1)
        if settings.normalize_advantages:
            return GroupWeights(normalized(found.weights, counted, weighting.n), found.unusable)
        return found

    def _trajectory_weights(self, policy: nn.Module, batch: Batch) -> dict[str, Tensor]:
        needed = self.weighting.method.needed_weight
        if needed == "length":
            return {needed: batch.rollouts.lengths.to(batch.rollouts.rewards)}
        if needed == "logit_proxy":
            return {needed: _positive(batch.rollouts.logit_proxy)}
        if needed == "grad_norm":
            if self.squared_norms is None:
                raise ValueError(f"{self.weighting.baseline} needs squared_norms, got None")
            norms = self.squared_norms(
                self.drawn_from, policy, batch.instances, batch.rollouts.actions
            )
            return {needed: _positive(norms.cpu())}
        return {}

    def _coefficients(
        self, policy: nn.Module, batch: Batch, rewards: Tensor, usable: Tensor
    ) -> Tensor | None:
        if self.weighting.method.fit is None:
            return None
        if self.grams is None:
            raise ValueError(f"{self.weighting.baseline} needs grams, got None")
        grams = self.grams(self.drawn_from, policy, batch.instances, batch.rollouts.actions)
        return fitted_coefficients(rewards, usable, self.weighting, grams.cpu())

    def _update(
        self,
        policy: nn.Module,
        optimizer: torch.optim.Optimizer,
        batch: Batch,
        weights: Tensor,
        weigh: Callable[[Tensor], GroupWeights],
        *,
        first: bool,
    ) -> dict[str, float]:
        """Take one inner epoch and return its log.

        All but the first pass the whole batch through the policy once more; the first pass was made
        when the batch was drawn. Weights that hold ratios are those of the policy as it is now,
        `weigh(ratios)`.
        """
        settings, tokens = self.settings, batch.tokens
        if not first:
            tokens = tokens_of(
                self.drawn_from, policy, batch.instances, batch.rollouts.actions, settings.amp
            )
        in_loss = tokens.mask
        if settings.truncated != "keep":
            in_loss = in_loss & ~batch.truncated.unsqueeze(-1).to(in_loss.device)
        ratios = self._ratios(batch, tokens)
        if ratios is None:
            found = surrogate(
                tokens.log_probs, batch.old_log_probs, weights, in_loss, settings.loss
            )
        else:
            if not first:
                weights = weigh(ratios).weights
            found = off_policy_surrogate(tokens.log_probs, ratios, weights, in_loss, settings.loss)
        loss = found.loss
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
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        limit = float("inf") if settings.max_grad_norm is None else settings.max_grad_norm
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), limit)
        for name, value in (("loss", loss), ("gradient's norm", norm)):
            if not torch.isfinite(value):
                raise FloatingPointError(f"the training {name} is {value.item()}")
        optimizer.step()
        ess = (
            {}
            if ratios is None
            else {"ess": effective_sample_size(ratios).mean().item() / ratios.shape[1]}
        )
        return ess | {
            "clip_ratio/low": found.below.item(),
            "clip_ratio/high": found.above.item(),
            "grad_norm": norm.item(),
            "loss": loss.item(),
        }


def _positive(g: Tensor) -> Tensor:
    """Return trajectory weights of at least one rounding error.

    Smaller ones are noise, and may come out negative.
    """
    return g.detach().clamp(min=torch.finfo(g.dtype).eps)
