"""A report as plain values: header, the rows of every kind of study, verdicts, missing cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from maxk_lab.report.rows import PooledRow, Rows

Verdict = Literal["supported", "refuted", "undecided"]


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on one claim of the sweep: the claim in words, and what was measured."""

    name: str
    text: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True)
class Failure:
    """A cell whose record says `failed`: its id, row and seed, and the last line of its error."""

    cell: str
    path: str
    seed: int
    error: str


@dataclass(frozen=True)
class Header:
    """The origin of the numbers: the sweep, its seeds, commits and versions."""

    name: str
    description: str
    seeds: tuple[int, ...]
    commits: tuple[str, ...]
    versions: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Summary:
    """Everything a report shows; each format and figure is a function of this value.

    `studies` has the rows of every kind by its name, in the catalogue's order; `figures` are those
    that the sweep file declares. `failed` and `missing` are cells of the plan without a result,
    `stale` are records that the plan does not use, `problems` those that could not be read.
    """

    header: Header
    studies: Mapping[str, Rows[PooledRow]]
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
