"""Drawing a score pool: rollouts, scores and, where every trajectory can be listed, the exact gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from maxk_lab.environments.protocol import Environment, Instances, Rollouts
from maxk_lab.errors import LabError
from maxk_lab.gradients.exact import (
    checked_probabilities,
    exact_gradient,
    exact_gradient_weights,
    exact_value,
)
from maxk_lab.gradients.pool import ScorePool
from maxk_lab.gradients.scores import score_gram
from maxk_lab.gradients.trajectories import instance_scores
from maxk_lab.seeds import derive_seed

# Up to this many trajectories the Gram matrix is made over all of them, and a pool of any size costs no further backward pass.
TABLE_LIMIT = 1500
# A relative bias up to this is rounding, where nothing is sampled.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


def draw_pool(
    environment: Environment,
    policy: nn.Module,
    instances: Instances,
    count: int,
    size: int,
    *,
    ks: Sequence[int],
    seed: int,
    on_instance: Callable[[int, int], None] = lambda done, of: None,
) -> ScorePool:
    """Draw `size` i.i.d. trajectories of each of `count` instances and reduce their scores to Gram matrices.

    `ks` are the K whose exact gradient is worked out where the environment is enumerable. The trajectories of an instance depend on
    `seed` and on that instance's number only.
    """
    parameters: list[Tensor] = [p for p in policy.parameters() if p.requires_grad]
    exact_ks = tuple(sorted(set(ks))) if environment.enumerable else ()
    parts = []
    for i in range(count):
        instance = environment.select(instances, i)
        rollouts = environment.rollout(policy, instance, size, seed=derive_seed("rollouts", seed, i))
        _check_scorable(rollouts.rewards, i)
        source = _Source(environment, policy, parameters, instance)
        parts.append(_enumerated(source, rollouts, exact_ks, i) if exact_ks else _sampled(source, rollouts))
        on_instance(i + 1, count)
    rows = max(len(part.gram) for part in parts)
    listed = max(len(part.probabilities) for part in parts)
    return ScorePool(
        rewards=torch.stack([part.rewards for part in parts]),
        lengths=torch.stack([part.lengths for part in parts]),
        logit_proxy=torch.stack([part.logit_proxy for part in parts]),
        rows=torch.stack([part.rows for part in parts]),
        gram=torch.stack([_pad(part.gram, rows, rows) for part in parts]),
        ks=exact_ks,
        inner=torch.stack([_pad(part.inner, rows, len(exact_ks)) for part in parts]),
        norm=torch.stack([part.norm for part in parts]),
        value=torch.stack([part.value for part in parts]),
        probabilities=torch.stack([_pad_to(part.probabilities, listed) for part in parts]),
        listed_rewards=torch.stack([_pad_to(part.listed_rewards, listed) for part in parts]),
        listed_lengths=torch.stack([_pad_to(part.listed_lengths, listed) for part in parts]),
        listed_logit_proxy=torch.stack([_pad_to(part.listed_logit_proxy, listed) for part in parts]),
        tolerance=max(TOLERANCE[p.dtype] for p in parameters),
    )


@dataclass(frozen=True)
class _Source:
    """One instance and the policy that draws its trajectories."""

    environment: Environment
    policy: nn.Module
    parameters: list[Tensor]
    instance: Instances

    def log_probs(self, actions: Tensor) -> Callable[[int, int], Tensor]:
        return lambda i, j: self.environment.log_probs(self.policy, self.instance, actions[i:j].unsqueeze(0))[
            0
        ]

    def gram(self, actions: Tensor, directions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = instance_scores(self.environment, self.policy, self.instance, actions)
        return score_gram(scores, len(actions), self.parameters, directions=directions)


def _nothing() -> Tensor:
    return torch.zeros(0, dtype=torch.float64)


@dataclass(frozen=True)
class _Part:
    """One instance's share of a pool, not yet padded."""

    rewards: Tensor
    lengths: Tensor
    logit_proxy: Tensor
    rows: Tensor
    gram: Tensor
    inner: Tensor
    norm: Tensor = field(default_factory=_nothing)
    value: Tensor = field(default_factory=_nothing)
    probabilities: Tensor = field(default_factory=_nothing)
    listed_rewards: Tensor = field(default_factory=_nothing)
    listed_lengths: Tensor = field(default_factory=_nothing)
    listed_logit_proxy: Tensor = field(default_factory=_nothing)


