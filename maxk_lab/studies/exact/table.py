"""Rows of an exact study, their numbers, and verdicts on claims.

A row has one record for each seed. Its numbers are exact, so they have no intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.reports.claims import ClaimVerdict, Verdict, combined
from maxk_lab.reports.document import exact
from maxk_lab.reports.naming import GridKey, environment_label, environment_words
from maxk_lab.reports.tables import Pooled, PooledRow, members_by_key
from maxk_lab.statistics.intervals import Interval, exactly, undefined
from maxk_lab.statistics.measures import MEASURES, measures_of
from maxk_lab.studies.exact.spec import ObjectiveRecord, WeightsRecord
from maxk_lab.sweep_file.claims import Claim, evaluate_value

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record


# Optima closer than this share of the range of the parameter are equal.
NEAR = 1e-6


@dataclass(frozen=True, kw_only=True)
class ExactKey(GridKey):
    """The grid point of a row; `parameter` is empty for weights."""

    parameter: str = ""

    @property
    def path(self) -> str:
        """`weights/maxk/centred/n16/k8`, or `objective/maxk/k8`."""
        return f"objective/{self.estimator}/k{self.k}" if self.parameter else self.named("weights")

    @property
    def bias_state(self) -> str:
        """The bias of weights; empty for objectives."""
        return "" if self.parameter else super().bias_state

    @property
    def pair(self) -> str:
        """Estimator and baseline, if it takes one."""
        takes = self.method.takes_baseline
        return f"{self.estimator} {self.baseline}" if takes else self.estimator

    @property
    def objective(self) -> str:
        """The objective of the estimator: `max@8`."""
        return self.method.objective_at(self.n).name


@dataclass(frozen=True, kw_only=True)
class Row(PooledRow):
    """One environment, setting, estimator, baseline, n and K with the record of each seed."""

    key: ExactKey
    by_seed: Mapping[int, Any] = field(repr=False)

    @cached_property
    def distinct(self) -> tuple[Any, ...]:
        """The records without repeats: one for an objective that is equal in all seeds."""
        return tuple(
            {record.model_dump_json(): record for record in self.by_seed.values()}.values()
        )

    @property
    def groups(self) -> list[tuple[list[float], list[float]]]:
        """(rewards, weights) of every group, seed by seed."""
        records = self.by_seed.values()
        return [pair for r in records for pair in zip(r.rewards, r.weights, strict=True)]

    def number(self, measure: str) -> Interval:
        """The value of a measure over all seeds; undefined with the reason if it has none."""
        records = self.distinct if self.key.parameter else tuple(self.by_seed.values())
        reasons = dict.fromkeys(filter(None, (record.reason(measure) for record in records)))
        reason = self.unfinished or "; ".join(reasons)
        if not reason and self.key.parameter and len(records) > 1:
            reason = "the seeds differ"
        if reason:
            return undefined(1.0, reason)
        values = [record.number(measure) for record in records]
        least = MEASURES.get(measure).pooled == "least"
        return exactly(float(min(values) if least else np.mean(values)))


def key(cell: Mapping[str, Any]) -> ExactKey:
    """Return the key of the row of a cell; the label of an objective leaves out its parameter."""
    if "objective" not in cell:
        return ExactKey.of(cell)
    parameter = str(cell["objective"]["parameter"])
    along = {**cell, "setting": {parameter: None}}
    names = {"environment": environment_label(along), "words": environment_words(along)}
    return ExactKey.of(cell, parameter=parameter, **names)


def pool(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], *, level: float, alpha: float
) -> Pooled[Row]:
    """Return the rows of the cells with their finished records."""
    rows = []
    for row_key, members, records in members_by_key(cells, done, key):
        model = ObjectiveRecord if row_key.parameter else WeightsRecord
        by_seed = {seed: model.of(record) for seed, record in records.items()}
        ids = {cell["seed"]: cell["id"] for cell in members}
        rows.append(Row(key=row_key, cells=ids, finished=tuple(records), by_seed=by_seed))
    return Pooled(tuple(rows))


def sorted_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows of weights by environment, setting, n, K and catalogue; objectives as in the sweep."""
    settings = list(dict.fromkeys(row.key.setting for row in rows))

    def order(row: Row) -> tuple[Any, ...]:
        if row.key.parameter:
            return ()
        place = (row.key.environment, settings.index(row.key.setting))
        return (*place, row.key.n, row.key.k, row.key.method.catalogue_order)

    return sorted(rows, key=order)


def estimates(row: Row) -> dict[str, Interval]:
    """Return the value of every measure; undefined where a seed is missing."""
    kind = "objective" if row.key.parameter else "weights"
    return {measure.name: row.number(measure.name) for measure in measures_of(kind)}


def judge(claim: Claim, matching: Sequence[tuple[Row, ...]], alpha: float) -> ClaimVerdict:
    """Supported if the claim holds in every row and seed, else refuted: numbers are exact.

    An `order` claims that the optimum grows from each row to the next.
    """
    if claim.kind == "order":
        pairs = (pair for rows in matching for pair in pairwise(rows))
        verdicts = [verdict for pair in pairs for verdict in _judge_order(claim, *pair)]
        return combined(verdicts, "exact comparisons")
    verdicts = [verdict for (row,) in matching for verdict in _judge_value(claim, row)]
    return combined(verdicts, "exact numbers")


def _judge_order(claim: Claim, lower: Row, upper: Row) -> Iterator[ClaimVerdict]:
    measure = claim.measure
    for seed in lower.finished:
        records = lower.by_seed[seed], upper.by_seed[seed]
        below, above = (record.number(measure) for record in records)
        text = (
            f"{measure} of {upper.key.path} over {lower.key.path}, seed {seed}: "
            f"{exact(above)} over {exact(below)}"
        )
        if reason := records[0].reason(measure) or records[1].reason(measure):
            yield ClaimVerdict("undecided", f"{text} ({reason})")
        else:
            near = NEAR * (records[0].points[-1] - records[0].points[0])
            yield ClaimVerdict("supported" if above - below > near else "refuted", text)


def _judge_value(claim: Claim, row: Row) -> Iterator[ClaimVerdict]:
    target = evaluate_value(claim.value, row.key.n, row.key.k, row.key.setting)
    slack = claim.slack(target)
    for seed, record in row.by_seed.items():
        value = record.number(claim.measure)
        numbers = f"{exact(value)}, claimed {exact(target)} ± {slack:.3g}"
        detail = f"{row.key.path} seed {seed}: {numbers}"
        if reason := record.reason(claim.measure):
            yield ClaimVerdict("undecided", f"{detail} ({reason})")
            continue
        verdict: Verdict = "supported" if abs(value - target) <= slack else "refuted"
        yield ClaimVerdict(verdict, detail, exactly(value))
