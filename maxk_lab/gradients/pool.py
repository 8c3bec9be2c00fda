"""The score pool: rewards and Gram matrix of M trajectories per instance, from which every cell of a study is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from maxk_lab.environments.protocol import Environment, Instances
from maxk_lab.gradients.exact import (
    checked_probabilities,
    exact_gradient,
    exact_gradient_weights,
    exact_value,
)
from maxk_lab.gradients.scores import score_gram
from maxk_lab.seeds import derive_seed

# Up to this many trajectories the Gram matrix is made over all of them, and a pool of any size costs no further backward pass.
TABLE_LIMIT = 1500


@dataclass(frozen=True)
class ScorePool:
    """M i.i.d. trajectories of each of I instances, and everything about their scores that a measure needs.

    rewards [I, M]; rows [I, M], the row of `gram` of each trajectory (equal trajectories share one); gram [I, A, A], ψ·ψ of the
    distinct trajectories, zero-padded. Where the exact gradient is known, for each K in `ks`: inner [I, A, D] = ψ·∇J_K,
    norm [I, D] = ‖∇J_K‖², value [I, D] = J_K; else D = 0. All float64.
    """

    rewards: Tensor
    rows: Tensor
    gram: Tensor
    ks: tuple[int, ...]
    inner: Tensor
    norm: Tensor
    value: Tensor

    @property
    def exact(self) -> bool:
        """Whether the exact gradient is known."""
        return bool(self.ks)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The pool as arrays, for an `.npz` file."""
        arrays = {
            name: getattr(self, name).numpy()
            for name in ("rewards", "rows", "gram", "inner", "norm", "value")
        }
        return arrays | {"ks": np.asarray(self.ks, dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> ScorePool:
        """The inverse of `to_arrays`."""
        tensors = {
            name: torch.from_numpy(np.asarray(arrays[name]))
            for name in ("rewards", "rows", "gram", "inner", "norm", "value")
        }
        return cls(ks=tuple(int(k) for k in arrays["ks"]), **tensors)


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
        parts.append(
            _enumerated(
                environment, policy, parameters, instance, rollouts.rewards[0], rollouts.actions[0], exact_ks
            )
            if exact_ks
            else _sampled(environment, policy, parameters, instance, rollouts.rewards[0], rollouts.actions[0])
        )
        on_instance(i + 1, count)
    rows_needed = max(part[2].shape[0] for part in parts)
    return ScorePool(
        rewards=torch.stack([part[0] for part in parts]),
        rows=torch.stack([part[1] for part in parts]),
        gram=torch.stack([_pad(part[2], rows_needed, rows_needed) for part in parts]),
        ks=exact_ks,
        inner=torch.stack([_pad(part[3], rows_needed, len(exact_ks)) for part in parts]),
        norm=torch.stack([part[4] for part in parts]),
        value=torch.stack([part[5] for part in parts]),
    )


def _teacher_forced(
    environment: Environment, policy: nn.Module, instance: Instances, actions: Tensor
) -> Callable[[int, int], Tensor]:
    return lambda i, j: environment.log_probs(policy, instance, actions[i:j].unsqueeze(0))[0]


Part = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _sampled(
    environment: Environment,
    policy: nn.Module,
    parameters: list[Tensor],
    instance: Instances,
    rewards: Tensor,
    actions: Tensor,
) -> Part:
    distinct, rows = torch.unique(actions, dim=0, return_inverse=True)
    gram, products = score_gram(
        _teacher_forced(environment, policy, instance, distinct), len(distinct), parameters
    )
    nothing = torch.zeros(0, dtype=torch.float64)
    return rewards.double(), rows, gram, products, nothing, nothing


def _enumerated(
    environment: Environment,
    policy: nn.Module,
    parameters: list[Tensor],
    instance: Instances,
    rewards: Tensor,
    actions: Tensor,
    ks: tuple[int, ...],
) -> Part:
    listed, listed_rewards = environment.enumerate(instance)
    log_probs = _teacher_forced(environment, policy, instance, listed)
    with torch.no_grad():
        probabilities = checked_probabilities(
            torch.cat([log_probs(i, i + 4096) for i in range(0, len(listed), 4096)])
        )
    weights = torch.stack([exact_gradient_weights(probabilities, listed_rewards, k) for k in ks])
    value = torch.stack([exact_value(probabilities, listed_rewards.double(), k) for k in ks])
    if len(listed) <= TABLE_LIMIT:
        gram, _ = score_gram(log_probs, len(listed), parameters)
        # One product per K: the numbers of one K must not depend on which others are asked for, down to the last bit.
        products = torch.stack([gram @ weight for weight in weights], 1)
        norm = torch.stack(
            [weight @ product for weight, product in zip(weights, products.T.contiguous(), strict=True)]
        )
        padded = torch.nn.functional.pad(actions, (0, listed.shape[1] - actions.shape[1]))
        _, rows_of_both = torch.unique(torch.cat([listed, padded]), dim=0, return_inverse=True)
        row_of = torch.empty(len(listed), dtype=torch.long)
        row_of[rows_of_both[: len(listed)]] = torch.arange(len(listed))
        rows = row_of[rows_of_both[len(listed) :]]
        return listed_rewards.double()[rows], rows, gram, products, norm, value
    gradients = torch.cat([exact_gradient(log_probs, weight, parameters).unsqueeze(0) for weight in weights])
    distinct, rows = torch.unique(actions, dim=0, return_inverse=True)
    gram, products = score_gram(
        _teacher_forced(environment, policy, instance, distinct),
        len(distinct),
        parameters,
        directions=gradients,
    )
    return rewards.double(), rows, gram, products, gradients.square().sum(1), value


def _pad(matrix: Tensor, rows: int, columns: int) -> Tensor:
    return torch.nn.functional.pad(matrix, (0, columns - matrix.shape[1], 0, rows - matrix.shape[0]))
