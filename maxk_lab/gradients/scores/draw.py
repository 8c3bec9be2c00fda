"""Drawing a score pool: rollouts, scores and, if it is known, the exact gradient.

Index: I instances, M drawn and A distinct trajectories, T decisions, D objectives, P parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.environments.rollouts import Rollouts, check_scorable, checked
from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.exact import (
    checked_probabilities,
    exact_gradient_weights,
    exact_value,
)
from maxk_lab.gradients.plain_methods import plain_method
from maxk_lab.gradients.scores.by_layer import LayerScores
from maxk_lab.gradients.scores.per_trajectory import check_graph, trained
from maxk_lab.gradients.scores.pool import Listing, Part, ScorePool, Trajectories
from maxk_lab.gradients.scores.products import score_gram
from maxk_lab.gradients.scores.trajectories import instance_scores
from maxk_lab.seeds import derive_seed, isolated_rng

# A relative bias up to this is rounding error in an enumeration.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
# With up to this many possible trajectories, the Gram matrix covers all of them, and larger pools
# cost no further backward pass.
TABLE_LIMIT = 1500
# The most parameters for which scores are stored if trajectories cannot be listed, and the bytes of
# a block of scores.
FEW_PARAMETERS = 64
FEW_BYTES = 2**20
# Trajectories in one forward pass for log-probabilities, and in one backward pass.
LOG_PROBS, BACKWARD = 4096, 2048


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
    starts: int = 1,
    on_instance: Callable[[int, int], None] = lambda done, of: None,
) -> ScorePool:
    """Draw `size` i.i.d. trajectories of each of `count` instances; return their score pool.

    `objectives` (an int K is max@K) are the objectives whose exact gradient is computed if the
    environment can be enumerated or integrated. `behaviour` draws the trajectories if it is set;
    scores and gradients are those of `policy`. `starts` is the number of forced starts of the
    environment, which trajectories take in turn. If ∇J is not exact, it is estimated from all
    trajectories of an instance, except with a behaviour policy or forced starts. The trajectories
    of an instance depend only on `seed` and the instance's number. Raises `LabError` if log_probs
    has no gradient, or if an exact gradient would be that of a policy below float32.
    """
    every = {Objective("max", o) if isinstance(o, int) else o for o in objectives}
    integrable = supports(environment, "exact_objective", "has_exact") and environment.has_exact
    judged = environment.enumerable or integrable
    targets = tuple(sorted(every, key=lambda o: (o.form, o.k)))
    exact = targets if judged else ()
    if judged and not all(parameter.dtype in TOLERANCE for parameter in trained(policy)):
        raise LabError("exact gradients need a policy in float32 or float64")
    parts, gradients, scores_dtype = [], [], trained(policy)[0].dtype
    estimable = behaviour is None and starts == 1
    drawer = policy if behaviour is None else behaviour
    for i in range(count):
        instance = instances[i : i + 1]
        rollouts = checked(
            environment.rollout(drawer, instance, size, seed=derive_seed("rollouts", seed, i)),
            size,
            1,
        )
        check_scorable(rollouts.rewards, f" of instance {i}", "gradient")
        if i == 0:
            check_graph(environment, policy, instance, rollouts.actions[0])
        source = Source(environment, policy, behaviour, instance)
        if exact and environment.enumerable:
            entry, gradient = source.enumerated(rollouts, exact, i)
        elif exact:
            entry, gradient = source.integrated(rollouts, exact)
        else:
            coefficients = [gradient_coefficients(rollouts.rewards[0], o) for o in targets]
            sampled = torch.stack(coefficients) if estimable and targets else None
            entry, gradient = source.sampled(rollouts, coefficients=sampled)
        parts.append(entry)
        # With forced starts, no estimate is unbiased for ∇J.
        gradients.append(gradient[: len(targets) if starts == 1 else 0].to(scores_dtype))
        on_instance(i + 1, count)
    tolerance = max(TOLERANCE.get(parameter.dtype, 1.0) for parameter in trained(policy))
    objective_names = tuple(objective.name for objective in exact)
    products = products_between(gradients, targets)
    return ScorePool(tuple(parts), objective_names, tolerance, starts, products)


def gradient_coefficients(rewards: Tensor, objective: Objective) -> Tensor:
    """Return the weights [M] of an unbiased estimate of ∇J from M trajectories, one group.

    They are NaN if the objective needs more than M trajectories.
    """
    method = plain_method(objective, len(rewards))
    if method.refusal(len(rewards)) is not None:
        return torch.full((len(rewards),), torch.nan, dtype=torch.float64)
    return method.weights(rewards.double().cpu())


def products_between(
    gradients: Sequence[Tensor], objectives: Sequence[Objective]
) -> dict[str, Tensor]:
    """Return ⟨∇J_i, ∇J_j⟩ [I, I] by objective from gradients [D, P] of every instance.

    They are NaN for instances without gradients (D = 0).
    """
    nothing = torch.full((len(gradients), len(gradients)), torch.nan, dtype=torch.float64)
    products = {objective.name: nothing for objective in objectives}
    for position, objective in enumerate(objectives):
        if all(len(gradient) for gradient in gradients):
            by_instance = torch.stack([gradient[position] for gradient in gradients]).double()
            products[objective.name] = by_instance @ by_instance.T
    return products


@dataclass(frozen=True)
class Source:
    """One instance, the policy of its scores, and the sampling policy (None if it is the same)."""

    environment: Environment
    policy: nn.Module
    behaviour: nn.Module | None
    instance: Instances

    @cached_property
    def parameters(self) -> list[nn.Parameter]:
        return trained(self.policy)

    def sampled(
        self,
        rollouts: Rollouts,
        directions: Tensor | None = None,
        coefficients: Tensor | None = None,
    ) -> tuple[Part, Tensor]:
        """The pool part of drawn trajectories, and Σ_i c_i ψ_i [C, P] of `coefficients` [C, M].

        `directions` [D, P] are exact gradients.
        """
        actions, nothing = rollouts.actions[0], torch.zeros(0, dtype=torch.float64)
        rewards, lengths = rollouts.rewards[0].double(), rollouts.lengths[0].double()
        proxies = rollouts.logit_proxy[0].double()
        drawn = Trajectories(rewards, lengths, proxies, self.ratios(actions))
        if self.behaviour is not None:  # the rollouts' numbers are those of the behaviour policy
            drawn = replace(drawn, logit_proxy=self.token_weights(actions)[1])
        few = sum(p.numel() for p in self.parameters) <= FEW_PARAMETERS
        if few and not self.environment.enumerable:
            rows, scores = torch.arange(len(actions)), self.scores(actions)
            inner = (
                scores.new_zeros(len(scores), 0) if directions is None else scores @ directions.T
            )
            sums = scores[:0] if coefficients is None else coefficients @ scores
            return Part(drawn, rows, inner, nothing, nothing, scores=scores), sums
        distinct, rows = torch.unique(actions, dim=0, return_inverse=True)
        if coefficients is not None:
            by_row = coefficients.new_zeros(len(coefficients), len(distinct))
            coefficients = by_row.index_add_(1, rows.cpu(), coefficients)
        gram, inner, sums = self.gram(distinct, directions, coefficients)
        return Part(drawn, rows, inner, nothing, nothing, gram), sums

    def integrated(
        self, rollouts: Rollouts, objectives: Sequence[Objective]
    ) -> tuple[Part, Tensor]:
        """Return a sampled part and the exact gradients [D, P] by integration."""
        assert supports(self.environment, "exact_objective")
        values, gradients = [], []
        for objective in objectives:
            value = self.environment.exact_objective(self.policy, self.instance, objective)
            gradients.append(self.gradient(value))
            values.append(value.detach().double().cpu())
        directions = torch.stack(gradients)
        norm, (entry, _) = directions.square().sum(1), self.sampled(rollouts, directions)
        return replace(entry, norm=norm, value=torch.stack(values)), directions

    def enumerated(
        self, rollouts: Rollouts, objectives: Sequence[Objective], index: int
    ) -> tuple[Part, Tensor]:
        """Return the part and ∇J [D, P] of an instance whose trajectories can all be listed.

        With more than `TABLE_LIMIT` trajectories, the part is sampled and has exact gradients.
        """
        listed, rewards = self.environment.enumerate(self.instance)
        check_scorable(rewards, f" of instance {index}", "gradient")
        rewards = rewards.double()
        probabilities = checked_probabilities(self.log_values(self.policy, listed))
        weights = [exact_gradient_weights(probabilities, rewards, o) for o in objectives]
        value = torch.stack([exact_value(probabilities, rewards, o) for o in objectives])
        if len(listed) > TABLE_LIMIT:
            gradients = torch.stack([self.exact_gradient(listed, weight) for weight in weights])
            norm, (entry, _) = gradients.square().sum(1), self.sampled(rollouts, gradients)
            return replace(entry, norm=norm, value=value), gradients
        gram, _, gradients = self.gram(listed, coefficients=torch.stack(weights))
        # One product per objective: the last bit must not depend on the other objectives.
        inner = [gram @ weight for weight in weights]
        norm = torch.stack([weight @ column for weight, column in zip(weights, inner, strict=True)])
        behaviour = probabilities
        if self.behaviour is not None:
            behaviour = checked_probabilities(self.log_values(self.behaviour, listed))
        columns = (rewards, *self.token_weights(listed), self.ratios(listed))
        rows = _rows_in(listed, rollouts.actions[0])
        entry = Part(
            Trajectories(*(column[rows] for column in columns)),
            rows,
            torch.stack(inner, 1),
            norm,
            value,
            gram,
            listed=Listing(*columns, probabilities, behaviour),
        )
        return entry, gradients

    @torch.no_grad()
    def log_values(self, policy: nn.Module, actions: Tensor) -> Tensor:
        """Return log π of actions [A, T] under `policy`, [A] in the policy's precision."""
        parts = [
            self.environment.log_probs(policy, self.instance, chunk.unsqueeze(0))[0]
            for chunk in torch.split(actions, LOG_PROBS)
        ]
        return torch.cat(parts)

    def ratios(self, actions: Tensor) -> Tensor:
        """Return π over the behaviour policy for actions [A, T], [A] float64."""
        if self.behaviour is None:
            return torch.ones(len(actions), dtype=torch.float64)
        log_probs = self.log_values(self.policy, actions).double()
        return (log_probs - self.log_values(self.behaviour, actions).double()).exp()

    def scores(self, actions: Tensor) -> Tensor:
        """Return the scores, [A, P] float64."""
        scores = instance_scores(self.environment, self.policy, self.instance, actions)
        chunk = scores.chunk
        # The cost of a batched backward pass is quadratic in the chunk; that of layers is not.
        if isinstance(scores, LayerScores):
            width = sum(p.numel() for p in self.parameters) + actions.shape[1]
            chunk = max(chunk, FEW_BYTES // (8 * width))
        starts = range(0, len(actions), chunk)
        made = (scores(i, min(i + chunk, len(actions)), self.parameters) for i in starts)
        return torch.cat([torch.cat([p.double() for p in parts], 1) for parts in made]).cpu()

    def gram(
        self,
        actions: Tensor,
        directions: Tensor | None = None,
        coefficients: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return `score_gram` of actions [A, T]: [A, A], [A, D], and sums [C, P]."""
        scores = instance_scores(
            self.environment, self.policy, self.instance, actions, compressed=directions is None
        )
        gram, products, sums = score_gram(
            scores,
            len(actions),
            self.parameters,
            directions=directions,
            coefficients=coefficients,
        )
        if len(sums) and isinstance(scores, LayerScores):
            sums = scores.expanded(sums, self.parameters)
        return gram, products, sums

    def exact_gradient(self, listed: Tensor, weights: Tensor) -> Tensor:
        """Return ∇J = Σ_a c_a ψ_a of all trajectories [A, T] with weights c [A], [P] float64."""
        total = torch.zeros(sum(p.numel() for p in self.parameters), dtype=torch.float64)
        chunks = torch.split(listed, BACKWARD), torch.split(weights, BACKWARD)
        for actions, weight in zip(*chunks, strict=True):
            log_probs = self.environment.log_probs(
                self.policy, self.instance, actions.unsqueeze(0)
            )[0]
            total += self.gradient(log_probs, weight.to(log_probs))
        return total

    def gradient(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return ∇ of a value, or of the weighted sum of values, [P] float64."""
        parts = torch.autograd.grad(
            values, self.parameters, weights, allow_unused=True, materialize_grads=True
        )
        return torch.cat([piece.flatten() for piece in parts]).double().cpu()

    @torch.no_grad()
    def token_weights(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return lengths and logit proxies of actions [A, T] under the policy, both [A] float64."""
        tokens = self.environment.tokens(self.policy, self.instance, actions.unsqueeze(0))
        return tokens.mask[0].sum(-1).double(), tokens.logit_proxy[0].double().sum(-1)


def perturbed(policy: nn.Module, distance: float, seed: int) -> nn.Module:
    """Return a copy of `policy` with its trainable parameters moved by `distance` (Euclidean).

    The parameters form one vector. The direction is uniformly random and depends only on `seed`, so
    growing distances move along one line. Raises `ValueError` for a negative distance.
    """
    if not distance >= 0:
        raise ValueError(f"distance must be at least 0, got {distance!r}")
    moved = copy.deepcopy(policy)
    parameters = trained(moved)
    with isolated_rng(seed):
        direction = [torch.randn(p.shape, dtype=torch.float64) for p in parameters]
    length = torch.stack([d.square().sum() for d in direction]).sum().sqrt()
    with torch.no_grad():
        for parameter, d in zip(parameters, direction, strict=True):
            parameter.add_((distance / length * d).to(parameter))
    return moved


def _rows_in(listed: Tensor, actions: Tensor) -> Tensor:
    """Return the row of `listed` [A, T] of each of actions [M, ≤ T]."""
    padded = torch.nn.functional.pad(actions, (0, listed.shape[1] - actions.shape[1]))
    _, rows_of_both = torch.unique(torch.cat([listed, padded]), dim=0, return_inverse=True)
    row_of = torch.empty(len(listed), dtype=torch.long)
    row_of[rows_of_both[: len(listed)]] = torch.arange(len(listed))
    return row_of[rows_of_both[len(listed) :]]
