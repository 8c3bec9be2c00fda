"""Whether trajectories are drawn from what log_probs gives: bets that they are not.

A bet has a payoff that is never negative and has a mean of at most 1 if trajectories are drawn from
π. It exceeds 1/α with a chance of at most α, whatever the environment, the policy and the number of
trajectories are (Markov's inequality; such payoffs are e-values, Vovk and Wang 2021, "E-values:
Calibration, combination and applications"). Nothing here draws a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.errors import LabError
from maxk_lab.gradients.scores.per_trajectory import TOGETHER, check_graph, trained
from maxk_lab.gradients.scores.pool import Part

# The most that a sound environment may be refused, once per pool.
FALSE_ALARM = 1e-6
# The instances and trajectories that the first bet is on.
MOST_INSTANCES = 8
MOST_TRAJECTORIES = 1024
# It moves the policy by these multiples of the distance at which it expects most, and keeps a part
# of its stake: no single trajectory can lose all.
STEPS = (4.0, 1.0, 0.25, 0.0625)
KEPT = 0.1
# By how much a typical log-probability changes where its slope is measured.
SMALL_CHANGE = 0.01
# The second bet's prior numbers of trajectories that are as log_probs says.
PRIORS = (10.0, 100.0, 1000.0, 10_000.0)
# More trajectories of probability 0 than this share are no rounding at the edge of a nucleus.
IMPOSSIBLE = 0.01

# Instances (batches of one) and trajectories [m, T] of each.
Drawn = Sequence[tuple[Instances, Tensor]]


def chosen(count: int, size: int) -> tuple[range, int]:
    """Return the instances of `count`, and how many of the `size` of each, the first bet is on."""
    instances = range(0, count, -(-count // MOST_INSTANCES))
    return instances, min(size, MOST_TRAJECTORIES // len(instances))


def check_sampler(
    environment: Environment, policy: nn.Module, drawn: Drawn, parts: Sequence[Part] = ()
) -> None:
    """Raise `LabError` where trajectories were not drawn from what log_probs says of `policy`.

    `drawn` are two trajectories or more of some instances, `parts` those of all instances. The
    chance of a false alarm is at most `FALSE_ALARM`.
    """
    bets = [log_moved_policy_bet(environment, policy, drawn)]
    listed = [(part.rows, part.listed.behaviour) for part in parts if part.listed is not None]
    if listed:
        bets.append(log_counting_bet(listed))
    payoff = log_mean(bets)
    if payoff > -math.log(FALSE_ALARM):
        power = f"10^{payoff / math.log(10):.0f}" if math.isfinite(payoff) else "infinitely many"
        raise LabError(
            "the trajectories that the environment's rollout draws are not distributed as its "
            f"log_probs says: a bet against that won {power} times its stake, where a sound "
            f"environment reaches 10^{-math.log10(FALSE_ALARM):.0f} with a chance of one in a "
            "million; scores, gradients and all that is measured of them would be of another "
            "policy than the one that acts. Compare rollout with log_probs: temperature, masks and "
            "nucleus, the position that each decision is read at, its sign, and that "
            "both use the policy and the instance that they are given"
        )


def check_drawn(
    environment: Environment, policy: nn.Module, instances: Instances, actions: Tensor
) -> None:
    """Raise `LabError` as `check_sampler`, for the trajectories actions [B, n, T] of B instances.

    A single trajectory of each says nothing.
    """
    selected, each = chosen(*actions.shape[:2])
    if each > 1:
        drawn = [(instances[i : i + 1], actions[i, :each]) for i in selected]
        check_graph(environment, policy, *drawn[0])
        check_sampler(environment, policy, drawn)


def log_moved_policy_bet(environment: Environment, policy: nn.Module, drawn: Drawn) -> float:
    """Return the logarithm of a payoff: a policy fitted to half the trajectories, on the others.

    The parameters are moved uphill in the likelihood of the first half, by several distances that
    depend on that half alone, and back. The bet pays the mean over the distances of the moved
    policy's likelihood of the second half over π's, which has a mean of 1 under π. Such a policy
    gains where the mean score is not 0, as under a sampler of another temperature.
    """
    halves = [(x, len(actions) // 2, actions) for x, actions in drawn]
    learned = [(x, actions[:half]) for x, half, actions in halves]
    tested = [(x, actions[half:]) for x, half, actions in halves]
    before = _log_probs(environment, policy, learned)
    others = _log_probs(environment, policy, tested)
    if float((~torch.cat([before, others]).isfinite()).double().mean()) > IMPOSSIBLE:
        return math.inf
    parameters = trained(policy)
    gradient = _gradient(environment, policy, learned)
    length = math.sqrt(sum(float(part.double().square().sum()) for part in gradient))
    if not (length > 0 and math.isfinite(length)):
        return 0.0
    slope = length / len(before)  # the mean of the directional derivative of log π
    start = [parameter.detach().clone() for parameter in parameters]

    @torch.no_grad()
    def moved(distance: float, of: Drawn) -> Tensor:
        """log π of trajectories, so far uphill."""
        for parameter, origin, part in zip(parameters, start, gradient, strict=True):
            parameter.copy_(origin + (distance / length) * part)
        return _log_probs(environment, policy, of)

    try:
        small = SMALL_CHANGE / slope
        changes = (moved(small, learned) - before).nan_to_num(0.0, 1.0, -1.0).clamp(-1.0, 1.0)
        curvature = float((changes / small).square().mean())
        payoffs = []
        for step in STEPS if curvature > 0 else ():
            # What is no number where the policy is moved to wins nothing.
            gains = moved(step * slope / curvature, tested) - others
            gains = gains.nan_to_num(-math.inf, -math.inf, -math.inf)
            stake = torch.full_like(gains, math.log(KEPT))
            payoffs.append(float(torch.logaddexp(gains + math.log(1 - KEPT), stake).sum()))
        return log_mean(payoffs) if payoffs else 0.0
    finally:
        with torch.no_grad():
            for parameter, origin in zip(parameters, start, strict=True):
                parameter.copy_(origin)


def log_counting_bet(drawn: Sequence[tuple[Tensor, Tensor]]) -> float:
    """Return the logarithm of a payoff: how often each of the listed trajectories was drawn.

    `drawn` are of every instance the numbers [M] of its drawn trajectories and the chances [A] of
    all. A mean of Bayes factors over all instances, each of chances from a Dirichlet distribution
    about those of log_probs (`PRIORS`) against these themselves.
    """
    logarithms = torch.zeros(len(PRIORS), dtype=torch.float64)
    priors = torch.tensor(PRIORS, dtype=torch.float64).unsqueeze(1)
    for rows, chances in drawn:
        seen, counts = torch.unique(rows, return_counts=True)
        count, chance = counts.double(), chances[seen]
        if bool((chance <= 0).any()):
            return math.inf
        each = (
            (priors * chance + count).lgamma() - (priors * chance).lgamma() - count * chance.log()
        )
        total = priors[:, 0].lgamma() - (priors[:, 0] + count.sum()).lgamma()
        logarithms += each.sum(1) + total
    return log_mean(logarithms.tolist())


def log_mean(logarithms: Sequence[float]) -> float:
    """Return the logarithm of the mean of numbers, of which these are the logarithms."""
    values = torch.tensor(logarithms, dtype=torch.float64)
    return float(values.logsumexp(0)) - math.log(len(logarithms))


@torch.no_grad()
def _log_probs(environment: Environment, policy: nn.Module, drawn: Drawn) -> Tensor:
    """log π of the trajectories of instances, [M] float64."""
    parts = [
        environment.log_probs(policy, instance, part.unsqueeze(0))[0].double().cpu()
        for instance, actions in drawn
        for part in torch.split(actions, TOGETHER)
    ]
    return torch.cat(parts)


def _gradient(environment: Environment, policy: nn.Module, drawn: Drawn) -> list[Tensor]:
    """The gradient of the likelihood's logarithm, by parameter."""
    parameters = trained(policy)
    gradient = [torch.zeros_like(parameter) for parameter in parameters]
    for instance, actions in drawn:
        for part in torch.split(actions, TOGETHER):
            with torch.enable_grad():
                total = environment.log_probs(policy, instance, part.unsqueeze(0)).sum()
            more = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
            for whole, share in zip(gradient, more, strict=True):
                whole += share
    return gradient
