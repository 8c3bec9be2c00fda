"""Verdicts on claims: supported or refuted where intervals at a corrected level say so."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from maxk_lab.reports.document import exact, number
from maxk_lab.reports.model import ClaimVerdict, Verdict
from maxk_lab.reports.naming import spelled
from maxk_lab.reports.tables import ExactRow, Pooled, PooledRow
from maxk_lab.statistics.intervals import Interval, exactly
from maxk_lab.statistics.measures import FIXED
from maxk_lab.sweep_file.claims import Claim, Where, evaluate_value
from maxk_lab.sweep_file.studies import STUDIES, StudyRow


@dataclass(frozen=True)
class Judged:
    """A verdict, its words, and the number they begin with; `count` of so many parts have it."""

    verdict: Verdict
    text: str
    interval: Interval | None = None
    count: int = 1
    of: int = 1
    parts: str = ""


VERDICTS: tuple[Verdict, ...] = ("supported", "refuted", "undecided")


def side(
    found: Interval, at_least: float | None, at_most: float | None, *, strict: bool = False
) -> Verdict:
    """Supported where no end of the interval is beyond the bound, refuted where all of it is.

    Where `strict`, supported only where the interval excludes the bound itself.
    """
    low, high, bound = found.low, found.high, at_least
    if bound is None:
        assert at_most is not None
        low, high, bound = -found.high, -found.low, -at_most
    if high < bound:
        return "refuted"
    return "supported" if low > bound or (low == bound and not strict) else "undecided"


def together(verdicts: Sequence[Judged], parts: str, alpha: float | None = None) -> Judged:
    """One refutation refutes; else every part must support. `parts` is their name, plural.

    With `alpha` they are judged by intervals that hold together at that level (Bonferroni), which
    is told: those of the tables are narrower.
    """
    counts = [one.verdict for one in verdicts]
    order: tuple[Verdict, ...] = ("refuted", "undecided", "supported")
    overall = next(verdict for verdict in order if verdict in counts)
    example = verdicts[counts.index(overall)]
    if len(counts) == 1:
        return replace(example, parts=parts)
    count, of = counts.count(overall), len(counts)
    text = f"{overall} in {count} of {of} {parts}, e.g. {example.text}"
    if alpha is not None:
        text += (
            f" ({100 * (1 - alpha / of):.4g} % intervals, corrected for {of} "
            f"{parts}; those of the tables are {100 * (1 - alpha):.4g} %, each alone)"
        )
    return Judged(overall, text, example.interval, count, of, parts)


def judge_exact(claim: Claim, met: Sequence[tuple[ExactRow]], alpha: float) -> Judged:
    """Supported where the number is within the tolerance in every row and seed, else refuted."""
    verdicts: list[Judged] = []
    for (row,) in met:
        wanted = evaluate_value(claim.value, row.key.n, row.key.k, row.key.setting)
        slack = claim.slack(wanted)
        for seed, content in row.by_seed.items():
            found = float(getattr(content, claim.measure, math.nan))
            text = (
                f"{row.key.path} seed {seed}: {exact(found)}, claimed {exact(wanted)} ± {slack:.3g}"
            )
            if math.isnan(found):
                verdicts.append(Judged("undecided", f"{text} (not measured)"))
                continue
            verdict: Verdict = "supported" if abs(found - wanted) <= slack else "refuted"
            verdicts.append(Judged(verdict, text, exactly(found)))
    return together(verdicts, "exact numbers")


def shown(found: Interval) -> str:
    """`12.3 [11.0, 13.9]`, with what it is about and its reason, where it has them.

    Ends that three digits do not tell apart have six.
    """
    close = found.low < found.high and number(found.low) == number(found.high)
    value, low, high = (
        f"{one:.6g}" if close else number(one) for one in (found.value, found.low, found.high)
    )
    about = found.question if found.reason or found.question == FIXED else ""
    notes = ": ".join(filter(None, (about, found.reason)))
    return f"{value} [{low}, {high}]" + (f" ({notes})" if notes else "")


def verdict_lines(claims: Sequence[ClaimVerdict]) -> list[str]:
    """How many of the claims have which verdict, in a sentence; none without claims."""
    counts = Counter(claim.verdict for claim in claims)
    told = [
        f"{counts[one]} {'is' if counts[one] == 1 else 'are'} {one}"
        for one in VERDICTS
        if counts[one]
    ]
    if len(told) > 1:
        return [f"Of the {len(claims)} claims of the sweep {', '.join(told[:-1])} and {told[-1]}."]
    every = {1: "The claim of the sweep is", 2: "Both claims of the sweep are"}
    return [
        f"{every.get(len(claims), f'All {len(claims)} claims of the sweep are')} {one}."
        for one in counts
    ]


def judge_claims(
    claims: Iterable[Claim], studies: Mapping[str, Pooled[PooledRow]], *, alpha: float = 0.05
) -> list[ClaimVerdict]:
    """One verdict per claim, in order, each at level `alpha` (Bonferroni over its intervals).

    A claim that meets no row, or one without all of its seeds, is undecided with that reason; the
    kind of study that the claim speaks of judges any other.
    """
    return [_judged(claim, STUDIES.get(claim.study), studies, alpha) for claim in claims]


def _judged(
    claim: Claim, kind: StudyRow, studies: Mapping[str, Pooled[PooledRow]], alpha: float
) -> ClaimVerdict:
    points = [
        {
            **{axis: getattr(row.key, axis) for axis in kind.axes},
            "setting": dict(getattr(row.key, "setting", ())),
            "row": row,
        }
        for row in studies[kind.name].rows
    ]
    met = [tuple(point["row"] for point in found) for found in claim.points(points)]
    rows = [row for found in met for row in found]
    reason = _why_undecided(rows)
    judged = Judged("undecided", reason)
    if not reason:
        judged = kind.part("compare").judge(claim, met, alpha)
    complete = all(row.all_finished for row in rows)
    found = judged.interval
    return ClaimVerdict(
        claim.name,
        _words(claim),
        judged.verdict,
        judged.text,
        judged=complete,
        **({} if found is None else found.columns("value") | {"level": found.level}),
        count=judged.count,
        of=judged.of,
        parts=judged.parts,
    )


def _why_undecided(met: Sequence[PooledRow]) -> str:
    if not met:
        return "no row of this run matches"
    partial = [row for row in met if not row.all_finished]
    if not partial:
        return ""
    row = partial[0]
    return (
        f"{len(partial)} of {len(met)} rows incomplete, e.g. {row.key.path}: "
        f"{len(row.finished)} of {len(row.cells)} seeds finished"
    )


def _place(where: Where) -> str:
    parts: list[str] = [
        f"{axis} = {', '.join(map(spelled, values))}" for axis, values in where.values().items()
    ]
    return f" where {'; '.join(parts)}" if parts else ""


def _words(claim: Claim) -> str:
    place, metric = _place(claim.where), claim.measure
    if claim.kind == "unbiased":
        return f"unbiased{place} (a relative bias of {claim.detectable:g} would be seen)"
    if claim.kind == "biased":
        bias = "biased in direction" if claim.bias == "direction" else "biased in scale only"
        return f"{bias}{place}"
    if claim.kind == "equals":
        relative = claim.relative_tolerance
        slack = f"{claim.tolerance:g}" if relative is None else f"{100 * relative:g} %"
        return f"{metric} = {claim.value} ± {slack}{place}"
    if claim.kind == "order":
        return f"{metric} increases along {' < '.join(map(_values, claim.along or ()))}{place}"
    least = claim.at_least is not None
    side = f"at least {claim.at_least:g}" if least else f"at most {claim.at_most:g}"
    sides = [where for where in (claim.of, claim.over) if where is not None]
    if claim.kind == "difference":
        # With its axes named: K = 8 minus K = 1 says more than 8 minus 1.
        of, over = (_place(where).removeprefix(" where ") for where in sides)
        decoded = ", each at its own best temperature," if claim.decoding == "best" else ","
        if claim.way is not None:
            metric = f"reward of {claim.way}"
        return f"final {metric} of {of}, minus that of {over}{decoded} is {side}{place}"
    of, over = map(_values, sides)
    about = f", about {claim.about}" if claim.about else ""
    return f"{metric} of {of} over {over} is {side}{place}{about}"


def _values(where: Where) -> str:
    return ", ".join(spelled(value) for values in where.values().values() for value in values)
