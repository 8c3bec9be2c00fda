"""The scores of trajectories, by the fastest exact way that their environment allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from maxk_lab.environments.capabilities import LayerwiseEnvironment, VectorisedEnvironment
from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.gradients.scores.by_layer import OWN, layer_scores
from maxk_lab.gradients.scores.layers import NotByLayerError
from maxk_lab.gradients.scores.per_trajectory import (
    BatchedScores,
    Scores,
    trained,
    trajectory_scores,
)
from maxk_lab.gradients.scores.products import grams_of_scores, norms_of_scores
from maxk_lab.gradients.scores.vectorised import VectorisedScores

# So many trajectories at a time decide whether a policy's layers tell its scores: two numbers, for
# what a layer gives once for all of them may have any one number of rows.
TRIED = (2, 3)
# How a fast way fails: layers do not tell; a policy that needs a batch dimension, or has an
# operation that cannot be mapped (a GRU's).
FAILED = (NotByLayerError, RuntimeError, ValueError, IndexError)
_BY_LAYER: WeakKeyDictionary[nn.Module, dict[type, bool]] = WeakKeyDictionary()
Reduced = TypeVar("Reduced")


def reduced(
    reduce: Callable[[Scores], Reduced],
    environment: Environment,
    policy: nn.Module,
    instance: Instances,
    actions: Tensor,
) -> Reduced:
    """`reduce` of the scores of trajectories actions [M, T] of one instance (a batch of one)."""
    for scores in _fast_ways(environment, policy, instance, actions.unsqueeze(0)):
        try:
            return reduce(scores)
        except FAILED as error:
            _remember(error, environment, policy)
    return reduce(_batched_scores(environment, policy, instance, actions.unsqueeze(0)))


def instance_scores(
    environment: Environment, policy: nn.Module, instance: Instances, actions: Tensor
) -> Scores:
    """The scores of the trajectories actions [M, T] of one instance, the fastest way.

    Any but `BatchedScores` may fail when they are asked for; see `reduced`.
    """
    batch = actions.unsqueeze(0)
    for scores in _fast_ways(environment, policy, instance, batch):
        return scores
    return _batched_scores(environment, policy, instance, batch)


def _fast_ways(
    environment: Environment, policy: nn.Module, instances: Instances, actions: Tensor
) -> Iterator[Scores]:
    """Yield ways to the scores of actions [B, n, T], by instance, the fastest first."""
    if isinstance(environment, VectorisedEnvironment):
        inputs = environment.trajectory_inputs(instances, actions)
        yield VectorisedScores(environment, policy, inputs)
    layerwise = _layerwise(environment, policy, environment.select(instances, 0), actions[:1])
    if layerwise is not None:
        try:
            yield layer_scores(layerwise, policy, instances, actions)
        except NotByLayerError:  # the trajectories of an instance share an encoding
            return


def _remember(error: Exception, environment: Environment, policy: nn.Module) -> None:
    """Remember that layers do not tell; what no way can do is raised again."""
    if isinstance(error, torch.OutOfMemoryError):
        raise error
    if isinstance(error, NotByLayerError):
        _BY_LAYER[policy][type(environment)] = False


def _batched_scores(
    environment: Environment, policy: nn.Module, instance: Instances, actions: Tensor
) -> BatchedScores:
    return BatchedScores(lambda i, j: environment.log_probs(policy, instance, actions[:, i:j])[0])


def _layerwise(
    environment: Environment, policy: nn.Module, instance: Instances, actions: Tensor
) -> LayerwiseEnvironment | None:
    """The environment, where a policy's layers tell the scores of its trajectories.

    A few of the trajectories actions [1, M, T] decide, far apart and in either order: whether the
    layers keep them apart. They do so once per policy and kind of environment; whether the scores
    are whole is checked whenever they are made.
    """
    if not isinstance(environment, LayerwiseEnvironment):
        return None
    decided, kind = _BY_LAYER.setdefault(policy, {}), type(environment)
    agree = decided.get(kind)
    if agree is None:
        count = actions.shape[1]
        spread = [torch.linspace(0, count - 1, rows).long() for rows in TRIED]
        agree = all(
            _agree(environment, policy, instance, actions[:, rows])
            for rows in (*spread, *(rows.flip(0) for rows in spread))
        )
        if count >= max(TRIED):
            decided[kind] = agree
    return environment if agree else None


def _agree(
    environment: LayerwiseEnvironment, policy: nn.Module, instance: Instances, actions: Tensor
) -> bool:
    """Whether scores by layers, and their products, are those of a batched backward pass."""
    parameters = trained(policy)
    with torch.enable_grad():
        log_probs = environment.log_probs(policy, instance, actions)[0]
        expected = trajectory_scores(log_probs, parameters)
    try:
        by_layer = layer_scores(environment, policy, instance, actions)
        scores = torch.cat(by_layer(0, len(expected), parameters), 1)
        short = torch.cat(by_layer.of_products()(0, len(expected), parameters), 1)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a layer of whatever make, called in whatever way
        return False
    norms = expected.norm(dim=1, keepdim=True)
    allowed = torch.finfo(expected.dtype).eps ** OWN * norms
    return bool(
        ((scores - expected).norm(dim=1, keepdim=True) <= allowed).all()
        and ((short @ short.T - expected @ expected.T).abs() <= allowed * norms.T).all()
    )


def trajectory_squared_norms(
    environment: Environment, policy: nn.Module, instances: Instances, actions: Tensor
) -> Tensor:
    """Return ‖∇_θ log π_θ(τ)‖² of every trajectory, exact: actions [B, n, T] → [B, n] float64.

    θ are the parameters of `policy` that require a gradient; the policy may be any torch module.
    Where the layers of the policy tell them, or torch.func can map it over trajectories, this costs
    about as much as two or three backward passes of the whole batch, elsewhere as many as
    trajectories.
    """

    def norms(scores: Scores, groups: int, n: int, parameters: list[nn.Parameter]) -> Tensor:
        return norms_of_scores(scores, groups * n, parameters).view(groups, n)

    return _of_groups(norms, environment, policy, instances, actions)


def trajectory_grams(
    environment: Environment, policy: nn.Module, instances: Instances, actions: Tensor
) -> Tensor:
    """Return the exact Gram matrix Ψ Ψᵀ of each instance: actions [B, n, T] → [B, n, n] float64.

    Parameters and cost are those of `trajectory_squared_norms`, which is its diagonal.
    """
    return _of_groups(grams_of_scores, environment, policy, instances, actions)


# (scores of groups · n trajectories, groups, n, parameters) → [groups, ...].
Reduce = Callable[[Scores, int, int, list[nn.Parameter]], Tensor]


def _of_groups(
    reduce: Reduce,
    environment: Environment,
    policy: nn.Module,
    instances: Instances,
    actions: Tensor,
) -> Tensor:
    """Return `reduce` of the scores of B groups of n.

    They are computed all at once where the trajectories of several instances can be told apart,
    elsewhere instance by instance.
    """
    parameters = trained(policy)
    count, n = actions.shape[:2]
    for scores in _fast_ways(environment, policy, instances, actions):
        try:
            return reduce(scores, count, n, parameters)
        except FAILED as error:
            _remember(error, environment, policy)

    def of_group(scores: Scores) -> Tensor:
        return reduce(scores, 1, n, parameters)

    return torch.cat(
        [
            reduced(of_group, environment, policy, environment.select(instances, b), actions[b])
            for b in range(count)
        ]
    )
