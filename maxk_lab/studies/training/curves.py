"""The curves of Max@K in a record, the means beside them, and which of these there cannot be."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from maxk_lab.fields import Count, Numbers, Recorded, check_lengths, distinct
from maxk_lab.statistics.seeds.over_seeds import Mean

Ks = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1), AfterValidator(distinct)]


class Ends(Recorded):
    """A mean over held-out instances with its interval over these; with the reason if undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    @property
    def mean(self) -> Mean:
        """The mean with the ends of its interval."""
        return self.value, self.low, self.high


class Extra(Ends):
    """Another way of decoding: the best reward on each instance, their mean, and what it costs."""

    trajectories: int | None = None
    per_instance: Numbers = Field(default_factory=list)


class Final(Recorded):
    """The curve of Max@K at the end, K = 1 … samples, and its values per instance at the `ks`."""

    value: Numbers
    low: Numbers
    high: Numbers
    ks: Ks
    per_instance: list[Numbers]

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        samples = len(self.value)
        check_lengths(samples, {"low": self.low, "high": self.high})
        check_lengths(len(self.ks), {"per_instance": self.per_instance})
        if max(self.ks) != samples:
            raise ValueError(f"the last of ks is {max(self.ks)}, of {samples} samples")
        for of_one_k in self.per_instance:
            check_lengths(self.instances, {"per_instance": of_one_k})
        return self

    @property
    def instances(self) -> int:
        """The number of held-out instances."""
        return len(self.per_instance[0])

    @property
    def means(self) -> list[Mean]:
        """The mean of every K with the ends of its interval."""
        return list(zip(self.value, self.low, self.high, strict=True))

    @property
    def complete(self) -> bool:
        """Whether every sample of every instance has a reward."""
        return None not in self.per_instance[-1]


class Evaluations(Recorded):
    """Max@K at the `ks` after some steps of training: [evaluations, K]."""

    step: Annotated[list[Count], Field(min_length=1)]
    rollouts: list[Count]
    ks: Ks
    value: list[Numbers]
    low: list[Numbers]
    high: list[Numbers]

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        parts = {"value": self.value, "low": self.low, "high": self.high}
        check_lengths(len(self.step), {"rollouts": self.rollouts, **parts})
        for name, part in parts.items():
            for of_one_step in part:
                check_lengths(len(self.ks), {name: of_one_step})
        return self

    def means(self, number: int) -> dict[int, Mean]:
        """The mean of every K with the ends of its interval, at one of the evaluations."""
        ends = (self.value[number], self.low[number], self.high[number])
        return dict(zip(self.ks, zip(*ends, strict=True), strict=True))
