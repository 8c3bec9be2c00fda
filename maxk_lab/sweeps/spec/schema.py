"""The shape of a sweep file: frozen models, every key known, every number strict."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from maxk_lab.fields import AtLeastOne, AtLeastTwo, Model, OneOrMore, Positive
from maxk_lab.studies.training.schema import TrainingStudy
from maxk_lab.sweeps.spec.claims.shapes import Claim
from maxk_lab.sweeps.spec.fields import Distances, Distinct, DistinctAscending, EstimatorName, Grid
from maxk_lab.sweeps.spec.figures import Figure

WANDB_MODES = ("offline", "online", "disabled")


def _wandb_mode(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(
            f"must be one of {', '.join(WANDB_MODES)}; YAML reads on, off, yes and no as true and false, "
            f"write {'online or offline' if value else 'disabled'} instead"
        )
    return value


def _folder_name(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) is None or name.endswith("."):
        raise ValueError(
            "names the folder of results: at most 100 letters, digits, '.', '_' and '-', "
            f"beginning with a letter or digit and not ending with '.', got {name!r}"
        )
    return name


def _is_given(value: Any) -> Any:
    if value is None:
        raise ValueError("must be a mapping of keys to values, got nothing")
    return value


def _is_mapping(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(
            f"must be a mapping of keys to values, got {'nothing' if value is None else repr(value)}"
        )
    return value


class WarmUp(Model):
    """Plain policy gradient that takes a policy to later stages: `batch` instances of `n` samples a step."""

    batch: AtLeastOne = 32
    n: AtLeastTwo = 16
    learning_rate: Positive = 1e-3
    clip: Positive = 1.0


class Behaviour(Model):
    """The policy that draws the trajectories, where it is not the one whose gradient is estimated.

    `distance` is the L2 norm by which its parameters are moved, in a direction that depends on the seed alone;
    every distance is measured, 0 on-policy.
    """

    distance: Distances = (0.0,)


class GradientStudy(Model):
    """Gradient estimates of policies frozen at `stages` steps of warm-up.

    All cells of a stage and seed share `pool` i.i.d. trajectories on each of `instances` instances, which are
    cut `partitions` times into replicates of n. With `complete`, and as far as all groups of n trajectories can
    be listed, means and variances are sums over these groups, exact and without replicates.
    """

    stages: DistinctAscending = (0,)
    warmup: WarmUp = WarmUp()
    instances: AtLeastOne = 16
    pool: AtLeastTwo = 256
    partitions: AtLeastOne = 8
    complete: bool = False
    behaviour: Behaviour = Behaviour()
    grid: OneOrMore[Grid]

    @property
    def off_policy(self) -> bool:
        """Whether distances of a behaviour policy are compared, or one other than 0 is asked for."""
        return self.behaviour.distance != (0.0,)


class ObjectiveGrid(Model):
    """The objectives that are compared: what each estimator targets, at each K."""

    estimator: OneOrMore[EstimatorName]
    k: OneOrMore[AtLeastOne]


class ObjectiveStudy(Model):
    """The exact objective at `points` values of one parameter, evenly spaced between `from` and `to`, and its optimum.

    `parameter` is a number of the environment or of its policy, as in `policy.mean`.
    """

    parameter: str
    start: Annotated[float, Field(alias="from", allow_inf_nan=False)]
    stop: Annotated[float, Field(alias="to", allow_inf_nan=False)]
    points: Annotated[int, Field(ge=2, le=100_000)] = 101
    grid: OneOrMore[ObjectiveGrid]


class WeightsStudy(Model):
    """The weights that estimators give the rewards of `groups` groups, drawn by the policy that the sweep begins with."""

    groups: AtLeastOne = 4
    grid: OneOrMore[Grid]


AnyStudy = GradientStudy | TrainingStudy | ObjectiveStudy | WeightsStudy


class Tracking(Model):
    """Where the finished records are tracked."""

    wandb: Annotated[Literal["offline", "online", "disabled"], BeforeValidator(_wandb_mode)] = (
        "offline"
    )
    project: Annotated[str, StringConstraints(min_length=1)] = "maxk-lab"


Parameters = Annotated[dict[str, Any], BeforeValidator(_is_mapping)]


class SweepSpec(Model):
    """A whole sweep file: one study or several. `environment` and `policy` hold every parameter, defaults too.

    `vary` lists values of their parameters, by keys such as `environment.arms`: all studies but an objective study
    are made at every combination, in the order of the file.
    """

    name: Annotated[str, AfterValidator(_folder_name)]
    description: str = ""
    seeds: Distinct
    environment: Parameters
    policy: Parameters = Field(default_factory=dict)
    # Values are parsed by the parameter that they are of, which says best what is wrong with them.
    vary: Annotated[dict[str, OneOrMore[Any]], BeforeValidator(_is_mapping)] = Field(
        default_factory=dict
    )
    gradient: Annotated[GradientStudy | None, BeforeValidator(_is_given)] = None
    training: Annotated[TrainingStudy | None, BeforeValidator(_is_given)] = None
    objective: Annotated[ObjectiveStudy | None, BeforeValidator(_is_given)] = None
    weights: Annotated[WeightsStudy | None, BeforeValidator(_is_given)] = None
    tracking: Tracking = Tracking()
    figures: tuple[Figure, ...] = Field(default=(), strict=False)
    claims: tuple[Claim, ...] = Field(default=(), strict=False)
