"""The device that a training runs on: the CPU, or a CUDA device where there is one."""

from __future__ import annotations

import torch
from torch import nn

from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.errors import LabError


def resolve_device(name: str, environment: Environment | None = None) -> torch.device:
    """Return the device of the setting `auto`, `cpu` or `cuda`.

    `auto` is CUDA where it is present, unless `environment` cannot use it. Raises `LabError` for
    `cuda` without a CUDA device, or for an environment that stays on the CPU.
    """
    placed = environment is None or supports(environment, "place")
    if name == "cuda" and not torch.cuda.is_available():
        raise LabError("device cuda: torch finds no CUDA device here; use auto or cpu")
    if name == "cuda" and not placed:
        raise LabError("device cuda: this environment's instances stay on the CPU; use auto or cpu")
    wanted = name == "cuda" or (name == "auto" and placed and torch.cuda.is_available())
    return torch.device("cuda" if wanted else "cpu")


def device_of(policy: nn.Module) -> torch.device:
    """Return the device of the policy's parameters; the CPU for a policy without any."""
    return next((parameter.device for parameter in policy.parameters()), torch.device("cpu"))


def placed(environment: Environment, instances: Instances, device: torch.device) -> Instances:
    """Return the instances on `device`, or where they are if the environment places none."""
    return environment.place(instances, device) if supports(environment, "place") else instances
