"""Verdicts on claims from intervals at a corrected level: supported, refuted or undecided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from maxk_lab.reports.document import UNDEFINED, number
from maxk_lab.reports.naming import spelled
from maxk_lab.reports.tables import Pooled, PooledRow
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import FIXED
from maxk_lab.sweep_file.claims import Claim, Where
from maxk_lab.sweep_file.studies import STUDIES

Verdict = Literal["supported", "refuted", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("supported", "refuted", "undecided")


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on a claim, or on one of its parts.

    `detail` is the evidence in words. It begins with the number of `interval`, which is None if
    the evidence has no number. `count` of `of` `parts`, such as ratios, have the verdict. The
    claim is not `judged` if a cell of it has no result.
    """

    verdict: Verdict
    detail: str
    interval: Interval | None = None
    count: int = 1
    of: int = 1
    parts: str = ""
    name: str = ""
    text: str = ""
    judged: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return the line of the table `claims`."""
        line = dict(vars(self))
        interval = line.pop("interval")
        has_ends = interval is not None and interval.defined
        ends = ("value", "low", "high", "level")
        return line | {end: getattr(interval, end) if has_ends else None for end in ends}


def side(
    interval: Interval, at_least: float | None, at_most: float | None, *, strict: bool = False
) -> Verdict:
    """Return supported if no end of the interval is beyond the bound, refuted if all of it is.

    With `strict` the bound itself must lie outside of the interval.
    """
    low, high, bound = interval.low, interval.high, at_least
    if bound is None:
        assert at_most is not None
        low, high, bound = -interval.high, -interval.low, -at_most
    if high < bound:
        return "refuted"
    return "supported" if low > bound or (low == bound and not strict) else "undecided"


def combined(
    verdicts: Sequence[ClaimVerdict], parts: str, alpha: float | None = None
) -> ClaimVerdict:
    """Return the verdict of several parts: one refuted part refutes; all supported parts support.

    `parts` is their name in the plural. With `alpha` the intervals hold together at that level
    (Bonferroni), and the detail says so.
    """
    order: tuple[Verdict, ...] = ("refuted", "undecided", "supported")
    every = [each.verdict for each in verdicts]
    verdict = next(verdict for verdict in order if verdict in every)
    example = verdicts[every.index(verdict)]
    if len(every) == 1:
        return replace(example, parts=parts)
    count, of = every.count(verdict), len(every)
    detail = f"{count} of {of} {parts}, e.g. {example.detail}"
    if alpha is not None:
        detail += f" ({100 * (1 - alpha / of):.4g} % interval, corrected for {of} {parts})"
    return ClaimVerdict(verdict, detail, example.interval, count, of, parts)


def shown(interval: Interval) -> str:
    """Return `12.3 [11.0, 13.9]`, with a reason if about fixed instances; `—` without interval.

    Ends that three digits do not distinguish have six.
    """
    close = interval.low < interval.high and number(interval.low) == number(interval.high)
    value, low, high = (
        f"{end:.6g}" if close else number(end)
        for end in (interval.value, interval.low, interval.high)
    )
    about = interval.question if interval.reason or interval.question == FIXED else ""
    notes = ": ".join(filter(None, (about, interval.reason)))
    if not interval.defined:
        return f"{UNDEFINED} ({notes})" if notes else UNDEFINED
    return f"{value} [{low}, {high}]" + (f" ({notes})" if notes else "")


def count_verdicts(claims: Sequence[ClaimVerdict]) -> str:
    """Return `5 of 6 supported, 1 undecided`."""
    verdicts = [claim.verdict for claim in claims]
    counts = [f"{verdicts.count(each)} {each}" for each in VERDICTS if each in verdicts]
    counts[0] = counts[0].replace(" ", f" of {len(claims)} ", 1)
    return ", ".join(counts)


def judge_claims(
    claims: Iterable[Claim], studies: Mapping[str, Pooled[PooledRow]], *, alpha: float = 0.05
) -> list[ClaimVerdict]:
    """Return the verdict on each claim, in order, at level `alpha` (Bonferroni over its intervals).

    A claim without rows, or with an unfinished row, is undecided with this reason. The claim's kind
    of study judges all other claims.
    """
    return [_judged(claim, studies[claim.study].rows, alpha) for claim in claims]


def _judged(claim: Claim, rows: Sequence[PooledRow], alpha: float) -> ClaimVerdict:
    kind = STUDIES.get(claim.study)
    points = [
        {axis: getattr(row.key, axis) for axis in kind.axes}
        | {"setting": dict(getattr(row.key, "setting", ())), "row": row}
        for row in rows
    ]
    matching = [tuple(point["row"] for point in several) for several in claim.points(points)]
    members = [row for several in matching for row in several]
    partial = [row for row in members if not row.all_finished]
    if not members:
        verdict = ClaimVerdict("undecided", "no row of this run matches")
    elif partial:
        example = f"{partial[0].key.path}: {partial[0].unfinished.removeprefix('incomplete: ')}"
        words = f"{len(partial)} of {len(members)} rows incomplete, e.g. {example}"
        verdict = ClaimVerdict("undecided", words)
    else:
        verdict = kind.load_module("table").judge(claim, matching, alpha)
    return replace(verdict, name=claim.name, text=_words(claim), judged=not partial)


def _place(where: Where) -> str:
    parts: list[str] = [
        f"{axis} = {', '.join(map(spelled, values))}" for axis, values in where.values().items()
    ]
    return f" where {'; '.join(parts)}" if parts else ""


def _words(claim: Claim) -> str:
    place, measure = _place(claim.where), claim.measure
    if claim.kind == "unbiased":
        return f"unbiased{place} (the test would detect a relative bias of {claim.detectable:g})"
    if claim.kind == "biased":
        return f"biased in {'direction' if claim.bias == 'direction' else 'scale only'}{place}"
    if claim.kind == "equals":
        relative = claim.relative_tolerance
        slack = f"{claim.tolerance:g}" if relative is None else f"{100 * relative:g} %"
        return f"{measure} = {claim.value} ± {slack}{place}"
    if claim.kind == "order":
        return f"{measure} increases along {' < '.join(map(_values, claim.along or ()))}{place}"
    least = claim.at_least is not None
    bound = f"at least {claim.at_least:g}" if least else f"at most {claim.at_most:g}"
    sides = [where for where in (claim.of, claim.over) if where is not None]
    if claim.kind == "difference":
        # K = 8 minus K = 1 is clearer than 8 minus 1.
        first, second = (_place(where).removeprefix(" where ") for where in sides)
        decoded = ", each at its own best temperature," if claim.decoding == "best" else ","
        if claim.decoder is not None:
            measure = f"reward of {claim.decoder}"
        return f"final {measure} of {first}, minus that of {second}{decoded} is {bound}{place}"
    first, second = map(_values, sides)
    about = f", about {claim.about}" if claim.about else ""
    return f"{measure} of {first} over {second} is {bound}{place}{about}"


def _values(where: Where) -> str:
    return ", ".join(spelled(value) for values in where.values().values() for value in values)
