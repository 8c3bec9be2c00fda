"""The estimator whose mean stands in for the exact gradient where that is not known."""

from __future__ import annotations

from dataclasses import dataclass

from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective


@dataclass(frozen=True)
class StandIn:
    """An unbiased estimator and baseline."""

    estimator: str
    baseline: str

    @property
    def name(self) -> str:
        """The name in records: the baseline, for rows of its own estimator; with ratios, both."""
        return (
            f"{self.estimator} with {self.baseline}"
            if Method.parse(self.estimator).needs_ratios
            else self.baseline
        )

    @classmethod
    def of(cls, wanted: Objective, n: int, *, off_policy: bool) -> StandIn:
        """The stand-in for the gradient of an objective.

        Raises `ValueError` where trajectories of another policy have no unbiased estimator.
        """
        baseline = "centred" if wanted.k < n else "subloo"
        if not off_policy:
            return cls("maxk" if wanted.form == "max" else wanted.form, baseline)
        if not wanted.is_max:
            raise ValueError(
                f"{wanted.name} under a behaviour policy needs the exact gradient to be judged "
                "against: only the expected maximum has an unbiased estimator with importance "
                "ratios"
            )
        return cls("off_policy_maxk", baseline)

    @classmethod
    def controls(cls, wanted: Objective, n: int, *, off_policy: bool) -> tuple[StandIn, ...]:
        """The estimators, unbiased by proof, in which a bias can only be a badly drawn instance."""
        if off_policy and not wanted.is_max:
            return ()
        estimator = cls.of(wanted, n, off_policy=off_policy).estimator
        return tuple(
            cls(estimator, baseline)
            for baseline in ("centred", "subloo")
            if Method.parse(estimator, baseline, wanted.k).refusal(n) is None
        )
