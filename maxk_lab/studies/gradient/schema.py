"""The shape of a gradient study in a sweep file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from maxk_lab.fields import AtLeastOne, AtLeastTwo, Model, OneOrMore, Positive
from maxk_lab.statistics.design import GROUPS_TO_SEE, LEAST_GROUPS
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.sweeps.spec.fields import NOT_IID, AnyStudy, Distances, DistinctAscending, Grid

# Instances that are many enough.
MANY_INSTANCES = 64


class WarmUp(Model):
    """Plain policy gradient that takes a policy to later stages, a batch of instances a step."""

    batch: AtLeastOne = 32
    n: AtLeastTwo = 16
    learning_rate: Positive = 1e-3
    clip: Positive = 1.0


class Behaviour(Model):
    """The policy that draws the trajectories, where it is not the one whose gradient is estimated.

    `distance` is the L2 norm by which its parameters are moved, in a direction that depends on the
    seed alone; every distance is measured, 0 on-policy.
    """

    distance: Distances = (0.0,)


class Study(AnyStudy):
    """Gradient estimates of policies frozen at `stages` steps of warm-up.

    All cells of a stage and seed share `pool` i.i.d. trajectories on each of `instances` instances,
    which are cut `partitions` times into replicates of n. With `complete`, and as far as all groups
    of n trajectories can be listed, means and variances are sums over these groups, exact and
    without replicates.
    """

    misplaced: ClassVar[Mapping[str, str]] = {"start": NOT_IID}

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
        """Whether there is a behaviour policy, at several distances or one other than 0."""
        return self.behaviour.distance != (0.0,)

    def repeats(self) -> Mapping[str, int]:
        """Return the number of stages and of distances."""
        return {"stages": len(self.stages), "behaviour.distance": len(self.behaviour.distance)}

    def advice(self) -> tuple[str, ...]:
        """Return a design of as many rollouts that says more of other instances, if there is one.

        Of a trained policy an effective 1 to 5 of 16 instances carried the gradient on TSP5, 2.5 to
        5 of 32 on TSP20: more trajectories on each tell nothing of the ones that were not drawn.
        """
        largest = max(n for entry in self.grid for n in entry.n)
        found = []
        if self.pool < LEAST_GROUPS * largest and not self.complete:
            found.append(
                f"a pool of {self.pool} holds {self.pool // largest} groups of n = {largest}: "
                f"a verdict on bias needs {LEAST_GROUPS}, so a pool of {LEAST_GROUPS * largest}"
            )
        pool = self.instances * self.pool // MANY_INSTANCES
        smaller = pool >= GROUPS_TO_SEE * largest and not self.complete
        if self.stages[-1] > 0 and 1 < self.instances < MANY_INSTANCES and smaller:
            found.append(
                "after training a few instances carry most of the gradient; at equal rollouts "
                f"instances: {MANY_INSTANCES}, pool: {pool} says more of instances like these"
            )
        return tuple(found)

    def lacks(self, measure: str, points: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
        """Return why the study does not measure this, or None."""
        row = MEASURES.get(measure)
        if row.measured(enumerated=self.complete, off_policy=self.off_policy):
            return None
        return row.not_measured
