"""The vocabulary of verdicts on claims: a side of a bound, parts put together, an interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from maxk_lab.report.document import number
from maxk_lab.report.model import ClaimVerdict, Verdict
from maxk_lab.statistics.errors import THESE
from maxk_lab.statistics.intervals import Interval

Judged = tuple[Verdict, str]
VERDICTS: tuple[Verdict, ...] = ("supported", "refuted", "undecided")


def side(found: Interval, at_least: float | None, at_most: float | None) -> Verdict:
    """Supported where no end of the interval is beyond the bound, refuted where all of it is."""
    if at_least is not None:
        return _verdict(found.low >= at_least, found.high < at_least)
    assert at_most is not None
    return _verdict(found.high <= at_most, found.low > at_most)


def strict_side(found: Interval, at_least: float | None, at_most: float | None) -> Verdict:
    """The same, supported only where the interval excludes the bound itself."""
    if at_least is not None:
        return _verdict(found.low > at_least, found.high < at_least)
    assert at_most is not None
    return _verdict(found.high < at_most, found.low > at_most)


def _verdict(supported: bool, refuted: bool) -> Verdict:
    return "supported" if supported else "refuted" if refuted else "undecided"


def together(verdicts: Sequence[Judged], parts: str, alpha: float | None = None) -> Judged:
    """One refutation refutes; else every part must support. `parts` is their name, plural.

    With `alpha` they are judged by intervals that hold together at that level (Bonferroni), which
    is told: those of the tables are narrower.
    """
    counts = [verdict for verdict, _ in verdicts]
    order: tuple[Verdict, ...] = ("refuted", "undecided", "supported")
    overall = next(verdict for verdict in order if verdict in counts)
    example = verdicts[counts.index(overall)][1]
    if len(counts) == 1:
        return overall, example
    told = f"{overall} in {counts.count(overall)} of {len(counts)} {parts}, e.g. {example}"
    if alpha is not None:
        told += (
            f" ({100 * (1 - alpha / len(counts)):.4g} % intervals, corrected for {len(counts)} "
            f"{parts}; those of the tables are {100 * (1 - alpha):.4g} %, each alone)"
        )
    return overall, told


def shown(found: Interval) -> str:
    """`12.3 [11.0, 13.9]`, with what it is about and its reason, where it has them.

    Ends that three digits do not tell apart have six.
    """
    close = found.low != found.high and number(found.low) == number(found.high)
    value, low, high = (
        f"{one:.6g}" if close else number(one) for one in (found.value, found.low, found.high)
    )
    about = found.question if found.reason or found.question == THESE else ""
    notes = ": ".join(filter(None, (about, found.reason)))
    return f"{value} [{low}, {high}]" + (f" ({notes})" if notes else "")


def verdict_lines(claims: Sequence[ClaimVerdict]) -> list[str]:
    """How many of the claims have which verdict, in a sentence; none without claims."""
    if not claims:
        return []
    counts = Counter(claim.verdict for claim in claims)
    several = len(claims) > 1
    of = f"Of the {len(claims)} claims of the sweep" if several else "The claim of the sweep"
    told = [
        f"{counts[one]} {'is' if counts[one] == 1 else 'are'} {one}"
        for one in VERDICTS
        if counts[one]
    ]
    if len(told) == 1:
        every = "Both claims" if len(claims) == 2 else f"All {len(claims)} claims"
        only = next(iter(counts))
        return [f"{every} of the sweep are {only}." if several else f"{of} is {only}."]
    return [f"{of} {', '.join(told[:-1])} and {told[-1]}."]
