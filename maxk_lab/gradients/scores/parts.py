"""One instance's part of a score pool: trajectories drawn or enumerated, objectives integrated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from maxk_lab.environments.capabilities import ExactEnvironment
from maxk_lab.environments.checks import check_scorable
from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.environments.rollouts import Rollouts
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.exact import (
    checked_probabilities,
    exact_gradient,
    exact_gradient_weights,
    exact_value,
)
from maxk_lab.gradients.scores.per_trajectory import MappedScores
from maxk_lab.gradients.scores.products import score_gram
from maxk_lab.gradients.scores.trajectories import instance_scores

# Up to this many trajectories the Gram matrix is made over all of them, and a pool of any size
# costs no further backward pass.
TABLE_LIMIT = 1500
# Scores of up to this many parameters are kept as they are where the trajectories cannot be listed,
# made this many bytes at a time.
FEW_PARAMETERS = 64
FEW_BYTES = 2**20
# Trajectories whose log-probability is worked out together.
LOG_PROBS = 4096


@dataclass(frozen=True)
class Source:
    """One instance, the policy of its scores, and the one that draws (None: the same)."""

    environment: Environment
    policy: nn.Module
    behaviour: nn.Module | None
    parameters: list[Tensor]
    instance: Instances

    def log_probs(self, actions: Tensor) -> Callable[[int, int], Tensor]:
        return lambda i, j: self.environment.log_probs(
            self.policy, self.instance, actions[i:j].unsqueeze(0)
        )[0]

    @torch.no_grad()
    def log_values(self, policy: nn.Module, actions: Tensor) -> Tensor:
        """log π of actions [A, T] under `policy`, [A] in its own precision."""
        parts = [
            self.environment.log_probs(
                policy, self.instance, actions[i : i + LOG_PROBS].unsqueeze(0)
            )[0]
            for i in range(0, len(actions), LOG_PROBS)
        ]
        return torch.cat(parts)

    def ratios(self, actions: Tensor) -> Tensor:
        """π over the behaviour policy of actions [A, T], [A] float64."""
        if self.behaviour is None:
            return torch.ones(len(actions), dtype=torch.float64)
        own = self.log_values(self.policy, actions).double()
        return (own - self.log_values(self.behaviour, actions).double()).exp()

    def scores(self, actions: Tensor) -> Tensor:
        """The scores themselves, [A, P] float64."""
        width = sum(p.numel() for p in self.parameters) + actions.shape[1]

        make = instance_scores(self.environment, self.policy, self.instance, actions)
        # A batched backward pass costs the square of its chunk; scores mapped over trajectories
        # do not.
        mapped = isinstance(make, MappedScores)
        chunk = max(make.chunk, FEW_BYTES // (8 * width)) if mapped else make.chunk
        starts = range(0, len(actions), chunk)
        made = (make(i, min(i + chunk, len(actions)), self.parameters) for i in starts)
        whole = [torch.cat([part.double() for part in parts], 1) for parts in made]
        return torch.cat(whole).cpu()

    def gram(self, actions: Tensor, directions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = instance_scores(
            self.environment, self.policy, self.instance, actions, compressed=directions is None
        )
        return score_gram(scores, len(actions), self.parameters, directions=directions)

    @torch.no_grad()
    def token_weights(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Lengths and logit proxies of actions [A, T] under the policy, both [A] float64."""
        tokens = self.environment.tokens(self.policy, self.instance, actions.unsqueeze(0))
        return tokens.mask[0].sum(-1).double(), tokens.logit_proxy[0].double().sum(-1)


def _nothing() -> Tensor:
    return torch.zeros(0, dtype=torch.float64)


def _no_matrix() -> Tensor:
    return torch.zeros(0, 0, dtype=torch.float64)


@dataclass(frozen=True)
class Part:
    """One instance's share of a pool, not yet padded."""

    rewards: Tensor
    lengths: Tensor
    logit_proxy: Tensor
    rows: Tensor
    inner: Tensor
    ratios: Tensor
    gram: Tensor = field(default_factory=_no_matrix)
    scores: Tensor = field(default_factory=_no_matrix)
    norm: Tensor = field(default_factory=_nothing)
    value: Tensor = field(default_factory=_nothing)
    probabilities: Tensor = field(default_factory=_nothing)
    listed_rewards: Tensor = field(default_factory=_nothing)
    listed_lengths: Tensor = field(default_factory=_nothing)
    listed_logit_proxy: Tensor = field(default_factory=_nothing)
    listed_ratios: Tensor = field(default_factory=_nothing)
    behaviour: Tensor = field(default_factory=_nothing)


