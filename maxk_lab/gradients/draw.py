"""Drawing a score pool: rollouts, scores and, where it can be worked out, the exact gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from maxk_lab.environments.protocol import Environment, ExactEnvironment, Instances, Rollouts
from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.exact import (
    checked_probabilities,
    exact_gradient,
    exact_gradient_weights,
    exact_value,
)
from maxk_lab.gradients.pool import ScorePool
from maxk_lab.gradients.scores import score_gram
from maxk_lab.gradients.trajectories import VectorisedScores, instance_scores
from maxk_lab.seeds import derive_seed

# Up to this many trajectories the Gram matrix is made over all of them, and a pool of any size costs no further backward pass.
TABLE_LIMIT = 1500
# Scores of up to this many parameters are kept as they are where the trajectories cannot be listed, made this many bytes at a time.
FEW_PARAMETERS = 64
FEW_BYTES = 2**20
# Trajectories whose log-probability is worked out together.
LOG_PROBS = 4096
# A relative bias up to this is rounding, where nothing is sampled.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


def draw_pool(
    environment: Environment,
    policy: nn.Module,
    instances: Instances,
    count: int,
    size: int,
    *,
    objectives: Sequence[Objective | int],
    seed: int,
    behaviour: nn.Module | None = None,
    on_instance: Callable[[int, int], None] = lambda done, of: None,
) -> ScorePool:
    """Draw `size` i.i.d. trajectories of each of `count` instances and reduce their scores to what measures need.

    `objectives` (an int K is max@K) are those whose exact gradient is worked out where the environment can be enumerated or
    integrated. The trajectories are drawn from `behaviour` where that is given; scores and gradients are those of `policy`. The
    trajectories of an instance depend on `seed` and on that instance's number only.
    """
    parameters: list[Tensor] = [p for p in policy.parameters() if p.requires_grad]
    integrable = isinstance(environment, ExactEnvironment) and environment.has_exact
    wanted = {Objective("max", o) if isinstance(o, int) else o for o in objectives}
    known = environment.enumerable or integrable
    exact = tuple(sorted(wanted, key=lambda o: (o.form, o.k))) if known else ()
    parts = []
    for i in range(count):
        instance = environment.select(instances, i)
        drawer = policy if behaviour is None else behaviour
        rollouts = environment.rollout(drawer, instance, size, seed=derive_seed("rollouts", seed, i))
        _check_scorable(rollouts.rewards, i)
        source = _Source(environment, policy, behaviour, parameters, instance)
        if exact and environment.enumerable:
            parts.append(_enumerated(source, rollouts, exact, i))
        elif exact:
            parts.append(_integrated(source, rollouts, exact))
        else:
            parts.append(_sampled(source, rollouts))
        on_instance(i + 1, count)
    rows, width = (max(part.gram.shape[0] for part in parts), max(part.scores.shape[0] for part in parts))
    listed = max(len(part.probabilities) for part in parts)

    def stacked(name: str) -> Tensor:
        return torch.stack([getattr(part, name) for part in parts])

    def over_listed(name: str) -> Tensor:
        return torch.stack([_pad_to(getattr(part, name), listed) for part in parts])

    return ScorePool(
        rewards=stacked("rewards"),
        lengths=stacked("lengths"),
        logit_proxy=stacked("logit_proxy"),
        rows=stacked("rows"),
        gram=torch.stack([_pad(part.gram, rows, rows) for part in parts]),
        scores=stacked("scores"),
        objectives=tuple(objective.name for objective in exact),
        inner=torch.stack([_pad(part.inner, max(rows, width), len(exact)) for part in parts]),
        norm=stacked("norm"),
        value=stacked("value"),
        probabilities=over_listed("probabilities"),
        listed_rewards=over_listed("listed_rewards"),
        listed_lengths=over_listed("listed_lengths"),
        listed_logit_proxy=over_listed("listed_logit_proxy"),
        ratios=stacked("ratios"),
        listed_ratios=over_listed("listed_ratios"),
        behaviour=over_listed("behaviour"),
        tolerance=max(TOLERANCE[p.dtype] for p in parameters),
    )


@dataclass(frozen=True)
class _Source:
    """One instance, the policy of its scores and the one that draws its trajectories (None for the same)."""

    environment: Environment
    policy: nn.Module
    behaviour: nn.Module | None
    parameters: list[Tensor]
    instance: Instances

    def log_probs(self, actions: Tensor) -> Callable[[int, int], Tensor]:
        return lambda i, j: self.environment.log_probs(self.policy, self.instance, actions[i:j].unsqueeze(0))[
            0
        ]

    @torch.no_grad()
    def log_values(self, policy: nn.Module, actions: Tensor) -> Tensor:
        """log π of actions [A, T] under `policy`, [A] in its own precision."""
        parts = [
            self.environment.log_probs(policy, self.instance, actions[i : i + LOG_PROBS].unsqueeze(0))[0]
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
        make = instance_scores(self.environment, self.policy, self.instance, actions)
        width = sum(p.numel() for p in self.parameters) + actions.shape[1]
        # A batched backward pass costs the square of its chunk; scores mapped over trajectories do not.
        chunk = (
            max(make.chunk, FEW_BYTES // (8 * width)) if isinstance(make, VectorisedScores) else make.chunk
        )
        held = [
            torch.cat([part.double() for part in make(i, min(i + chunk, len(actions)), self.parameters)], 1)
            for i in range(0, len(actions), chunk)
        ]
        return torch.cat(held).cpu()

    def gram(self, actions: Tensor, directions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = instance_scores(self.environment, self.policy, self.instance, actions)
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
class _Part:
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


def _sampled(source: _Source, rollouts: Rollouts, directions: Tensor | None = None) -> _Part:
    """`directions` [D, P] are the exact gradients; the trajectories of policies of few parameters keep a row of scores each."""
    actions = rollouts.actions[0]
    logit_proxy = rollouts.logit_proxy[0].double()
    if source.behaviour is not None:
        _, logit_proxy = source.token_weights(actions)  # the rollouts' is the behaviour policy's
    drawn = _Part(
        rewards=rollouts.rewards[0].double(),
        lengths=rollouts.lengths[0].double(),
        logit_proxy=logit_proxy,
        rows=torch.arange(len(actions)),
        inner=_no_matrix(),
        ratios=source.ratios(actions),
    )
    if not source.environment.enumerable and sum(p.numel() for p in source.parameters) <= FEW_PARAMETERS:
        scores = source.scores(actions)
        none = scores.new_zeros(len(scores), 0)
        return replace(drawn, scores=scores, inner=none if directions is None else scores @ directions.T)
    distinct, rows = torch.unique(actions, dim=0, return_inverse=True)
    gram, products = source.gram(distinct, directions)
    return replace(drawn, rows=rows, gram=gram, inner=products)


def _integrated(source: _Source, rollouts: Rollouts, objectives: tuple[Objective, ...]) -> _Part:
    """With the exact gradients of an environment that knows its objectives without listing trajectories."""
    environment = source.environment
    assert isinstance(environment, ExactEnvironment)
    values, gradients = [], []
    for objective in objectives:
        value = environment.exact_objective(source.policy, source.instance, objective)
        parts = torch.autograd.grad(value, source.parameters, allow_unused=True, materialize_grads=True)
        gradients.append(torch.cat([part.flatten().double().cpu() for part in parts]))
        values.append(value.detach().double().cpu())
    directions = torch.stack(gradients)
    drawn = _sampled(source, rollouts, directions)
    return replace(drawn, norm=directions.square().sum(1), value=torch.stack(values))


def _enumerated(source: _Source, rollouts: Rollouts, objectives: tuple[Objective, ...], index: int) -> _Part:
    listed, listed_rewards = source.environment.enumerate(source.instance)
    _check_scorable(listed_rewards, index)
    probabilities = checked_probabilities(source.log_values(source.policy, listed))
    weights = torch.stack([exact_gradient_weights(probabilities, listed_rewards, o) for o in objectives])
    value = torch.stack([exact_value(probabilities, listed_rewards.double(), o) for o in objectives])
    if len(listed) > TABLE_LIMIT:
        log_probs = source.log_probs(listed)
        gradients = torch.stack([exact_gradient(log_probs, weight, source.parameters) for weight in weights])
        return replace(_sampled(source, rollouts, gradients), norm=gradients.square().sum(1), value=value)
    gram, _ = source.gram(listed)
    # One product per objective: the numbers of one must not depend on which others are asked for, down to the last bit.
    products = torch.stack([gram @ weight for weight in weights], 1)
    norm = torch.stack(
        [weight @ product for weight, product in zip(weights, products.T.contiguous(), strict=True)]
    )
    rows = _rows_in(listed, rollouts.actions[0])
    lengths, logit_proxy = source.token_weights(listed)
    ratios, behaviour = source.ratios(listed), probabilities
    if source.behaviour is not None:
        behaviour = checked_probabilities(source.log_values(source.behaviour, listed))
    return _Part(
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
