"""Drawing a score pool: rollouts, scores and, where it can be worked out, the exact gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from maxk_lab.environments.capabilities import ExactEnvironment
from maxk_lab.environments.checks import check_scorable, checked
from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.scores.parts import (
    Part,
    Source,
    enumerated,
    integrated,
    sampled,
)
from maxk_lab.gradients.scores.per_trajectory import check_graph, trained
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.gradients.scores.sampler import check_sampler, chosen
from maxk_lab.seeds import derive_seed

# A relative bias up to this is rounding, where nothing is sampled.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


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
    on_instance: Callable[[int, int], None] = lambda done, of: None,
) -> ScorePool:
    """Draw `size` i.i.d. trajectories of each of `count` instances; keep what measures need.

    `objectives` (an int K is max@K) are those whose exact gradient is worked out where the
    environment can be enumerated or integrated. The trajectories are drawn from `behaviour` where
    that is given; scores and gradients are those of `policy`. The trajectories of an instance
    depend on `seed` and on that instance's number only. Raises `LabError` where they are not drawn
    from what the environment's log_probs says.
    """
    parameters: list[Tensor] = [*trained(policy)]
    integrable = isinstance(environment, ExactEnvironment) and environment.has_exact
    wanted = {Objective("max", o) if isinstance(o, int) else o for o in objectives}
    known = environment.enumerable or integrable
    exact = tuple(sorted(wanted, key=lambda o: (o.form, o.k))) if known else ()
    parts, drawn = [], []
    betted, each = chosen(count, size)
    drawer = policy if behaviour is None else behaviour
    for i in range(count):
        instance = environment.select(instances, i)
        rollouts = checked(
            environment.rollout(drawer, instance, size, seed=derive_seed("rollouts", seed, i)),
            size,
            1,
        )
        check_scorable(rollouts.rewards, f" of instance {i}", "gradient")
        if i == 0:
            check_graph(environment, policy, instance, rollouts.actions[0])
        source = Source(environment, policy, behaviour, parameters, instance)
        if exact and environment.enumerable:
            parts.append(enumerated(source, rollouts, exact, i))
        elif exact:
            parts.append(integrated(source, rollouts, exact))
        else:
            parts.append(sampled(source, rollouts))
        if i in betted:
            drawn.append((instance, rollouts.actions[0, :each]))
        on_instance(i + 1, count)
    check_sampler(environment, drawer, drawn, parts)
    tolerance = max(TOLERANCE[parameter.dtype] for parameter in parameters)
    return _pool_of(parts, tuple(objective.name for objective in exact), tolerance)


def _pool_of(parts: Sequence[Part], objectives: tuple[str, ...], tolerance: float) -> ScorePool:
    """The parts of all instances together, padded to the largest."""
    rows, width = (
        max(part.gram.shape[0] for part in parts),
        max(part.scores.shape[0] for part in parts),
    )
    listed = max(len(part.probabilities) for part in parts)

    def stacked(name: str) -> Tensor:
        return torch.stack([getattr(part, name) for part in parts])

    def over_listed(name: str) -> Tensor:
        return torch.stack([_pad_to(getattr(part, name), listed) for part in parts])

    return ScorePool(
        rewards=stacked("rewards"),
        lengths=stacked("lengths"),
        logit_proxy=stacked("logit_proxy"),
        rows=stacked("rows"),
        gram=_padded([part.gram for part in parts], rows, rows),
        scores=stacked("scores"),
        objectives=objectives,
        inner=_padded([part.inner for part in parts], max(rows, width), len(objectives)),
        norm=stacked("norm"),
        value=stacked("value"),
        probabilities=over_listed("probabilities"),
        listed_rewards=over_listed("listed_rewards"),
        listed_lengths=over_listed("listed_lengths"),
        listed_logit_proxy=over_listed("listed_logit_proxy"),
        ratios=stacked("ratios"),
        listed_ratios=over_listed("listed_ratios"),
        behaviour=over_listed("behaviour"),
        tolerance=tolerance,
    )


def _padded(matrices: Sequence[Tensor], rows: int, columns: int) -> Tensor:
    """[I, rows, columns], zero-padded; a single matrix of that size is not copied, being large."""
    if len(matrices) == 1 and matrices[0].shape == (rows, columns):
        return matrices[0].unsqueeze(0)
    held = matrices[0].new_zeros(len(matrices), rows, columns)
    for own, matrix in zip(held, matrices, strict=True):
        own[: matrix.shape[0], : matrix.shape[1]] = matrix
    return held


def _pad_to(values: Tensor, columns: int) -> Tensor:
    return torch.nn.functional.pad(values, (0, columns - len(values)))