def sampled(source: Source, rollouts: Rollouts, directions: Tensor | None = None) -> Part:
    """Return the part of a sampled instance; `directions` [D, P] are the exact gradients.

    Trajectories of policies of few parameters keep a row of scores each.
    """
    actions = rollouts.actions[0]
    logit_proxy = rollouts.logit_proxy[0].double()
    if source.behaviour is not None:
        _, logit_proxy = source.token_weights(actions)  # the rollouts' is the behaviour policy's
    drawn = Part(
        rewards=rollouts.rewards[0].double(),
        lengths=rollouts.lengths[0].double(),
        logit_proxy=logit_proxy,
        rows=torch.arange(len(actions)),
        inner=_no_matrix(),
        ratios=source.ratios(actions),
    )
    if (
        not source.environment.enumerable
        and sum(p.numel() for p in source.parameters) <= FEW_PARAMETERS
    ):
        scores = source.scores(actions)
        none = scores.new_zeros(len(scores), 0)
        return replace(
            drawn, scores=scores, inner=none if directions is None else scores @ directions.T
        )
    distinct, rows = torch.unique(actions, dim=0, return_inverse=True)
    gram, products = source.gram(distinct, directions)
    return replace(drawn, rows=rows, gram=gram, inner=products)


def integrated(source: Source, rollouts: Rollouts, objectives: tuple[Objective, ...]) -> Part:
    """Return a sampled part with exact gradients of an environment that integrates objectives."""
    environment = source.environment
    assert isinstance(environment, ExactEnvironment)
    values, gradients = [], []
    for objective in objectives:
        value = environment.exact_objective(source.policy, source.instance, objective)
        parts = torch.autograd.grad(
            value, source.parameters, allow_unused=True, materialize_grads=True
        )
        gradients.append(torch.cat([part.flatten().double().cpu() for part in parts]))
        values.append(value.detach().double().cpu())
    directions = torch.stack(gradients)
    drawn = sampled(source, rollouts, directions)
    return replace(drawn, norm=directions.square().sum(1), value=torch.stack(values))


def enumerated(
    source: Source, rollouts: Rollouts, objectives: tuple[Objective, ...], index: int
) -> Part:
    listed, listed_rewards = source.environment.enumerate(source.instance)
    check_scorable(listed_rewards, f" of instance {index}", "gradient")
    probabilities = checked_probabilities(source.log_values(source.policy, listed))
    weights = torch.stack(
        [exact_gradient_weights(probabilities, listed_rewards, o) for o in objectives]
    )
    value = torch.stack(
        [exact_value(probabilities, listed_rewards.double(), o) for o in objectives]
    )
    if len(listed) > TABLE_LIMIT:
        log_probs = source.log_probs(listed)
        gradients = torch.stack(
            [exact_gradient(log_probs, weight, source.parameters) for weight in weights]
        )
        return replace(
            sampled(source, rollouts, gradients), norm=gradients.square().sum(1), value=value
        )
    gram, _ = source.gram(listed)
    # One product per objective: the numbers of one must not depend on which others are asked for,
    # down to the last bit.
    products = torch.stack([gram @ weight for weight in weights], 1)
    norm = torch.stack(
        [weight @ product for weight, product in zip(weights, products.T.contiguous(), strict=True)]
    )
    rows = _rows_in(listed, rollouts.actions[0])
    lengths, logit_proxy = source.token_weights(listed)
    ratios, behaviour = source.ratios(listed), probabilities
    if source.behaviour is not None:
        behaviour = checked_probabilities(source.log_values(source.behaviour, listed))
    return Part(
        rewards=listed_rewards.double()[rows],
        lengths=lengths[rows],
        logit_proxy=logit_proxy[rows],
        rows=rows,
        gram=gram,
        inner=products,
        ratios=ratios[rows],
        norm=norm,
        value=value,
        probabilities=probabilities,
        listed_rewards=listed_rewards.double(),
        listed_lengths=lengths,
        listed_logit_proxy=logit_proxy,
        listed_ratios=ratios,
        behaviour=behaviour,
    )


def _rows_in(listed: Tensor, actions: Tensor) -> Tensor:
    """The row of `listed` [A, T] that each of actions [M, ≤ T] is."""
    padded = torch.nn.functional.pad(actions, (0, listed.shape[1] - actions.shape[1]))
    _, rows_of_both = torch.unique(torch.cat([listed, padded]), dim=0, return_inverse=True)
    row_of = torch.empty(len(listed), dtype=torch.long)
    row_of[rows_of_both[: len(listed)]] = torch.arange(len(listed))
    return row_of[rows_of_both[len(listed) :]]
