"""The contract of an environment: laws of its six methods, and their violations.

B instances, n trajectories of each, T decisions, A listed trajectories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from maxk_lab.environments.environment import Environment
from maxk_lab.environments.rollouts import Rollouts, checked
from maxk_lab.errors import LabError, first_line

# Draws of one instance for the comparison with the listed probabilities.
DRAWS = 2_000
# The most standard deviations of χ² for a correct environment.
DEVIATIONS = 6.0
B, N = 3, 5


def contract(make: Callable[[], Environment]) -> Iterator[tuple[str, str]]:
    """Yield each law with its violation, an empty text if it holds."""
    for law in LAWS:
        try:
            law(make())
            problem = ""
        except Exception as error:
            problem = str(error) if isinstance(error, LabError) else ""
            problem = problem or f"{type(error).__name__}: {first_line(error)}"
        yield (law.__doc__ or "").rstrip("."), problem


def _policy(environment: Environment) -> None:
    """policy(seed) is a torch module in evaluation mode, the same for the same seed."""
    first, second = environment.policy(3), environment.policy(3)
    _require(isinstance(first, nn.Module), f"policy(3) is no torch module but {type(first)}")
    _require(not first.training, "policy(3) is in training mode: call eval()")
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    _require(all(torch.equal(*pair) for pair in pairs), "two calls of policy(3) differ")


def _instances(environment: Environment) -> None:
    """instances(count, seed) follow the seed, and can be counted and sliced."""
    policy = environment.policy(0)
    for held_out in (False, True):
        first, second = (environment.instances(B, 1, held_out=held_out) for _ in range(2))
        _require(len(first) == B, f"instances({B}, 1) has the length {len(first)}")
        _require(len(first[1:2]) == 1, "instances[1:2] has not the length 1")
        rollouts, repeated = (
            environment.rollout(policy, each, 2, seed=1) for each in (first, second)
        )
        # A reward of NaN is unscorable.
        same = torch.allclose(rollouts.rewards, repeated.rewards, 0.0, 0.0, equal_nan=True)
        same = same and torch.equal(rollouts.actions, repeated.actions)
        _require(same, "instances or rollouts of the same seed differ")


def _shapes(environment: Environment) -> None:
    """rollout returns [B, n] rewards and log_probs, [B, n, T] actions, without gradient."""
    *_, rollouts = _drawn(environment)
    checked(rollouts, N, B)
    _require(not rollouts.log_probs.requires_grad, "the log_probs of a rollout have a gradient")
    _require(bool((rollouts.lengths >= 1).all()), "a trajectory has no decision")


def _log_probs(environment: Environment) -> None:
    """log_probs of the drawn actions are those of the rollout, and differentiable."""
    policy, instances, rollouts = _drawn(environment)
    log_probs = environment.log_probs(policy, instances, rollouts.actions)
    _close(log_probs, rollouts.log_probs, "log_probs and the rollout differ")
    _require(log_probs.requires_grad, "log_probs have no gradient")
    alone = environment.log_probs(policy, instances[1:2], rollouts.actions[1:2])
    _close(alone[0], rollouts.log_probs[1], "an instance alone has other log_probs")
    padded = environment.log_probs(policy, instances, pad(rollouts.actions, (0, 2)))
    _close(padded, rollouts.log_probs, "actions padded with 0 after the end have other log_probs")


def _tokens(environment: Environment) -> None:
    """tokens sum to the rollout, and are 0 after the end."""
    policy, instances, rollouts = _drawn(environment)
    actions = pad(rollouts.actions, (0, 2))
    tokens = environment.tokens(policy, instances, actions)
    for name in ("log_probs", "entropy", "logit_proxy"):
        values = getattr(tokens, name)
        _require(values.shape == actions.shape, f"tokens: {name} has the shape {[*values.shape]}")
        _require(bool((values[~tokens.mask] == 0).all()), f"tokens: {name} after the end is not 0")
        _close(values.sum(-1), getattr(rollouts, name), f"the {name} of the tokens do not sum up")
    _require(torch.equal(tokens.mask.sum(-1), rollouts.lengths), "mask and lengths differ")


def _random_state(environment: Environment) -> None:
    """No method reads or changes the global random state."""
    drawn = []
    for seed in (0, 99):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        drawn.append(_drawn(environment)[2])
        _require(torch.equal(before, torch.get_rng_state()), "the global random state has changed")
    same = torch.equal(drawn[0].actions, drawn[1].actions)
    _require(same, "rollouts depend on the global random state: use a torch.Generator")


def _enumeration(environment: Environment) -> None:
    """enumerate lists each trajectory once, and draws have the listed rewards and frequencies."""
    missing = "enumerable is missing: True where enumerate lists all trajectories, else False"
    _require(hasattr(environment, "enumerable"), missing)
    if not environment.enumerable:
        return
    policy, instances = environment.policy(0), environment.instances(2, 1)
    alone = instances[1:2]
    listed, rewards = environment.enumerate(alone)
    shapes = f"{[*listed.shape]} and {[*rewards.shape]}"
    right = listed.ndim == 2 and rewards.shape == listed.shape[:1]
    _require(right, f"enumerate must return actions [A, T] and rewards [A], not {shapes}")
    with torch.no_grad():
        chances = environment.log_probs(policy, alone, listed.unsqueeze(0))[0].double().exp()
    total = float(chances.sum())
    _require(abs(total - 1) < 1e-4, f"the probabilities of all trajectories sum to {total:.6g}")
    rollouts = environment.rollout(policy, instances, DRAWS, seed=3)
    width = max(listed.shape[1], rollouts.actions.shape[2])
    rows = {tuple(row): i for i, row in enumerate(_padded(listed, width))}
    _require(len(rows) == len(listed), "enumerate lists a trajectory twice")
    drawn = [rows.get(tuple(row), -1) for row in _padded(rollouts.actions[1], width)]
    _require(min(drawn) >= 0, "rollout draws a trajectory that enumerate does not list")
    index = torch.tensor(drawn)
    _close(rewards[index], rollouts.rewards[1], "rewards of enumerate and rollout differ")
    counts = torch.bincount(index, minlength=len(listed)).double()
    distance = _chi_square(counts, DRAWS * chances)
    rule = "draws of rollout do not have the frequencies exp(log_probs)"
    _require(distance < DEVIATIONS, f"{rule}: χ² is {distance:.1f} standard deviations off")


LAWS = (_policy, _instances, _shapes, _log_probs, _tokens, _random_state, _enumeration)


def _drawn(environment: Environment) -> tuple[nn.Module, Any, Rollouts]:
    policy, instances = environment.policy(0), environment.instances(B, 1)
    return policy, instances, environment.rollout(policy, instances, N, seed=2)


def _chi_square(counts: Tensor, expected: Tensor) -> float:
    """Return how many standard deviations χ² is from its mean; rare cells count as one."""
    rare = expected < 5
    cells = torch.stack([counts, expected])
    cells = torch.cat([cells[:, ~rare], cells[:, rare].sum(1, keepdim=True)], 1)
    cells = cells[:, cells[1] > 1]
    freedom = max(cells.shape[1] - 1, 1)
    chi_square = float(((cells[0] - cells[1]).square() / cells[1]).sum())
    return abs(chi_square - freedom) / float((2 * freedom) ** 0.5)


def _padded(actions: Tensor, width: int) -> list[list[int]]:
    rows: list[list[int]] = pad(actions, (0, width - actions.shape[-1])).tolist()
    return rows


def _close(values: Tensor, expected: Tensor, problem: str) -> None:
    _require(isinstance(values, Tensor), f"{problem}: {type(values).__name__} is no tensor")
    shapes = f"{problem}: the shape is {[*values.shape]}, not {[*expected.shape]}"
    _require(values.shape == expected.shape, shapes)
    tolerance = 1e-9 if values.dtype == expected.dtype == torch.float64 else 1e-4
    values, expected = values.detach().double(), expected.detach().double()
    _require(torch.allclose(values, expected, tolerance, tolerance, equal_nan=True), problem)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise LabError(problem)
