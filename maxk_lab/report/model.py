"""What a report says, as plain values: header, pooled rows, verdicts on claims and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from maxk_lab.gradients.bias import BiasVerdict
from maxk_lab.gradients.statistics import Interval, Units

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
    def table(self) -> tuple[str, int, str]:
        """The rows that stand in one table: same environment, stage and estimator."""
        return self.environment, self.stage, self.estimator

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

    `rows` is the gradient study. `failed` and `missing` are cells of the plan without a result, `stale` are
    records that the plan does not use, `problems` those that could not be read.
    """

    header: Header
    rows: tuple[SummaryRow, ...]
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
    """`tsp(num_loc=20)`: the environment of a cell with its parameters."""
    parameters = {name: value for name, value in cell["environment"].items() if name != "name"}
    inside = ", ".join(f"{name}={value}" for name, value in sorted(parameters.items()))
    return f"{cell['environment']['name']}({inside})" if inside else str(cell["environment"]["name"])
