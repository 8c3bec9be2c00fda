"""The modules of a kind of study, as far as reports look them up, and what a recommendation is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pydantic import BaseModel

    from maxk_lab.report.charts import Figure
    from maxk_lab.report.claims import Judged
    from maxk_lab.report.model import Summary
    from maxk_lab.report.tables import Estimate, Pooled, PooledRow
    from maxk_lab.statistics.intervals import Interval
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import Record


@dataclass(frozen=True)
class Question:
    """The gradient of `objective` (as `max@8`) at a stage, for a budget of rollouts a step.

    `only` selects the cells that it takes to answer. With `biased`, biased estimators compete.
    """

    objective: str
    budget: int
    stage: int
    biased: bool
    only: str


@dataclass(frozen=True)
class Candidate:
    """One (estimator, baseline, n, K) at a budget of B rollouts a step.

    `row` is one of a kind of study that recommends: its key has these, an environment, a setting
    and a stage. `step_snr` is the SNR of the mean of `groups` = B/n independent estimates: B/n
    times that of one. `against_best` is the candidate's SNR per rollout over that of the best,
    paired over instances; None for the best itself.
    """

    row: Any
    groups: int
    step_snr: Interval
    against_best: Interval | None = None

    @property
    def told_apart(self) -> bool:
        """Its interval says that it is worse than the best."""
        return self.against_best is not None and self.against_best.high < 1


@dataclass(frozen=True)
class Recommendation:
    """The candidates of one environment and stage, best first, and the rows left out, with why.

    `use` is the candidate to use: of those that tie with the best at its n the simplest.
    """

    objective: str
    budget: int
    candidates: tuple[Candidate, ...]
    left_out: tuple[tuple[PooledRow, str], ...]
    use: Candidate | None = None

    @property
    def best(self) -> Candidate:
        """The candidate of the highest SNR per rollout."""
        return self.candidates[0]

    @property
    def ties(self) -> tuple[Candidate, ...]:
        """Candidates that the intervals do not tell apart from the best."""
        return tuple(c for c in self.candidates[1:] if not c.told_apart)


class PoolPart(Protocol):
    """The module `pool`: records pooled over their seeds, and the numbers of a row."""

    def key(self, cell: Mapping[str, Any]) -> Any:
        """Return the key of the row that a cell belongs to; its `path` is the name of the row."""

    def pool(
        self,
        cells: Sequence[Mapping[str, Any]],
        done: Mapping[str, Record],
        *,
        level: float,
        alpha: float,
    ) -> Pooled[PooledRow]:
        """Return the rows of the planned cells of this kind, with intervals at `level`.

        `done` has the finished records by the id of their cell. A kind of exact numbers may have
        the type of its rows instead, as `Row`, which is `ExactRow` unless given.
        """

    def estimates(self, row: Any) -> Mapping[str, Estimate]:
        """Return every number of the row that has an interval or is exact.

        One without a value has its reason; a row without any has none of them.
        """


class ComparePart(Protocol):
    """The module `compare`: rows against each other.

    It may have more: `judged(pooled, *, level, alpha)`, the rows with verdicts; `compare(...)` of
    the same, the lines of `comparisons`; and `effect(row, other, measure, level)`, how far a number
    of the row is from that of the same row of another run, None where they have no pairs.
    """

    def judge(self, claim: Any, met: Sequence[Any], alpha: float) -> Judged:
        """Return the verdict at level `alpha`, and the words for what was measured.

        `met` holds the rows, or pairs or lists of them, that the claim speaks of, all complete.
        """


class FactsPart(Protocol):
    """The module `facts`: numbers, names and choices for the template `answer.md.j2`."""

    def facts(self, pooled: Any, summary: Summary) -> BaseModel:
        """Return the facts of these rows, of which there are some.

        They may have a `table` of models, the lines of the short table, and its `title`.
        """


class ChartsPart(Protocol):
    """The module `charts`."""

    def charts(self, found: Any, summary: Summary, more: Collection[str]) -> Iterable[Figure]:
        """Yield the charts of the rows that were `found`, and those that `more` asks for.

        The names of these are the `charts` of the kind's row in the catalogue.
        """


class RecommendPart(Protocol):
    """The module `recommend` of a kind that recommends methods; others have none."""

    def ask(
        self, plan: Plan, *, budget: int, objective: str | None, stage: int | None, biased: bool
    ) -> Question:
        """Return the question as the sweep can answer it. Raises `LabError` where it cannot."""

    def answers(self, found: Any, question: Question) -> Sequence[Recommendation]:
        """Return an answer from the rows that were `found`, for each place of the sweep."""
