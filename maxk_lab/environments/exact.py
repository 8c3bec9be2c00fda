"""The smallest environments, with exact objectives: a bandit, a Gaussian."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.exact_rows import EXPONENTIAL_RATE, GaussianRow, load_gaussian_reward
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, mapped, token_statistics
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.value import distribution_value
from maxk_lab.leaving import RAISED
from maxk_lab.policies.catalogue import fresh_policy
from maxk_lab.seeds import isolated_rng

# The reach of the cells in standard deviations: less than 1e-18 lies beyond, and counts for the
# outermost cells.
REACH = 9.0
# The least number of cells between two breakpoints.
LEAST_CELLS = 200
CELLS = 20_000
# Halving the cells may move J by this share of the range of rewards; more indicates a jump inside a
# cell.
LARGEST_MOVE = 1e-5
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


class Bandit:
    """Instances are reward tables [B, arms]: `rewards` + `reward_shift`.

    One trajectory is one arm.
    """

    def __init__(
        self, row: EnvironmentRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        self.arms: int = parameters["arms"]
        self.reward_shift: float = parameters["reward_shift"]
        self.rewards: str = parameters.get("rewards", "gaussian")
        self.policy_parameters = dict(policy)
        self.enumerable = row.enumerable(parameters)

    def policy(self, seed: int) -> nn.Module:
        return fresh_policy(self.policy_parameters, seed, arms=self.arms)

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Tensor:
        """Tables: Gaussian tables are drawn, other tables are equal for every seed and instance."""
        if self.rewards != "gaussian":
            return _table(self.rewards, self.arms).repeat(count, 1) + self.reward_shift
        with isolated_rng(seed):
            return torch.randn(count, self.arms, dtype=torch.float64) + self.reward_shift

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: Tensor, n: int, *, seed: int) -> Rollouts:
        probabilities = policy().exp().expand(len(instances), -1)
        with isolated_rng(seed):
            arms = torch.multinomial(probabilities, n, replacement=True)
        actions = arms.unsqueeze(-1)
        tokens = self.tokens(policy, instances, actions)
        return Rollouts.from_tokens(tokens, actions=actions, rewards=instances.gather(1, arms))

    def log_probs(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> Tensor:
        log_policy: Tensor = policy()
        return log_policy[actions[..., 0]]

    def tokens(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> TokenStatistics:
        mask = torch.zeros_like(actions, dtype=torch.bool)
        mask[..., 0] = True
        log_policy = policy().expand(*actions.shape, -1)
        return token_statistics(log_policy, actions, mask)

    def trajectory_inputs(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
        return (actions[..., :1].reshape(-1, 1),)

    def encoding(self, policy: nn.Module, instances: Tensor) -> tuple[Tensor, ...]:
        return (policy().unsqueeze(0),)

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Tensor
    ) -> Tensor:
        return encoding[0].gather(1, rows[0]).squeeze(1)

    def enumerate(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        return torch.arange(self.arms).unsqueeze(-1), instances[0]


def _table(name: str, arms: int) -> Tensor:
    """Return the rewards of a fixed table, [arms], ascending from 0 to 1."""
    position = torch.linspace(0, 1, arms, dtype=torch.float64)
    if name == "linear":
        return position
    if name == "exponential":
        return torch.expm1(EXPONENTIAL_RATE * position) / math.expm1(EXPONENTIAL_RATE)
    return (position == 1).double()


class Gaussian:
    """One trajectory is one draw x [dim].

    All instances are equal and empty, [B, 0]. All numbers are float64. A policy is any module that
    returns [2, dim] like `DiagonalGaussian`. `logit_proxy` is NaN: there are no logits.
    """

    enumerable = False

    def __init__(
        self, row: GaussianRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        self.dim: int = parameters["dim"]
        self.has_exact = row.integrable(parameters)
        self.reward_name: str = parameters["reward"]
        self.reward, self.breakpoints = load_gaussian_reward(self.reward_name)
        self.policy_parameters = dict(policy)

    def policy(self, seed: int) -> nn.Module:
        return fresh_policy(self.policy_parameters, seed, dim=self.dim)

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Tensor:
        return torch.empty(count, 0, dtype=torch.float64)

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: Tensor, n: int, *, seed: int) -> Rollouts:
        mean, log_scale = policy()
        with isolated_rng(seed):
            noise = torch.randn(len(instances), n, self.dim, dtype=torch.float64)
        actions = mean + log_scale.exp() * noise
        tokens = self.tokens(policy, instances, actions)
        return Rollouts.from_tokens(tokens, actions=actions, rewards=self.rewards(actions))

    def log_probs(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> Tensor:
        return _log_density(policy(), actions[..., : self.dim])

    def tokens(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> TokenStatistics:
        """Return the statistics: the draw is one decision, at the first of its `dim` places."""
        gaussian, rest = policy(), (0, actions.shape[-1] - 1)
        log_probs = _log_density(gaussian, actions[..., : self.dim])
        draw = TokenStatistics(
            log_probs=log_probs,
            entropy=_entropy(gaussian[1]).expand_as(log_probs),
            logit_proxy=torch.full_like(log_probs, torch.nan),
            mask=torch.ones_like(log_probs, dtype=torch.bool),
        )
        return mapped(lambda values: nn.functional.pad(values.unsqueeze(-1), rest), draw)

    def enumerate(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        raise LabError("the draws of a gaussian are real numbers: they cannot be listed")

    def trajectory_inputs(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
        return (actions[..., : self.dim].reshape(-1, self.dim),)

    def encoding(self, policy: nn.Module, instances: Tensor) -> tuple[Tensor, ...]:
        return (policy().unsqueeze(0),)

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Tensor
    ) -> Tensor:
        return _log_density(encoding[0].transpose(0, 1), rows[0])

    def exact_objective(self, policy: nn.Module, instances: Tensor, objective: Objective) -> Tensor:
        """Return J by quadrature, extrapolated from two sizes of cells.

        The reward of a cell is the reward at its middle. Raises `LabError` for dim > 1, and if J
        depends on the cells: the reward then jumps at an undeclared breakpoint.
        """
        if not self.has_exact:
            raise LabError(f"the exact objective of a gaussian needs dim = 1, got {self.dim}")
        mean, log_scale = policy()[:, 0]
        edges = cell_edges(mean.item(), log_scale.exp().item(), self.breakpoints, CELLS)

        def integral(edges: Tensor) -> tuple[Tensor, Tensor]:
            """Return J with these cells, and their rewards."""
            rewards = self.rewards(((edges[:-1] + edges[1:]) / 2).unsqueeze(-1))
            probabilities = cell_probabilities(edges, mean, log_scale)
            return distribution_value(probabilities, rewards, objective), rewards

        coarse, _ = integral(edges)
        halves = torch.cat([edges, (edges[:-1] + edges[1:]) / 2]).sort().values
        fine, rewards = integral(halves)
        move = (fine - coarse).abs().item()
        if move > LARGEST_MOVE * float(rewards.max() - rewards.min()):
            raise LabError(
                f"{objective.name} of the reward function {self.reward_name!r} moves by {move:.1e} "
                "when the cells are halved: give the function an attribute `breakpoints` with the "
                "numbers where it jumps"
            )
        # The error is proportional to the square of the cells' size.
        return fine + (fine - coarse) / 3

    def rewards(self, actions: Tensor) -> Tensor:
        """Return the rewards of actions [..., dim] → [...] float64.

        Raises `LabError`, naming the function, for any other result.
        """
        name = f"reward function {self.reward_name!r}"
        try:
            values = torch.as_tensor(self.reward(actions.detach().clone()))
        except RAISED as error:
            raise LabError(
                f"{name} raised {type(error).__name__} for actions of shape "
                f"{tuple(actions.shape)}: {error}"
            ) from error
        if values.shape != actions.shape[:-1] or values.is_complex():
            raise LabError(
                f"{name} must return real numbers of shape {tuple(actions.shape[:-1])} for actions "
                f"of shape {tuple(actions.shape)}, got {values.dtype} of shape "
                f"{tuple(values.shape)}"
            )
        if not bool(values.isfinite().all()):
            culprit = tuple((~values.isfinite()).nonzero()[0].tolist())
            raise LabError(
                f"{name} returned {values[culprit].item()} for x = {actions[culprit].tolist()}; "
                "a reward is a finite number"
            )
        return values.detach().double()


def _log_density(gaussian: Tensor, actions: Tensor) -> Tensor:
    """Return log N(x; mean, scale²) of [2, dim] at x [..., dim] → [...]."""
    mean, log_scale = gaussian
    z = (actions - mean) * torch.exp(-log_scale)
    density: Tensor = (-0.5 * z.square() - log_scale - LOG_ROOT_TWO_PI).sum(-1)
    return density


def _entropy(log_scale: Tensor) -> Tensor:
    """Return the differential entropy, a scalar: it is negative for small scales."""
    return (log_scale + 0.5 + LOG_ROOT_TWO_PI).sum()


def cell_edges(mean: float, scale: float, breakpoints: Sequence[float], cells: int) -> Tensor:
    """Return edges [C + 1] of about `cells` cells over mean ± REACH · scale.

    They are the breakpoints inside, and evenly spaced edges between them.
    """
    low, high = mean - REACH * scale, mean + REACH * scale
    marks = [low, *sorted({point for point in breakpoints if low < point < high}), high]
    parts = []
    for start, stop in pairwise(marks):
        count = max(math.ceil(cells * (stop - start) / (high - low)), LEAST_CELLS)
        parts.append(torch.linspace(start, stop, count + 1, dtype=torch.float64)[:-1])
    return torch.cat([*parts, torch.tensor([high], dtype=torch.float64)])


def cell_probabilities(edges: Tensor, mean: Tensor, log_scale: Tensor) -> Tensor:
    """The probability of each cell under N(mean, e^(2 log_scale)), [C], differentiable in both.

    The tails count for the outermost cells: the probabilities sum to one.
    """
    inner = torch.special.ndtr((edges[1:-1] - mean) * torch.exp(-log_scale))
    below = torch.cat([inner.new_zeros(1), inner])
    return torch.cat([inner, inner.new_ones(1)]) - below
