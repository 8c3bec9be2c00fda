"""The content of a finished record of the training study; undefined numbers are None."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from maxk_lab.fields import (
    Count,
    Numbers,
    Recorded,
    check_lengths,
    check_mean,
    check_rising,
    slack_of,
)
from maxk_lab.statistics.seeds.two_level import QUANTILES
from maxk_lab.studies.training.curves import Ends, Evaluations, Extra, Final
from maxk_lab.studies.training.schema import evaluated_ks
from maxk_lab.training.settings import EvaluationSettings


def _above_zero(text: str) -> str:
    if not 0 < float(text) < math.inf:
        raise ValueError(f"{text} is no temperature")
    return text


Temperature = Annotated[str, AfterValidator(_above_zero)]


class Tuning(Recorded):
    """The means over other instances of every way: at each temperature by K = 1 ..., of extras."""

    tempered: dict[Temperature, Numbers] = Field(default_factory=dict)
    extras: dict[str, float | None] = Field(default_factory=dict)


class Log(Recorded):
    """The quantities logged at the `step`s that were kept, by name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Numbers] = Field(init=False)

    step: list[Count] = Field(default_factory=list)

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        check_lengths(len(self.step), self.series)
        return self

    @property
    def series(self) -> Mapping[str, Numbers]:
        """The values of each quantity at these steps."""
        return self.__pydantic_extra__


class Optima(Recorded):
    """How the best reward of each instance is known; "none", with the reason, if it is not."""

    kind: str = "none"
    reason: str = "not asked for"
    exact: bool = False
    per_instance: Numbers = Field(default_factory=list)


class Data(Recorded):
    """The hash of the held-out instances, and where they are from."""

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
    # The steps of the evaluations that everything of the end is the mean over.
    last: list[Count] = Field(default_factory=list)
    final: Final
    # The same at other temperatures.
    tempered: dict[Temperature, Final] = Field(default_factory=dict)
    tuning: Tuning = Tuning()
    quantiles: dict[str, Ends] = Field(default_factory=dict)
    extras: dict[str, Extra] = Field(default_factory=dict)
    log: Log = Log()
    optima: Optima = Field(default=Optima(), alias="reference")
    data: Data = Data()
    undefined: dict[str, str] = Field(default_factory=dict)

    @property
    def shown(self) -> Mapping[str, Any]:
        """The final Max@K with its interval, at the K that the report has."""
        ends = {name: getattr(self.final, name) for name in ("value", "low", "high")}
        curve = {
            f"max@{k}": {name: values[k - 1] for name, values in ends.items()}
            for k in self.final.ks
        }
        return {"final": curve}

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` where this cannot have been measured of the cell."""
        training = cell["training"]
        if self.steps != training["steps"]:
            raise ValueError(f"it was trained for {self.steps} steps")
        # Not the file of instances: a cell has its hash, and not where it lies.
        told = {name: value for name, value in training["evaluate"].items() if name != "data"}
        evaluate = EvaluationSettings.model_validate(told)
        self._check_steps(training["batch"], evaluate)
        self._check_sizes(evaluate, from_file=training["evaluate"].get("data") is not None)
        self._check_numbers(evaluated_ks(evaluate.samples, cell["k"]))
        # Functions of the user's own may give the same trajectory another reward.
        if self.optima.exact and not cell["environment"].get("rewards"):
            self._check_optima()

    def _check_sizes(self, evaluate: EvaluationSettings, *, from_file: bool) -> None:
        samples, instances = len(self.final.value), self.final.instances
        for temperature, final in self.tempered.items():
            check_lengths(samples, {f"tempered.{temperature}": final.value})
            check_lengths(instances, {f"tempered.{temperature}": final.per_instance[0]})
        check_lengths(samples, self.tuning.tempered)
        if not self.tuning.tempered.keys() <= {"1.0", *self.tempered}:
            raise ValueError("tuning has a temperature that nothing else has")
        each = {
            name: extra.per_instance
            for name, extra in self.extras.items()
            if extra.value is not None
        }
        if self.optima.kind != "none":
            each["reference"] = self.optima.per_instance
        check_lengths(instances, each)
        check_lengths(evaluate.samples, {"final": self.final.value})
        # A file of instances may hold fewer.
        fewest = 1 if from_file else evaluate.instances
        if not fewest <= instances <= evaluate.instances:
            raise ValueError(f"it was evaluated on {instances} instances")

    def _check_steps(self, batch: int, evaluate: EvaluationSettings) -> None:
        at = self.evaluations.step
        # Few are compared with what may be very many.
        if len(at) != 1 + len(range(0, self.steps, evaluate.every)) or (
            tuple(at) != evaluate.after(self.steps)
        ):
            raise ValueError("it was not evaluated after the steps that its cell tells")
        # Records from before there were several have none.
        if self.last and tuple(self.last) != evaluate.at_the_end(self.steps):
            raise ValueError(f"its end is not after {self.last} steps")
        rollouts = [*self.evaluations.rollouts, self.rollouts]
        if rollouts != [batch * step for step in (*at, self.steps)]:
            raise ValueError(f"its rollouts are not those of steps of {batch}")
        logged = self.log.step
        if logged != sorted(set(logged)) or (logged and logged[-1] >= self.steps):
            raise ValueError("its log has other steps than it was trained for, or in another order")

    def _check_numbers(self, ks: Sequence[int]) -> None:
        self.evaluations.check_numbers(ks, self.undefined)
        self.final.check_numbers("final", ks, self.undefined)
        for temperature, final in self.tempered.items():
            final.check_numbers(f"tempered.{temperature}", ks, self.undefined)
        for name, ends in {**self.quantiles, **self.extras}.items():
            ends.check_numbers(name)
        quantiles = [self.quantiles[name].value for name in QUANTILES if name in self.quantiles]
        if self.final.complete:
            # The mean of the best of all samples.
            quantiles.append(self.final.value[-1])
        check_rising("the quantiles", quantiles)
        if "value" not in self.undefined:
            self._check_end()

    def _check_end(self) -> None:
        """Hold the end against the evaluations that it is the mean over."""
        last = self.last or [self.steps]
        parts = [self.evaluations.value[self.evaluations.step.index(step)] for step in last]
        for k, of_one_k in zip(self.final.ks, zip(*parts, strict=True), strict=True):
            check_mean(f"final at K = {k}", self.final.value[k - 1], of_one_k)

    def _check_optima(self) -> None:
        for optimum, best in zip(
            self.optima.per_instance, self.final.per_instance[-1], strict=True
        ):
            # Rewards are often of single precision, their sums far less exact than a mean.
            slack = 100 * slack_of([optimum, best])
            if optimum is not None and best is not None and best > optimum + slack:
                raise ValueError(f"a reward of {best} is above the optimum, {optimum}")
