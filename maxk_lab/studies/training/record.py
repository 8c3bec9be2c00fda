"""The content of a finished record of the training study: curves, ways of decoding, a log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from maxk_lab.fields import Count, Numbers, Recorded, check_lengths, distinct
from maxk_lab.statistics.seeds import Mean, floats


def _above_zero(text: str) -> str:
    if not 0 < float(text) < math.inf:
        raise ValueError(f"{text} is no temperature")
    return text


Temperature = Annotated[str, AfterValidator(_above_zero)]


class Tuning(Recorded):
    """The means on the tuning instances, by K = 1, 2, ... at each temperature, and by extra."""

    tempered: dict[Temperature, Numbers] = Field(default_factory=dict)
    extras: dict[str, float | None] = Field(default_factory=dict)


class Log(Recorded):
    """The logged quantities by name, at the recorded `step`s."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Numbers] = Field(init=False)

    step: list[Count] = Field(default_factory=list)

    @model_validator(mode="after")
    def _equally_long(self) -> Self:
        check_lengths(len(self.step), self.series)
        return self

    @property
    def series(self) -> Mapping[str, Numbers]:
        """Return the values of each quantity at these steps."""
        return self.__pydantic_extra__


class Optima(Recorded):
    """The best reward of each instance, and its method; "none" with a reason if unknown."""

    kind: str = "none"
    reason: str = "not asked for"
    exact: bool = False
    per_instance: Numbers = Field(default_factory=list)


class Data(Recorded):
    """The hash and the source of the held-out instances."""

    instances: str | None = ""
    source: str = ""


class Metrics(Recorded):
    """A training from its start to its end."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=False)
    formulas: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "max@K": {
            "formula": "rho(K) = sum over the K-subsets of the samples of their max R, "
            "divided by C(samples,K)",
            "computed by": "maxk_lab.estimators.value:maxk_curve",
            "citation": "mean over held-out instances; K = 1 is the mean reward",
        }
    }

    steps: Count
    rollouts: Count
    evaluations: Evaluations
    # The steps of the evaluations that the end is averaged over.
    last: list[Count] = Field(default_factory=list)
    final: Final
    # The curves at other temperatures.
    tempered: dict[Temperature, Final] = Field(default_factory=dict)
    # The curve of J_K^starts, with forced starts.
    forced: Final | None = None
    tuning: Tuning = Tuning()
    extras: dict[str, Extra] = Field(default_factory=dict)
    log: Log = Log()
    optima: Optima = Field(default=Optima(), alias="reference")
    data: Data = Data()
    undefined: dict[str, str] = Field(default_factory=dict)

    @property
    def schedule(self) -> tuple[Any, ...]:
        """The steps and evaluations that all seeds of a pooled row must share."""
        evaluated = self.evaluations
        lists = self.last, evaluated.step, evaluated.rollouts, evaluated.ks, self.final.ks
        return self.steps, self.rollouts, *lists

    @property
    def shown(self) -> Mapping[str, Any]:
        """The final Max@K with its interval, at the K of the report."""
        names, means = ("value", "low", "high"), self.final.means
        ends = {f"max@{k}": dict(zip(names, means[k - 1], strict=True)) for k in self.final.ks}
        return {"final": ends}

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` if the record cannot belong to the cell."""
        samples, instances = len(self.final.value), self.final.instances
        finals = {f"tempered.{temperature}": final for temperature, final in self.tempered.items()}
        finals |= {"forced": self.forced} if self.forced else {}
        check_lengths(samples, {name: final.value for name, final in finals.items()})
        check_lengths(samples, self.tuning.tempered)
        if not self.tuning.tempered.keys() <= {"1.0", *self.tempered}:
            raise ValueError("tuning has a temperature that nothing else has")
        each = {name: final.per_instance[0] for name, final in finals.items()}
        each |= {
            name: extra.per_instance
            for name, extra in self.extras.items()
            if extra.value is not None
        }
        each |= {"reference": self.optima.per_instance} if self.optima.kind != "none" else {}
        check_lengths(instances, each)
        evaluate = cell["training"]["evaluate"]
        check_lengths(evaluate["samples"], {"final": self.final.value})
        # A file of instances may hold fewer.
        fewest = 1 if evaluate.get("data") is not None else evaluate["instances"]
        if not fewest <= instances <= evaluate["instances"]:
            raise ValueError(f"it was evaluated on {instances} instances")
        # A reward above an optimum is an error, except that a user's function may be random.
        of_user = any(":" in name for name in cell["environment"].get("rewards", ()))
        exact = self.optima.exact and not of_user
        pairs = zip(self.optima.per_instance, self.final.per_instance[-1], strict=False)
        for optimum, best in pairs if exact else ():
            # Rewards are often float32, so sums are less exact than a mean.
            if optimum is not None and best is not None and best > optimum + 1e-4 * abs(optimum):
                raise ValueError(f"a reward of {best} is above the optimum, {optimum}")


Ks = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1), AfterValidator(distinct)]


class Ends(Recorded):
    """A mean over held-out instances with its interval over them, or the reason if undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    @property
    def mean(self) -> Mean:
        """The mean with the ends of its interval."""
        return self.value, self.low, self.high


class Extra(Ends):
    """Another decoding: the best reward on each instance, their mean, and the trajectories."""

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
    def _equally_long(self) -> Self:
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
    def values(self) -> dict[int, list[float]]:
        """The values of the instances at the `ks`."""
        return dict(zip(self.ks, map(floats, self.per_instance), strict=True))


class Evaluations(Recorded):
    """Max@K at the `ks` after some steps of training: [evaluations, K]."""

    step: Annotated[list[Count], Field(min_length=1)]
    rollouts: list[Count]
    ks: Ks
    value: list[Numbers]
    low: list[Numbers]
    high: list[Numbers]

    @model_validator(mode="after")
    def _equally_long(self) -> Self:
        ends = {"value": self.value, "low": self.low, "high": self.high}
        check_lengths(len(self.step), {"rollouts": self.rollouts, **ends})
        for name, steps in ends.items():
            for values in steps:
                check_lengths(len(self.ks), {name: values})
        return self

    def means(self, number: int) -> dict[int, Mean]:
        """Return the mean of every K with the ends of its interval, at one of the evaluations."""
        ends = (self.value[number], self.low[number], self.high[number])
        return dict(zip(self.ks, zip(*ends, strict=True), strict=True))
