"""Tables of a training study besides Max@K: gaps, other decoding, quantiles, robust summaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from maxk_lab.report.document import Block, Sheet, breaks_between
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.columns import (
    interval_column,
    method_columns,
    side_by_side,
)
from maxk_lab.studies.training.ending.values import values
from maxk_lab.studies.training.ending.ways import EXTRAS, SAMPLED
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.told import has_value

_OPTIMA = {
    "enumeration": "by enumeration of every solution",
    "held_karp": "by Held and Karp's dynamic program",
    "milp": "by a mixed-integer program",
    "pyvrp": "as the best that PyVRP found",
}


def measure_sheets(rows: tuple[TrainingRow, ...], where: str, level: float) -> Iterator[Block]:
    """The sheets that some row has; `rows` are those of one environment, `where` its name."""
    having = tuple(row for row in rows if row.measures is not None)
    if not having:
        return
    methods = method_columns(rows)
    ways = (
        ("gap", "Optimality gap in %", _gap_words(having)),
        ("decoding", "Ways of decoding", tuple(_decoding_words(having))),
        ("by_way", "Difference in each way of decoding", _BY_WAY_WORDS),
        ("sample", "Quantiles of the samples", (_SAMPLE_WORDS,)),
        ("robust", "Robust summary", (*_robust_words(having, level), *_SUMMARY_WORDS)),
    )
    for group, what, said in ways:
        # Tables that go on from the one before need not say it again.
        for number, (title, own, chunk) in enumerate(_tables(having, group, what)):
            columns = (interval_column(name, partial(_value, name=key)) for key, name in chunk)
            words = () if number else said
            yield Sheet(f"{title}: {where}", (*methods, *columns), own, words, breaks(own))


def _tables(
    rows: Sequence[TrainingRow], group: str, what: str
) -> Iterator[tuple[str, tuple[TrainingRow, ...], list[tuple[str, str]]]]:
    """(title, rows, (name, heading) of its columns) of each table of a group of values.

    Its rows are those that have any. Values that no row has are left out: why, the notes say.
    """
    shown = shown_gaps(rows) if group == "gap" else None
    found = [v for row in rows for v in values(row) if v.group == group and has_value(v.interval)]
    names = {v.name: v.heading for v in found if shown is None or v.name in shown}
    own = tuple(row for row in rows if any(v.name in names for v in values(row)))
    chunks = side_by_side(list(names.items()))
    for number, chunk in enumerate(chunks, start=1):
        yield what + (f" ({number} of {len(chunks)})" if len(chunks) > 1 else ""), own, chunk


def _value(row: TrainingRow, name: str) -> Interval | None:
    return next((value.interval for value in values(row) if value.name == name), None)


def shown_gaps(rows: Sequence[TrainingRow]) -> list[str]:
    """The gaps in the table: at K = 1, at the K trained for, at all samples, and of the ways."""
    ks = {
        1,
        *(row.key.method.k for row in rows),
        *(row.ks[-1] for row in rows if row.ks),
    }
    names = {f"gap@{k}" for k in ks}
    found = (value for row in rows for value in values(row) if value.group == "gap")
    # The name of one in a way of decoding has that way after a _.
    return list(dict.fromkeys(v.name for v in found if "_" in v.name or v.name in names))


def breaks(rows: Sequence[TrainingRow]) -> tuple[int, ...]:
    """A rule above each n and each K."""
    return breaks_between([(row.key.n, row.key.method.k) for row in rows])


def optimum_words(rows: Sequence[TrainingRow]) -> str:
    """The way in which the optima of these rows are known: exactly, or as the best known."""
    known = {
        row.measures.optimum for row in rows if row.measures and row.measures.optimum.kind != "none"
    }
    kinds = sorted({kind for optimum in known for kind in optimum.kind.split(", ")})
    how = " and ".join(_OPTIMA.get(kind, f"by {kind}") for kind in kinds)
    proven = all(optimum.exact for optimum in known)
    return f"optimum {how} ({'exact' if proven else 'best known, not proven optimal'})"


def _gap_words(rows: Sequence[TrainingRow]) -> tuple[str, ...]:
    return (
        "Optimality gap: (optimum − value) / |optimum| of each instance in %, then their mean; "
        f"{optimum_words(rows)}; lower is better.",
        *_decoding_words(rows),
    )


def _decoding_words(rows: Sequence[TrainingRow]) -> Iterator[str]:
    """The lines on the ways of decoding of these rows, and on what they cost."""
    ways = {way for row in rows if row.measures for way in row.measures.ways} - {SAMPLED}
    if any(way not in EXTRAS for way in ways):
        yield (
            "T = 1.5 and the like: the best of all samples at this temperature, which divides the "
            "log-probabilities of every decision; Max@K is then that of this other policy."
        )
    if any(way in EXTRAS for way in ways):
        yield _EXTRA_WORDS
    if any(row.measures and row.measures.trajectories.keys() - {SAMPLED} for row in rows):
        yield "In brackets: the trajectories that it costs on each instance."


def _robust_words(rows: Sequence[TrainingRow], level: float) -> tuple[str, ...]:
    of = next(row.robust.of for row in rows if row.robust is not None)
    subject = (
        "the optimality gap in % at all samples, lower is better"
        if of == "gap"
        else f"{of.capitalize()}"
    )
    if all(row.one_seed for row in rows):
        how = "over the held-out instances: winsorised, by order statistics, of a binomial share"
    else:
        how = "over the values of the seeds, as of the other tables"
    return (
        f"Of the instances of a seed, then the mean over seeds: {subject}.",
        f"Intervals of this table: {level:.0%}, {how}.",
    )


_BY_WAY_WORDS = (
    "The difference to the row that each is compared with, both decoded in the same way and so at "
    "the same cost; positive is better.",
)
_SUMMARY_WORDS = (
    "IQM, p50, p90, p99: interquartile mean and quantiles over the instances. P(better): the "
    "probability of a better value than the reference of the differences, on an instance of a "
    "seed, ties half; of several seeds with the interval of a share of so many, which a rare seed "
    "that differs does not leave.",
)
_EXTRA_WORDS = (
    "Greedy decoding, augmentation and forced starts are other ways of decoding, "
    "no estimates of Max@K."
)
_SAMPLE_WORDS = (
    "Quantiles of the rewards of an instance's i.i.d. samples, then their mean over instances."
)
