"""A policy on held-out instances: rewards in every decoding, and Max@K curves.

This module also chooses the device: the CPU, or a CUDA device.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.environments.rollouts import Rollouts, checked
from maxk_lab.errors import LabError
from maxk_lab.estimators import maxk_curve
from maxk_lab.training.settings import WAYS, EvaluationSettings


def resolve_device(name: str, environment: Environment | None = None) -> torch.device:
    """Return the device of the setting `auto`, `cpu` or `cuda`.

    `auto` is CUDA if present, unless `environment` cannot use it. Raises `LabError` for `cuda`
    without a CUDA device, or for an environment that stays on the CPU.
    """
    lacking = ""
    if not torch.cuda.is_available():
        lacking = "torch finds no CUDA device here"
    elif environment is not None and not supports(environment, "place"):
        lacking = "this environment's instances stay on the CPU"
    if name == "cuda" and lacking:
        raise LabError(f"device cuda: {lacking}; use auto or cpu")
    return torch.device("cpu" if lacking or name == "cpu" else "cuda")


def device_of(policy: nn.Module) -> torch.device:
    """Return the device of the policy's parameters; the CPU for a policy without any."""
    return next((parameter.device for parameter in policy.parameters()), torch.device("cpu"))


def placed(environment: Environment, instances: Instances, device: torch.device) -> Instances:
    """Return the instances on `device`, or unchanged if the environment cannot move them."""
    if not supports(environment, "place"):
        return instances
    return environment.place(instances, device)


def sampled(
    environment: Environment, policy: nn.Module, instances: Instances, samples: int, seed: int
) -> tuple[Instances, Rollouts]:
    """Return the instances on the policy's device, and `samples` i.i.d. trajectories of each."""
    instances = placed(environment, instances, device_of(policy))
    return instances, checked(environment.rollout(policy, instances, samples, seed=seed), samples)


def sample_rewards(
    environment: Environment, policy: nn.Module, instances: Instances, samples: int, seed: int
) -> Tensor:
    """Return the rewards of `samples` i.i.d. trajectories of every instance.

    [I, samples] float64 on the CPU, NaN where unscorable.
    """
    _, rollouts = sampled(environment, policy, instances, samples, seed)
    return rollouts.rewards.cpu().double()


def max_curves(rewards: Tensor) -> Tensor:
    """Return ρ̂(n, K) of every instance, K = 1..n: rewards [I, n] of i.i.d. samples → [I, n].

    Each is unbiased for the instance's J_K. For rewards of 0 and 1 it is pass@k, 1 −
    C(n−c,k)/C(n,k). Samples that no reward function can score (NaN) are left out. An instance with
    m scored samples has its J_K among scorable trajectories up to K = m, and NaN beyond.
    """
    scored = ~rewards.isnan()
    curves = torch.full_like(rewards, torch.nan)
    counts = scored.sum(1)
    for count in sorted(set(counts.tolist()) - {0}):
        rows = counts == count
        curves[rows, :count] = maxk_curve(rewards[rows][scored[rows]].view(-1, count))
    return curves


# Rewards of a policy on I instances by decoding, or the reason if there are none. A temperature has
# [I, samples] of i.i.d. samples at this temperature, whose Max@K they estimate. `forced` has [I,
# samples] with forced starts, which estimate J_K^starts, the mean over the K-subsets of these
# starts of E[max]. An extra has [I] and no Max@K.
Decoded = dict[float | str, Tensor | str]


def decoded(
    environment: Environment,
    policy: nn.Module,
    instances: Instances,
    evaluate: EvaluationSettings,
    *,
    temperatures: Sequence[float],
    seed: int,
    extras_seed: int,
) -> Decoded:
    """Return the rewards at the temperatures and of all `evaluate.extras`, float64.

    All temperatures share `seed`, to reduce the noise of their differences. Extras that the
    environment lacks are errors of the sweep file. The extras:

    greedy        greedy: the reward of greedy decoding
    augmentation  greedy_augmented: the best greedy reward over an instance's eight symmetric copies
    multistart    greedy_multistart: the best greedy reward over RL4CO's forced first actions; and
                  multistart_sampling: the best of `samples` drawn with forced first actions,
                  which are not i.i.d.
    multistart_augmentation
                  greedy_multistart_augmented: the best greedy reward over the forced first actions
                  on each of the eight copies, as POMO is decoded in its paper
    """
    decoded: Decoded = {}
    for temperature in temperatures:
        drawn_from = environment
        if temperature != 1:
            assert supports(environment, "tempered")
            drawn_from = environment.tempered(temperature)
        decoded[temperature] = sample_rewards(drawn_from, policy, instances, evaluate.samples, seed)
    instances = placed(environment, instances, device_of(policy))
    extras = (WAYS[extra] for extra in WAYS if extra in evaluate.extras)
    for name in chain.from_iterable(extras):
        try:
            if name == "multistart_sampling":
                assert supports(environment, "forced_starts")
                where = environment.forced_starts(), policy, instances
                decoded["forced"] = forced = sample_rewards(*where, evaluate.samples, extras_seed)
                decoded[name] = forced.amax(1)
            else:
                assert supports(environment, "greedy")
                options = {option: option in name for option in ("augmented", "multistart")}
                decoded[name] = environment.greedy(policy, instances, **options).cpu().double()
        except LabError as error:
            decoded[name] = str(error)
    return decoded
