"""What a report says, as plain values: header, pooled rows, verdicts on claims and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from maxk_lab.gradients.bias import BiasVerdict
from maxk_lab.gradients.statistics import Interval
from maxk_lab.gradients.units import Units
from maxk_lab.sweeps.environment_check import telling_parameters

Verdict = Literal["supported", "refuted", "undecided"]


@dataclass(frozen=True)
class RowKey:
    """What the seeds of one row share; `environment` is a label such as `tsp(num_loc=20)`."""

    environment: str
    stage: int
    estimator: str
    baseline: str
    n: int
    k: int

    @property
    def path(self) -> str:
        """The name of the row in logs and messages: `stage200/maxk/centred/n16/k8`."""
        return f"stage{self.stage}/{self.estimator}/{self.baseline}/n{self.n}/k{self.k}"

    @property
    def group(self) -> tuple[str, int, str, int, int]:
        """The rows that are compared for `best`: all but the baseline is the same."""
        return self.environment, self.stage, self.estimator, self.n, self.k


@dataclass(frozen=True)
class SummaryRow:
    """One (environment, stage, estimator, baseline, n, K), pooled over seeds.

    `cells` maps each planned seed to its cell id, `finished` lists the seeds that have a result. Unless all
    have, `intervals` and `bias` are undefined and `units` is None: no average over a part of the seeds.
    """

    key: RowKey
    cells: Mapping[int, str]
    finished: tuple[int, ...]
    intervals: Mapping[str, Interval]
    bias: BiasVerdict
    catalogued_unbiased: bool
    instances: int
    pool: int
    unit: str
    units_per_seed: int
    against: str
    units: Units | None = field(default=None, repr=False)
    best: bool = False
    best_note: str = ""

    @property
    def complete(self) -> bool:
        """Every planned seed finished."""
        return len(self.finished) == len(self.cells)

    @property
    def exact(self) -> bool:
        """Mean and variance of the estimate are computed from every possible group of samples, not sampled."""
        return self.against == "complete"


@dataclass(frozen=True)
class TrainingKey:
    """What the seeds of one trained row share."""

    environment: str
    estimator: str
    baseline: str
    n: int
    k: int

    @property
    def path(self) -> str:
        """The name of the row in logs and messages: `training/maxk/centred/n16/k8`."""
        return f"training/{self.estimator}/{self.baseline}/n{self.n}/k{self.k}"


@dataclass(frozen=True)
class Evaluation:
    """One evaluation during training: Max@K on held-out instances (K → interval) after so many rollouts.

    `seconds` is the training time until then, evaluations excluded, mean over seeds; NaN where not recorded.
    """

    step: int
    rollouts: int
    seconds: float
    values: Mapping[int, Interval]


@dataclass(frozen=True)
class Logged:
    """One metric of the training steps, mean over seeds: after so many rollouts, its value and ends of its interval.

    NaN where the metric is not defined in every seed; the ends are NaN too where there is one seed.
    """

    rollouts: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Trained:
    """What one seed of a trained row ended with: Max@K for K = 1..samples, and per instance for some K."""

    curve: tuple[float, ...]
    per_instance: Mapping[int, tuple[float, ...]] = field(repr=False)


@dataclass(frozen=True)
class TrainingRow:
    """One (environment, estimator, baseline, n, K) trained and evaluated, pooled over seeds.

    `curve` is the final Max@K for K = 1..samples, `differences` (K → interval) that minus the same of the row
    `reference`, paired by seed. Intervals are over seeds, or over held-out instances where `one_seed`. Unless all
    seeds finished, `curve`, `evaluations`, `log` and `differences` are empty: no average over a part of the seeds;
    `reason` says so.
    `log` holds what the training steps themselves reported, by the metric's name.
    """

    key: TrainingKey
    cells: Mapping[int, str]
    finished: tuple[int, ...]
    catalogued_unbiased: bool
    settings: Mapping[str, Any]
    steps: int = 0
    rollouts: int = 0
    ks: tuple[int, ...] = ()
    curve: tuple[Interval, ...] = ()
    evaluations: tuple[Evaluation, ...] = field(default=(), repr=False)
    log: Mapping[str, Logged] = field(default_factory=dict, repr=False)
    differences: Mapping[int, Interval] = field(default_factory=dict)
    reference: str = ""
    by_seed: Mapping[int, Trained] = field(default_factory=dict, repr=False)
    reason: str = ""

    @property
    def complete(self) -> bool:
        """Every planned seed finished."""
        return len(self.finished) == len(self.cells)

    @property
    def one_seed(self) -> bool:
        """Nothing is known of other training runs: intervals are over held-out instances."""
        return len(self.cells) == 1

    def final(self, k: int) -> Interval | None:
        """The final Max@k, if it was measured."""
        return self.curve[k - 1] if 1 <= k <= len(self.curve) else None


@dataclass(frozen=True)
class ProxyRow:
    """How well a trajectory weight tracks ‖ψ‖²: its correlation with it, pooled over instances and seeds.

    `without` of the `instances` have no correlation, because one of the two is constant there.
    """

    environment: str
    stage: int
    proxy: str
    correlation: Interval
    seeds: int
    instances: int
    without: int


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on one claim of the sweep: what was claimed, in words, and what was measured."""

    name: str
    text: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True)
class Failure:
    """A cell whose record says `failed`: its id, its place in the grid and the last line of its error."""

    cell: str
    path: str
    seed: int
    error: str


@dataclass(frozen=True)
class Header:
    """Where the numbers come from."""

    name: str
    description: str
    seeds: tuple[int, ...]
    commits: tuple[str, ...]
    versions: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Summary:
    """Everything a report shows; each format and figure is a function of this value.

    `rows` and `proxies` are the gradient study, `training` the training study. `failed` and `missing` are cells
    of the plan without a result, `stale` are records that the plan does not use, `problems` those that could not be read.
    """

    header: Header
    rows: tuple[SummaryRow, ...]
    training: tuple[TrainingRow, ...] = ()
    proxies: tuple[ProxyRow, ...] = ()
    claims: tuple[ClaimVerdict, ...] = ()
    failed: tuple[Failure, ...] = ()
    missing: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    level: float = 0.95
    alpha: float = 0.05

    @property
    def refuted(self) -> bool:
        """Some claim is refuted."""
        return any(claim.verdict == "refuted" for claim in self.claims)


def environment_label(cell: Mapping[str, Any]) -> str:
    """`tsp(num_loc=20)`: the environment of a cell with the parameters that tell it from others."""
    inside = ", ".join(f"{name}={value}" for name, value in telling_parameters(cell["environment"]).items())
    return f"{cell['environment']['name']}({inside})" if inside else str(cell["environment"]["name"])
