"""Labelled extras of an evaluation: other ways to decode a policy. None estimates a Max@K."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.errors import LabError
from maxk_lab.training.device import device_of, placed
from maxk_lab.training.evaluation import sample_rewards
from maxk_lab.training.settings import AUGMENTATIONS

Found = tuple[str, Tensor | str]


def measure_extras(
    environment: Environment,
    policy: nn.Module,
    instances: Instances,
    names: Sequence[str],
    *,
    samples: int,
    seed: int,
) -> Iterator[Found]:
    """Yield (name, rewards [I] float64) of every extra, or (name, reason) where there is none.

    greedy        greedy: the reward of greedy decoding
    augmentation  greedy_augmented: the best greedy reward over an instance's eight symmetric copies
    multistart    greedy_multistart: the best greedy reward over RL4CO's forced first actions; and
                  multistart_sampling: the best of `samples` drawn with forced first actions,
                  which are not i.i.d.
    multistart_augmentation
                  greedy_multistart_augmented: the best greedy reward over the forced first actions
                  on each of the eight copies, as POMO is decoded in its paper
    """
    there = placed(environment, instances, device_of(policy))

    def greedy(name: str) -> Tensor:
        if not supports(environment, "greedy"):
            raise LabError("this environment has no greedy decoding")
        decode: dict[str, Callable[[nn.Module, Instances], Tensor]] = {
            "greedy": environment.greedy,
            "greedy_augmented": environment.greedy_augmented,
            "greedy_multistart": environment.greedy_multistart,
            "greedy_multistart_augmented": environment.greedy_multistart_augmented,
        }
        return decode[name](policy, there)

    def multistart_sampling() -> Tensor:
        if not supports(environment, "forced_starts"):
            raise LabError("this environment has no forced starts")
        return sample_rewards(environment.forced_starts(), policy, there, samples, seed).amax(1)

    if "greedy" in names:
        yield _found("greedy", lambda: greedy("greedy"))
    if "augmentation" in names:
        yield _found("greedy_augmented", lambda: greedy("greedy_augmented"))
    if "multistart" in names:
        yield _found("greedy_multistart", lambda: greedy("greedy_multistart"))
        yield _found("multistart_sampling", multistart_sampling)
    if "multistart_augmentation" in names:
        yield _found("greedy_multistart_augmented", lambda: greedy("greedy_multistart_augmented"))


def trajectories_of_extras(
    environment: Environment, instances: Instances, samples: int
) -> dict[str, int]:
    """Return the number of trajectories that each extra costs on every instance."""
    starts = environment.start_count(instances) if supports(environment, "forced_starts") else 1
    return {
        "greedy": 1,
        "greedy_augmented": AUGMENTATIONS,
        "greedy_multistart": starts,
        "multistart_sampling": samples,
        "greedy_multistart_augmented": starts * AUGMENTATIONS,
    }


def _found(name: str, rewards: Callable[[], Tensor]) -> Found:
    try:
        return name, rewards().cpu().double()
    except LabError as error:
        return name, str(error)
