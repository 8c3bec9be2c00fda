"""Types of environments that gradients ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from maxk_lab.environments.environment import Environment


@runtime_checkable
class VectorisedEnvironment(Environment, Protocol):
    """An environment with `FullEnvironment.trajectory_log_prob`."""

    trajectory_inputs: Any

    def trajectory_log_prob(self, policy: Callable[..., Tensor], *row: Tensor) -> Tensor: ...


@runtime_checkable
class LayerwiseEnvironment(Environment, Protocol):
    """An environment with `FullEnvironment.trajectory_log_probs`."""

    trajectory_inputs: Any
    trajectory_log_probs: Callable[..., Tensor]
    encoding: Any


@runtime_checkable
class ExactEnvironment(Environment, Protocol):
    """An environment with `FullEnvironment.exact_objective`."""

    has_exact: bool
    exact_objective: Callable[..., Tensor]
