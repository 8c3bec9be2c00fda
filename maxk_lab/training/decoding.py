"""A policy on given instances in every way of decoding that is asked for at the end of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.errors import LabError
from maxk_lab.training.evaluation import sample_rewards
from maxk_lab.training.extras import measure_extras
from maxk_lab.training.settings import EvaluationSettings


@dataclass(frozen=True)
class Decoded:
    """The rewards of a policy on the same I instances, by way of decoding.

    `tempered`: [I, samples] of i.i.d. samples at each temperature, each of a policy of its own,
    whose Max@K they estimate. `extras`: [I] by the names of `measure_extras`, or why there are
    none.
    """

    tempered: Mapping[float, Tensor]
    extras: Mapping[str, Tensor | str]


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
    """Decode at these of the temperatures, and in all ways of `evaluate.extras`.

    All temperatures share `seed`, so that they differ by as little chance as can be. Raises
    `LabError` for a temperature other than 1 where the environment has no other.
    """
    tempered = {
        temperature: sample_rewards(
            _at(environment, temperature), policy, instances, evaluate.samples, seed
        )
        for temperature in temperatures
    }
    extras = measure_extras(
        environment,
        policy,
        instances,
        evaluate.extras,
        samples=evaluate.samples,
        seed=extras_seed,
    )
    return Decoded(tempered, dict(extras))


def _at(environment: Environment, temperature: float) -> Environment:
    if temperature == 1:
        return environment
    if not supports(environment, "tempered"):
        raise LabError(f"{type(environment).__name__} is not sampled at another temperature")
    return environment.tempered(temperature)
