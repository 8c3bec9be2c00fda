"""A report as plain values: header, the rows of every kind of study, verdicts, missing cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from maxk_lab.reports.tables import Pooled, PooledRow

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record

Verdict = Literal["supported", "refuted", "undecided"]


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on one claim of the sweep: the claim in words, and what was measured.

    It cannot be `judged` where cells that it speaks of are not measured. The number that `detail`
    begins with is `value`, with its interval at `level`; `count` of so many `parts`, such as
    "ratios", have the verdict.
    """

    name: str
    text: str
    verdict: Verdict
    detail: str
    judged: bool = True
    value: float | None = None
    value_low: float | None = None
    value_high: float | None = None
    level: float | None = None
    count: int = 1
    of: int = 1
    parts: str = ""


@dataclass(frozen=True)
class Failure:
    """A cell whose record says `failed`: its id, row and seed, and the last line of its error."""

    cell: str
    path: str
    seed: int
    error: str

    def __str__(self) -> str:
        """`gradient/maxk/none/n8/k2 seed 0 (cell 0123456789abcdef)`."""
        return f"{self.path} seed {self.seed} (cell {self.cell})"


@dataclass(frozen=True)
class Header:
    """The origin of the numbers: the sweep, its seeds, commits and versions."""

    name: str
    description: str
    seeds: tuple[int, ...]
    commits: tuple[str, ...]
    # Those of the user's own repository.
    projects: tuple[str, ...]
    versions: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Counts:
    """How many cells are planned, and how many of these are in each state."""

    planned: int = 0
    done: int = 0
    failed: int = 0
    missing: int = 0

    def __str__(self) -> str:
        """`all 8 cells measured`, or `5 of 8 cells measured; 1 failed, 2 missing`."""
        if self.done == self.planned:
            several = (
                f"all {self.planned} cells measured" if self.planned > 1 else "one cell measured"
            )
            return several if self.planned else "no cells are planned"
        states = list(asdict(self).items())[2:]
        rest = ", ".join(f"{count} {state}" for state, count in states if count)
        return f"{self.done} of {self.planned} cells measured; {rest}"


@dataclass(frozen=True)
class Summary:
    """Everything a report shows; each format and figure is a function of this value.

    `studies` has the rows of every kind by its name, in the catalogue's order. `counts` has the
    states of the planned cells; those that are
    `failed` or `missing` have no result. `stale` counts records that the plan does not use.
    `changed` names the code and models that changed since the measurement.
    `origins` has the record of each measured or failed cell by its id, to trace a number by, but
    for its metrics; many share one `provenance`.
    """

    header: Header
    studies: Mapping[str, Pooled[PooledRow]]
    counts: Counts = field(default_factory=Counts)
    claims: tuple[ClaimVerdict, ...] = ()
    failed: tuple[Failure, ...] = ()
    missing: tuple[str, ...] = ()
    stale: int = 0
    changed: tuple[str, ...] = ()
    level: float = 0.95
    alpha: float = 0.05
    origins: Mapping[str, Record] = field(default_factory=dict, repr=False, compare=False)

    @property
    def refuted(self) -> bool:
        """Some claim is refuted."""
        return any(claim.verdict == "refuted" for claim in self.claims)

    def seconds_of(self, study: str) -> float:
        """How long the cells of a kind of study took, as far as that is known."""
        origins = (one for one in self.origins.values() if one.cell.get("study") == study)
        return sum(one.timings.get("seconds") or 0.0 for one in origins)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """The names of the claims that cannot be judged."""
        return tuple(claim.name for claim in self.claims if not claim.judged)

    @property
    def sound(self) -> bool:
        """No claim is refuted or cannot be judged, and no cell failed."""
        return not (self.refuted or self.unjudged or self.failed)
