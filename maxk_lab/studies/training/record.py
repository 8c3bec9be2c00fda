"""The content of a finished record of the training study; undefined numbers are None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from maxk_lab.fields import Numbers, Recorded
from maxk_lab.statistics.seeds.over_seeds import Mean


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
    ks: list[int]
    per_instance: list[Numbers]

    @property
    def means(self) -> list[Mean]:
        """The mean of every K with the ends of its interval."""
        return list(zip(self.value, self.low, self.high, strict=True))


class Tuning(Recorded):
    """The means over other instances of every way: at each temperature by K = 1 ..., of extras."""

    tempered: dict[str, Numbers] = Field(default_factory=dict)
    extras: dict[str, float | None] = Field(default_factory=dict)


class Evaluations(Recorded):
    """Max@K at the `ks` after some steps of training: [evaluations, K]."""

    step: list[int]
    rollouts: list[int]
    ks: list[int]
    value: list[Numbers]
    low: list[Numbers]
    high: list[Numbers]

    def means(self, number: int) -> dict[int, Mean]:
        """The mean of every K with the ends of its interval, at one of the evaluations."""
        ends = (self.value[number], self.low[number], self.high[number])
        return dict(zip(self.ks, zip(*ends, strict=True), strict=True))


class Log(Recorded):
    """The quantities logged at the `step`s that were kept, by name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Numbers] = Field(init=False)

    step: list[int] = Field(default_factory=list)

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

    steps: int
    rollouts: int
    evaluations: Evaluations
    # The steps of the evaluations that everything of the end is the mean over.
    last: list[int] = Field(default_factory=list)
    final: Final
    # The same at other temperatures.
    tempered: dict[str, Final] = Field(default_factory=dict)
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