def _sampled(source: _Source, rollouts: Rollouts, directions: Tensor | None = None) -> _Part:
    distinct, rows = torch.unique(rollouts.actions[0], dim=0, return_inverse=True)
    gram, products = source.gram(distinct, directions)
    return _Part(
        rewards=rollouts.rewards[0].double(),
        lengths=rollouts.lengths[0].double(),
        logit_proxy=rollouts.logit_proxy[0].double(),
        rows=rows,
        gram=gram,
        inner=products,
    )


def _enumerated(source: _Source, rollouts: Rollouts, ks: tuple[int, ...], index: int) -> _Part:
    listed, listed_rewards = source.environment.enumerate(source.instance)
    _check_scorable(listed_rewards, index)
    log_probs = source.log_probs(listed)
    with torch.no_grad():
        probabilities = checked_probabilities(
            torch.cat([log_probs(i, i + 4096) for i in range(0, len(listed), 4096)])
        )
    weights = torch.stack([exact_gradient_weights(probabilities, listed_rewards, k) for k in ks])
    value = torch.stack([exact_value(probabilities, listed_rewards.double(), k) for k in ks])
    if len(listed) > TABLE_LIMIT:
        gradients = torch.stack([exact_gradient(log_probs, weight, source.parameters) for weight in weights])
        return replace(_sampled(source, rollouts, gradients), norm=gradients.square().sum(1), value=value)
    gram, _ = source.gram(listed)
    # One product per K: the numbers of one K must not depend on which others are asked for, down to the last bit.
    products = torch.stack([gram @ weight for weight in weights], 1)
    norm = torch.stack(
        [weight @ product for weight, product in zip(weights, products.T.contiguous(), strict=True)]
    )
    rows = _rows_in(listed, rollouts.actions[0])
    with torch.no_grad():
        tokens = source.environment.tokens(source.policy, source.instance, listed.unsqueeze(0))
    lengths = tokens.mask[0].sum(-1).double()
    logit_proxy = tokens.logit_proxy[0].double().sum(-1)
    return _Part(
        rewards=listed_rewards.double()[rows],
        lengths=lengths[rows],
        logit_proxy=logit_proxy[rows],
        rows=rows,
        gram=gram,
        inner=products,
        norm=norm,
        value=value,
        probabilities=probabilities,
        listed_rewards=listed_rewards.double(),
        listed_lengths=lengths,
        listed_logit_proxy=logit_proxy,
    )


def _rows_in(listed: Tensor, actions: Tensor) -> Tensor:
    """The row of `listed` [A, T] that each of actions [M, ≤ T] is."""
    padded = torch.nn.functional.pad(actions, (0, listed.shape[1] - actions.shape[1]))
    _, rows_of_both = torch.unique(torch.cat([listed, padded]), dim=0, return_inverse=True)
    row_of = torch.empty(len(listed), dtype=torch.long)
    row_of[rows_of_both[: len(listed)]] = torch.arange(len(listed))
    return row_of[rows_of_both[len(listed) :]]


def _check_scorable(rewards: Tensor, index: int) -> None:
    """Raises `LabError` where a reward function returned None."""
    missing = int(rewards.isnan().sum())
    if missing:
        raise LabError(
            f"{missing} of {rewards.numel()} trajectories of instance {index} have no reward (a reward function returned None); "
            "a gradient study needs a reward for every trajectory"
        )


def _pad(matrix: Tensor, rows: int, columns: int) -> Tensor:
    return torch.nn.functional.pad(matrix, (0, columns - matrix.shape[1], 0, rows - matrix.shape[0]))


def _pad_to(values: Tensor, columns: int) -> Tensor:
    return torch.nn.functional.pad(values, (0, columns - len(values)))
