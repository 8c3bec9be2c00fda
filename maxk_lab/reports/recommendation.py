"""A recommendation: the question, the candidates, and the rows that were left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxk_lab.reports.tables import PooledRow
    from maxk_lab.statistics.intervals import Interval


@dataclass(frozen=True)
class Question:
    """The gradient of `objective` (as `max@8`) at a stage, for a budget of rollouts per step.

    `only` selects the cells that the answer needs; `n` is None if n is ranked, too.
    """

    objective: str
    budget: int
    stage: int
    only: str
    n: int | None = None


@dataclass(frozen=True)
class Candidate:
    """One (estimator, baseline, n, K) at a budget of B rollouts per step.

    The key of `row` has the method, an environment, a setting and a stage. A step has `groups` =
    B/n groups, each of another instance. `step_snr` is ‖∇J‖² over the variance of the step's mean
    estimate, (n/B)(V_n + V_between). `over_best` is this variance over that of the best, paired
    over instances; None for the best itself. `tied` means that in the report its V_n does not
    differ significantly from the best at the same n.
    """

    row: Any
    groups: int
    step_snr: Interval
    over_best: Interval | None = None
    tied: bool = False

    @property
    def worse(self) -> bool:
        """Whether it is significantly worse than the best, by its interval and by the report."""
        return self.over_best is not None and self.over_best.low > 1 and not self.tied


@dataclass(frozen=True)
class Recommendation:
    """The candidates of one environment and stage, best first, and omitted rows with reasons.

    `use` is the recommended candidate: the simplest candidate close to the best at its n. If the
    records lack V_between, `no_between` is the reason, and all candidates have one n; else it is
    empty.
    """

    objective: str
    budget: int
    candidates: tuple[Candidate, ...]
    left_out: tuple[tuple[PooledRow, str], ...]
    use: Candidate | None = None
    no_between: str = ""

    @property
    def best(self) -> Candidate:
        """The candidate of the lowest variance of a step."""
        return self.candidates[0]

    @property
    def ties(self) -> tuple[Candidate, ...]:
        """The candidates that are not significantly different from the best."""
        return tuple(c for c in self.candidates[1:] if not c.worse)
