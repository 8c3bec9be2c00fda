"""The scores of trajectories, by the policy's layers or by a batched backward pass.

In an environment with `trajectory_log_probs`, every layer sees a row per trajectory. The scores by
layers are used only after they agree with a batched backward pass on a few trajectories. A batched
backward pass works for any policy.

Index: B instances, n samples, M trajectories, T decisions.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.gradients.scores.by_layer import LayerScores, recorded_calls
from maxk_lab.gradients.scores.per_trajectory import (
    BatchedScores,
    Scores,
    trained,
    trajectory_scores,
)
from maxk_lab.gradients.scores.products import norms_of_scores

# Trajectories of the comparison, at distant places and shuffled.
COMPARED = 5
# Scores may differ by this power of the precision: a third of the digits may be lost.
DIGITS = 1 / 3
# By policy, and by environment, mode and frozen parameters. An entry holds its environment, so that
# its id is not reused.
_HOLDS: WeakKeyDictionary[nn.Module, dict[object, tuple[Environment, bool]]] = WeakKeyDictionary()


def instance_scores(
    environment: Environment,
    policy: nn.Module,
    instance: Instances,
    actions: Tensor,
    *,
    compressed: bool = False,
) -> Scores:
    """Return the scores of trajectories actions [M, T] of one instance (a batch of one).

    `compressed` scores serve for products only: they may have fewer columns.
    """
    batch = actions.unsqueeze(0)
    if _holds(environment, policy, instance, batch):
        return _declared(environment, policy, instance, batch, compressed)
    return BatchedScores(lambda i, j: environment.log_probs(policy, instance, batch[:, i:j])[0])


def trajectory_squared_norms(
    environment: Environment, policy: nn.Module, instances: Instances, actions: Tensor
) -> Tensor:
    """Return ‖∇_θ log π_θ(τ)‖² of every trajectory, exact: actions [B, n, T] → [B, n] float64.

    θ are the parameters of `policy` that require a gradient; the policy may be any torch module.
    With scores by layers, the cost is two or three backward passes of the whole batch; else a
    backward pass per trajectory.
    """
    parameters, n = trained(policy), actions.shape[1]
    if _holds(environment, policy, instances[:1], actions[:1]):
        scores = _declared(environment, policy, instances, actions, True)
        if len(actions) == 1 or not scores.encoding:
            return norms_of_scores(scores, len(actions) * n, parameters).view(-1, n)
    # Trajectories that share an encoding are grouped by instance: each is encoded once.
    norms = []
    for b, group in enumerate(actions):
        distinct, rows = torch.unique(group, dim=0, return_inverse=True)
        instance = instances[b : b + 1]
        with torch.enable_grad():
            shared = instance_scores(environment, policy, instance, distinct, compressed=True)
            norms.append(norms_of_scores(shared, len(distinct), parameters)[rows.cpu()])
    return torch.stack(norms)


def _declared(
    environment: Environment,
    policy: nn.Module,
    instances: Instances,
    actions: Tensor,
    compressed: bool,
) -> LayerScores:
    """Return the scores of actions [B, n, T] by the layers of the policy."""
    assert supports(environment, "trajectory_log_probs")
    inputs = environment.trajectory_inputs(instances, actions)
    with torch.enable_grad(), recorded_calls(policy, 1, trained(policy)) as calls:
        # Without an encoding, the inputs may belong to several instances.
        encoding = environment.encoding(policy, instances[:1])
    return LayerScores(environment, policy, inputs, encoding, calls, compressed)


def _holds(
    environment: Environment, policy: nn.Module, instance: Instances, actions: Tensor
) -> bool:
    """Return whether the policy's layers give its scores in this environment.

    The test compares the scores of some trajectories actions [1, M, T] of one instance, and their
    products, with a batched backward pass. With fewer than three trajectories it uses these alone.
    The result is cached per environment and policy, with its mode and frozen parameters.
    """
    if not supports(environment, "trajectory_log_probs"):
        return False
    decided = _HOLDS.setdefault(policy, {})
    moving = tuple(parameter.requires_grad for parameter in policy.parameters())
    key = (id(environment), policy.training, moving)
    if key in decided:
        return decided[key][1]
    count, parameters = actions.shape[1], trained(policy)
    places = torch.linspace(0, count - 1, min(count, COMPARED)).long()
    compared = actions[:, torch.cat([places[1::2], places[::2]])]
    with torch.enable_grad():
        log_probs = environment.log_probs(policy, instance, compared)[0]
        expected = trajectory_scores(log_probs, parameters)
    norms = expected.norm(dim=1, keepdim=True)
    allowed = torch.finfo(expected.dtype).eps ** DIGITS * norms
    try:
        made, short = (
            torch.cat(scores(0, len(expected), parameters), 1)
            for some in (False, True)
            for scores in [_declared(environment, policy, instance, compared, some)]
        )
        scores_hold = ((made - expected).norm(dim=1, keepdim=True) <= allowed).all()
        products = (short @ short.T - expected @ expected.T).abs()
        holds = bool(scores_hold and (products <= allowed * norms.T).all())
    except torch.OutOfMemoryError:
        raise
    except Exception:  # layers may raise any exception
        holds = False
    if count >= 3:
        decided[key] = environment, holds
    return holds
