"""A comparison of two runs as plain values. They are A and B, and B is judged by A."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from maxk_lab.report.tables import Effect, Estimate

# "identical": the same to the last digit, and so is its interval. "tie": any difference is smaller
# than matters. "differs": another number, of which neither side is better. "differs for these
# seeds": another number, as the policies of other seeds may have, whatever else was changed.
Verdict = Literal[
    "worse", "better", "differs", "differs for these seeds", "not significant", "tie", "identical"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
# The verdicts on a claim, the worst first.
_ORDER = ("refuted", "undecided", "supported")


@dataclass(frozen=True)
class Number:
    """A number of a row in both runs: how far B's is from A's, and what follows.

    `effect` has an interval of its own level, `verdict` rests on one that is corrected for all that
    were compared.
    """

    measure: str
    a: Estimate
    b: Estimate
    effect: Effect
    verdict: Verdict


@dataclass(frozen=True)
class ComparedRow:
    """A row of the reports of both runs, with its numbers.

    `same_cells` says that its cells have the same ids in both, `identical` that their metrics are
    the same to the last digit, too.
    """

    kind: str
    path: str
    axes: Mapping[str, Any]
    numbers: tuple[Number, ...]
    same_cells: bool
    identical: bool = False


@dataclass(frozen=True)
class Absence:
    """A row, or seeds of one, that cannot be compared, with the reason.

    It is `gone` or `new` in B, or `unfinished` in a run.
    `missing` says that A has results which B lacks.
    """

    state: Literal["gone", "new", "unfinished"]
    path: str
    reason: str
    missing: bool


@dataclass(frozen=True)
class ClaimChange:
    """A claim with another verdict in B, in one run alone, or `redefined`.

    `redefined` has a line for each place where the claim of this name is another in B: their
    verdicts are then on two claims, and neither is worse than the other. Nor is it where the runs
    have `other_seeds`, by which alone a verdict may change.
    """

    name: str
    a: str
    b: str
    detail: str
    redefined: tuple[str, ...] = ()
    other_seeds: bool = False

    @property
    def worse(self) -> bool:
        """It was supported, or not refuted, and is so no more."""
        same = {self.a, self.b} <= set(_ORDER) and not self.redefined
        return same and not self.other_seeds and _ORDER.index(self.b) < _ORDER.index(self.a)

    @property
    def missing(self) -> bool:
        """It was supported, and B has no such claim."""
        return self.a == "supported" and (self.b not in _ORDER or bool(self.redefined))


@dataclass(frozen=True)
class CellCounts:
    """How many cells of both runs are the same or stand for each other, and how many do not.

    `identical` and `other_numbers` have the same id in both; `paired` were measured of the same
    row and seed with other settings. `new` and `gone` are of one run alone; `without` have a result
    in one run, and none in the other, which plans them, too; `neither` have none in either.
    """

    identical: int = 0
    other_numbers: int = 0
    paired: int = 0
    new: int = 0
    gone: int = 0
    without: int = 0
    neither: int = 0


@dataclass(frozen=True, repr=False)
class Comparison:
    """Everything that `maxk-lab compare A B` tells.

    `alarms` are lines on rows of either run whose test of bias rejects what is unbiased by proof.
    `settings`, `origins` and `meanings` are lines on what was changed: in the sweep file, in code,
    versions and machines, and in the cells that stand for each other. `tests` is how many
    comparisons the verdicts are corrected for, `tie` the share below which none matters.
    """

    names: tuple[str, str]
    commits: tuple[str, str]
    rows: tuple[ComparedRow, ...]
    absences: tuple[Absence, ...]
    alarms: tuple[str, ...]
    counts: CellCounts
    settings: tuple[str, ...]
    origins: tuple[str, ...]
    meanings: tuple[str, ...]
    claims: tuple[ClaimChange, ...]
    tests: int
    level: float
    alpha: float
    tie: float

    def __repr__(self) -> str:
        found = [f"{count} {verdict}" for verdict, count in self.verdicts.items() if count]
        told = ", ".join(found) or "nothing to compare"
        return f"<Comparison of {' and '.join(self.names)}: {told}>"

    def _repr_markdown_(self) -> str:
        return self.to("markdown")

    def to(self, format: str) -> str:
        """Return it as text: terminal, markdown, csv or json.

        Raises `LabError` for another format.
        """
        from maxk_lab.results.compare.document import Document
        from maxk_lab.results.compare.formats import rendered

        return rendered(Document(self), format)

    @property
    def verdicts(self) -> dict[Verdict, int]:
        """How many numbers have each verdict."""
        found = [number.verdict for row in self.rows for number in row.numbers]
        return {verdict: found.count(verdict) for verdict in VERDICTS}

    @property
    def worse(self) -> bool:
        """Some number, or the verdict on a claim, is worse."""
        return self.verdicts["worse"] > 0 or any(claim.worse for claim in self.claims)

    @property
    def missing(self) -> bool:
        """Some result of A, or claim that it supports, has no counterpart in B."""
        absent = any(one.missing for one in self.absences)
        return absent or any(claim.missing for claim in self.claims)

    @property
    def changed(self) -> bool:
        """Some result or claim is not identical in both, or is in one alone."""
        counts = asdict(self.counts)
        of_cells = any(counts[name] for name in counts if name not in ("identical", "neither"))
        return of_cells or self.missing or bool(self.claims)
