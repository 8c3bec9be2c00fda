"""The modules in the folder of a kind of study, as far as reports look them up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from maxk_lab.report.document import Chapter
    from maxk_lab.report.drawing.picture import Picture
    from maxk_lab.report.model import Summary
    from maxk_lab.report.recommendation import Question, Recommendation
    from maxk_lab.report.rows import Effect, Measured, PooledRow, Rows
    from maxk_lab.report.verdicts import Judged
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import Record


class RowsPart(Protocol):
    """The module `rows`: records pooled over their seeds."""

    def key(self, cell: Mapping[str, Any]) -> Any:
        """Return the key of the row that a cell belongs to; its `path` is the name of the row."""

    def pool(
        self,
        cells: Sequence[Mapping[str, Any]],
        done: Mapping[str, Record],
        *,
        level: float,
        alpha: float,
    ) -> Rows[PooledRow]:
        """Return the rows of the planned cells of this kind, with intervals at `level`.

        `done` has the finished records by the id of their cell.
        """


class MeasuredPart(Protocol):
    """The module `measured`: the numbers of a row by their names."""

    def measured(self, row: Any) -> Mapping[str, Measured]:
        """Return every number that has an interval or is exact, as tables of the report have it.

        One without a value has its reason; a row without any has none of them.
        """

    def against(self, row: Any, other: Any, name: str, level: float) -> Effect | None:
        """Return how far a number of the row is from that of the same row of another run.

        None where the two have no pairs of values, or none of this number.
        """


class SectionPart(Protocol):
    """The module `section`: the part of a report that the kind fills."""

    def chapter(self, found: Any, summary: Summary) -> Chapter:
        """Return the chapter about the rows that were `found`; without rows, an empty one."""


class FiguresPart(Protocol):
    """The module `figures`."""

    def figures(self, found: Any, summary: Summary) -> Iterable[Picture]:
        """Yield the figures of the rows that were `found`, with their titles and captions."""


class ClaimsPart(Protocol):
    """The module `claims`: verdicts on the claims that speak of the kind's rows."""

    def judge(self, claim: Any, met: Sequence[Any], alpha: float) -> Judged:
        """Return the verdict at level `alpha`, and the words for what was measured.

        `met` holds the rows, or pairs or lists of them, that the claim speaks of, all complete.
        """


class RecommendPart(Protocol):
    """The module `recommend` of a kind that recommends methods; others have none."""

    def ask(
        self, plan: Plan, *, budget: int, objective: str | None, stage: int | None, biased: bool
    ) -> Question:
        """Return the question as the sweep can answer it. Raises `LabError` where it cannot."""

    def answers(self, found: Any, question: Question) -> Sequence[Recommendation]:
        """Return an answer from the rows that were `found`, for each place of the sweep."""


# The modules of a kind, for mypy to compare with the protocols.
ReportParts = tuple[RowsPart, MeasuredPart, SectionPart, FiguresPart, ClaimsPart]
