"""What a report says, as plain values: header, pooled rows, verdicts on claims and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.report.naming import Setting, row_path, setting_words
from maxk_lab.statistics.bias import BiasVerdict
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.units import Units

if TYPE_CHECKING:
    from maxk_lab.studies.objective.rows import ObjectiveRow
    from maxk_lab.studies.training.rows.model import TrainingRow
    from maxk_lab.studies.weights.rows import WeightsRow

Verdict = Literal["supported", "refuted", "undecided"]


@dataclass(frozen=True)
class RowKey:
    """What the seeds of one row share; `environment` is a label such as `tsp(num_loc=20)`.

    `setting` are the values of what the sweep varies; they are not part of that label.
    """

    environment: str
    stage: int
    estimator: str
    baseline: str
    n: int
    k: int
    setting: Setting = ()

    @property
    def path(self) -> str:
        """`stage200/maxk/centred/n16/k8`; see `row_path`."""
        return row_path(
            f"stage{self.stage}",
            setting_words(self.setting),
            estimator=self.estimator,
            baseline=self.baseline,
            n=self.n,
            k=self.k,
        )

    @property
    def group(self) -> tuple[str, Setting, int, str, int, int]:
        """The rows that are compared for `best`: all but the baseline is the same."""
        return self.environment, self.setting, self.stage, self.estimator, self.n, self.k


@dataclass(frozen=True)
class SummaryRow:
    """One (environment, setting, stage, estimator, baseline, n, K), pooled over seeds.

    `cells` maps each planned seed to its cell id, `finished` lists the seeds that have a result. Unless all
    have, `intervals` and `bias` are undefined and `units` is None: no average over a part of the seeds.
    `intervals` has the six measures that every row has, then those that were measured here. `anatomy` are the parts
    that sum to the variance, exact for these instances, where every group was enumerated. `over_best` is the variance
    over that of the best baseline there can be, where that was computed.
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
    anatomy: Mapping[str, float] = field(default_factory=dict)
    over_best: Interval | None = None
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
    setting: Setting = ()


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

    `rows` and `proxies` are the gradient study, `training`, `objectives` and `weights` the studies of these names;
    `figures` are the line figures that the sweep file declares. `failed` and `missing` are cells
    of the plan without a result, `stale` are records that the plan does not use, `problems` those that could not be read.
    """

    header: Header
    rows: tuple[SummaryRow, ...]
    training: tuple[TrainingRow, ...] = ()
    proxies: tuple[ProxyRow, ...] = ()
    objectives: tuple[ObjectiveRow, ...] = ()
    weights: tuple[WeightsRow, ...] = ()
    figures: tuple[Any, ...] = ()
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
