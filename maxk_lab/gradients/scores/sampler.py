"""Whether trajectories are drawn from what log_probs gives: bets that they are not.

A bet is a number of the trajectories that is never negative and has a mean of at most 1 if they are
drawn from π: its payoff. It exceeds 1/α with a chance of at most α, whatever the environment, the
policy and the number of trajectories are (Markov's inequality; such payoffs are e-values, Vovk and
Wang 2021, "E-values: Calibration, combination and applications"). Nothing here draws a number, or
changes one of a study.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.errors import LabError
from maxk_lab.gradients.scores.parts import Part
from maxk_lab.gradients.scores.per_trajectory import TOGETHER, check_graph, trained

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
# And the powers of the probabilities that it tries in their place.
POWERS = (0.25, 0.5, 2.0)
# More trajectories of probability 0 than this share are no rounding at the edge of a nucleus.
IMPOSSIBLE = 0.01


def chosen(count: int, size: int) -> tuple[range, int]:
    """Return the instances of `count`, and how many of the `size` of each, the first bet is on."""
    instances = range(0, count, -(-count // MOST_INSTANCES))
    return instances, min(size, MOST_TRAJECTORIES // len(instances))


def check_sampler(
    environment: Environment,
    policy: nn.Module,
    drawn: Sequence[tuple[Instances, Tensor]],
    parts: Sequence[Part] = (),
) -> None:
    """Raise `LabError` where trajectories were not drawn from what log_probs says of `policy`.

    `drawn` are some instances (batches of one) with two trajectories or more [m, T] of each,
    `parts` those of all instances. The chance of a false alarm is at most `FALSE_ALARM`.
    """
    bets = [log_moved_policy_bet(environment, policy, drawn)]
    if parts and parts[0].behaviour.numel():
        bets.append(log_counting_bet(parts))
    payoff = log_mean(bets)
    if payoff > -math.log(FALSE_ALARM):
        won = (
            f"10^{payoff / math.log(10):.0f} times"
            if math.isfinite(payoff)
            else "infinitely many times"
        )
        raise LabError(
            "the trajectories that the environment's rollout draws are not distributed as its "
            f"log_probs says: a bet against that won {won} its stake, where a sound "
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
        drawn = [(environment.select(instances, i), actions[i, :each]) for i in selected]
        check_graph(environment, policy, *drawn[0])
        check_sampler(environment, policy, drawn)


def log_moved_policy_bet(
    environment: Environment, policy: nn.Module, drawn: Sequence[tuple[Instances, Tensor]]
) -> float:
    """Return the logarithm of a payoff: a policy fitted to half the trajectories, on the others.

    The parameters of `policy` are moved uphill in the likelihood of the first half, by several
    distances that depend on that half alone. The bet pays the mean over the distances of the moved
    policy's likelihood of the second half over π's, which has a mean of 1 under π. Such a policy
    gains where the mean score is not 0, as under a sampler of another temperature. The parameters
    are as they were afterwards.
    """
    halves = [
        (x, actions[: len(actions) // 2], actions[len(actions) // 2 :]) for x, actions in drawn
    ]
    learned = [(x, first) for x, first, _ in halves]
    tested = [(x, second) for x, _, second in halves]
    log_probs = _log_probs(environment, policy)
    before, others = log_probs(learned), log_probs(tested)
    both = torch.cat([before, others])
    if float((~both.isfinite()).double().mean()) > IMPOSSIBLE:
        return math.inf
    parameters = trained(policy)
    gradient = _gradient(environment, policy, learned, parameters)
    length = math.sqrt(sum(float(part.double().square().sum()) for part in gradient))
    if not (length > 0 and math.isfinite(length)):
        return 0.0
    slope = length / len(before)  # the mean of the directional derivative of log π
    with _moving(parameters, gradient, length) as move:
        small = SMALL_CHANGE / slope
        move(small)
        changes = (log_probs(learned) - before).nan_to_num(0.0, 1.0, -1.0).clamp(-1.0, 1.0)
        curvature = float((changes / small).square().mean())
        if not curvature > 0:
            return 0.0
        payoffs = []
        for step in STEPS:
            move(step * slope / curvature)
            # What is no number where the policy is moved to wins nothing.
            gains = (log_probs(tested) - others).nan_to_num(-math.inf, -math.inf, -math.inf)
            kept = torch.full_like(gains, math.log(KEPT))
            payoffs.append(float(torch.logaddexp(gains + math.log(1 - KEPT), kept).sum()))
    return log_mean(payoffs)


def log_counting_bet(parts: Sequence[Part]) -> float:
    """Return the logarithm of a payoff: how often each of the listed trajectories was drawn.

    A mean of Bayes factors over all instances, each of something else against the probabilities of
    log_probs: of probabilities from a Dirichlet distribution about them (`PRIORS`), and of a power
    of them (`POWERS`), which is what another temperature comes near.
    """
    counted = []
    for part in parts:
        counts = torch.bincount(part.rows, minlength=len(part.behaviour)).double()
        if bool((part.behaviour[counts > 0] <= 0).any()):
            return math.inf
        counted.append((counts, part.behaviour))
    spread = [sum(_of_spread(*each, prior) for each in counted) for prior in PRIORS]
    powers = [sum(_of_power(*each, power) for each in counted) for power in POWERS]
    return log_mean(spread + powers)


def _of_spread(counts: Tensor, chances: Tensor, prior: float) -> float:
    seen = counts > 0
    count, chance = counts[seen], chances[seen]
    size = torch.tensor([prior, prior + float(count.sum())], dtype=torch.float64).lgamma()
    each = (prior * chance + count).lgamma() - (prior * chance).lgamma() - count * chance.log()
    return float(each.sum() + size[0] - size[1])


def _of_power(counts: Tensor, chances: Tensor, power: float) -> float:
    possible = chances > 0
    count, logarithms = counts[possible], chances[possible].log()
    # The chances may add up to 1 but for rounding.
    total = (power * logarithms).logsumexp(0) - logarithms.logsumexp(0)
    return float(((power - 1) * count * logarithms).sum() - count.sum() * total)


def log_mean(logarithms: Sequence[float]) -> float:
    """Return the logarithm of the mean of numbers, of which these are the logarithms."""
    values = torch.tensor(logarithms, dtype=torch.float64)
    return float(values.logsumexp(0)) - math.log(len(logarithms))


def _log_probs(
    environment: Environment, policy: nn.Module
) -> Callable[[Sequence[tuple[Instances, Tensor]]], Tensor]:
    """Return the function that gives log π of the trajectories of instances, [M] float64."""

    @torch.no_grad()
    def log_probs(drawn: Sequence[tuple[Instances, Tensor]]) -> Tensor:
        parts = [
            environment.log_probs(policy, instance, part.unsqueeze(0))[0].double().cpu()
            for instance, actions in drawn
            for part in torch.split(actions, TOGETHER)
        ]
        return torch.cat(parts)

    return log_probs


def _gradient(
    environment: Environment,
    policy: nn.Module,
    drawn: Sequence[tuple[Instances, Tensor]],
    parameters: Sequence[Tensor],
) -> list[Tensor]:
    """Return the gradient of the likelihood's logarithm, by parameter."""
    found = [torch.zeros_like(parameter) for parameter in parameters]
    for instance, actions in drawn:
        for part in torch.split(actions, TOGETHER):
            with torch.enable_grad():
                total = environment.log_probs(policy, instance, part.unsqueeze(0)).sum()
            own = torch.autograd.grad(total, parameters, allow_unused=True)
            for mine, more in zip(found, own, strict=True):
                if more is not None:
                    mine += more
    return found


@contextmanager
def _moving(
    parameters: Sequence[Tensor], direction: Sequence[Tensor], length: float
) -> Iterator[Callable[[float], None]]:
    """Give a function that moves the parameters so far along a direction of this length.

    They are back where they were at the end.
    """
    before = [parameter.detach().clone() for parameter in parameters]

    @torch.no_grad()
    def move(distance: float) -> None:
        for parameter, start, part in zip(parameters, before, direction, strict=True):
            parameter.copy_(start + (distance / length) * part if distance else start)

    try:
        yield move
    finally:
        move(0.0)
