"""The facts of a gradient study: which baseline to use, which to avoid, bias, what is open."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal

from pydantic import BaseModel, Field

from maxk_lab.reports.model import Summary
from maxk_lab.reports.tables import Pooled, grouped
from maxk_lab.statistics.bias import Verdict
from maxk_lab.statistics.families import Comparison
from maxk_lab.studies.gradient.compare import Contest, contests, simplest
from maxk_lab.studies.gradient.pool import FOUND_BIASED, GradientKey, GradientRow, is_oracle

# Ratios of variances from which on a method is to be avoided, and up to which two are as good.
_FAR, _NEAR = 1.5, 1.05
# A design of so many times the instances is proposed at most.
_MOST_MORE = 16
# Enough effective instances to speak of new ones.
_ENOUGH = 16
# What stands for the gradient in a test of bias; else `reference:` and an estimator.
_AGAINST = {"exact": "the exact gradient", "complete": "the sum over every possible group"}
# The verdicts on bias in two words, the worst first.
_BIASED: dict[Verdict, str] = {"alarm": "ALARM", "biased": "direction", "scale bias": "length"}
_NOT_BIASED: dict[Verdict, str] = {
    "no bias seen": "not rejected",
    "reference": "reference",
    "unbiased": "none, proven",
    "undefined": "not tested",
}


class Count(BaseModel):
    """A name, and in how many settings or rows something holds of it."""

    name: str
    count: int
    of: int = 0


class Use(BaseModel):
    """The baseline of an estimator to use: that of the lowest variance, or the simplest that ties.

    `lowest` counts the settings in which it has the lowest variance or ties, of these `tied` those
    in which it ties, `significant` those in which it is significantly lower than all others,
    `fixed` those in which it is so on the instances measured. `ties` are the baselines that tie
    with it, `others` those to use elsewhere.
    """

    estimator: str
    name: str
    competing: int
    lowest: int
    tied: int
    significant: int
    fixed: int
    of: int
    ties: list[Count]
    others: list[Count]


class Biased(BaseModel):
    """A method that was found biased in some rows: in its direction, or in its length alone."""

    name: str
    rows: int
    of: int
    kind: Literal["direction", "too short", "too long", "length"]
    scales: tuple[float, float] | None
    derived: bool


class Bias(BaseModel):
    """The verdicts on rows that are unbiased by their formula, and the methods found biased.

    `detectable` are the smallest and the largest minimum detectable bias, relative to the gradient.
    """

    unbiased: int
    proven: int
    not_rejected: int
    detectable: tuple[float, float] | None
    not_tested: int
    reason: str
    alarms: list[str]
    biased: list[Biased]


class Next(BaseModel):
    """The number of instances that would settle what is open, and about how long that takes."""

    open: int
    effective: float
    of: int
    instances: int
    # Samples of the user's own come from no sweep that could be run again.
    of_a_sweep: bool
    seconds: float | None


class Line(BaseModel):
    """A method in the short table: in how many settings it is lowest, tied with it, or above.

    `times` is its variance relative to the lowest, `significant` counts the settings in which it is
    above, corrected. It competes in `of` settings, and has in `worse_than_none` of these
    significantly more variance than no baseline.
    """

    method: str = Field(title="method")
    lowest: int = Field(title="lowest")
    best: int = Field(title="★")
    tied: int = Field(title="tied")
    above: int = Field(title="above")
    significant: int = Field(title="above ★")
    times: float | None = Field(title="median")
    low: float | None = Field(title="smallest")
    high: float | None = Field(title="largest")
    possible: float | None = Field(title="over best possible")
    bias: str = Field(title="bias")
    of: int
    worse_than_none: int


class Facts(BaseModel):
    """The facts that a reader of a gradient study asks for."""

    no_signal: list[Count]
    contests: int
    waiting: int
    methods: list[str]
    unbiased_methods: int
    uses: list[Use]
    estimators: list[Count]
    avoid: list[Line]
    bias: Bias
    next: Next | None
    open: int
    seeds: list[int]
    instances: int
    pool: int
    forced: bool
    against: list[str]
    level: float
    alpha: float
    comparisons: int
    title: str
    table: list[Line]


def facts(pooled: Pooled[GradientRow], summary: Summary) -> Facts:
    """The facts of these rows."""
    rows, everything = pooled.rows, contests(pooled.rows)
    several = len({row.key.estimator for row in rows if row.key.method.takes_baseline}) > 1
    names = {row.key: _name(row, several=several) for row in rows}
    known = [row for row in rows if row.units is not None]
    found = [one for one in everything if one.least is not None]
    decided = [one for one in found if not one.one]
    of_family = grouped(pooled.comparisons, lambda line: line.family)
    lines = _table(known, found, names, of_family)
    silent = grouped((row for row in rows if row.no_signal), lambda row: row.no_signal)
    of_estimators = grouped(decided, lambda one: one.rows[0].key.estimator)
    uses = [_use(several) for several in of_estimators.values()]
    used = {name for use in uses for name in (use.name, f"{use.estimator} {use.name}")}
    return Facts(
        no_signal=[Count(name=reason, count=len(those)) for reason, those in silent.items()],
        contests=len(found),
        waiting=len(everything) - len(found),
        methods=list(dict.fromkeys(names.values())),
        unbiased_methods=len({names[row.key] for row in rows if row.catalogued_unbiased}),
        uses=uses,
        estimators=_estimators(rows, of_family.get("best estimator", [])),
        avoid=_avoid([line for line in lines if line.method not in used]),
        bias=_bias(known, names),
        next=_next(decided, summary),
        open=sum(not one.clear for one in decided),
        seeds=sorted({seed for row in rows for seed in row.cells}),
        instances=rows[0].instances,
        forced=any(row.key.forced for row in rows),
        pool=rows[0].pool,
        against=sorted({_AGAINST.get(row.against, row.against[10:]) for row in known}),
        level=summary.level,
        alpha=summary.alpha,
        comparisons=len(of_family.get("best", [])),
        title="Variance relative to the lowest over settings, and bias",
        table=lines,
    )


_Named = Mapping[GradientKey, str]


def _name(row: GradientRow, *, several: bool) -> str:
    """The name of a row's method: its baseline, and its estimator where there are several."""
    if not row.key.method.takes_baseline:
        return row.key.estimator
    return f"{row.key.estimator} " * several + _plain(row.key.baseline)


def _plain(baseline: str) -> str:
    return "no baseline" if baseline == "none" else baseline


def _use(found: Sequence[Contest]) -> Use:
    """The baseline that the rule of `recommend` names most often, in contests of one estimator."""
    chosen = Counter(simplest(one.tied).key.baseline for one in found)
    best = chosen.most_common(1)[0][0]
    lowest = [one for one in found if best in [row.key.baseline for row in one.tied]]
    ties = Counter(row.key.baseline for one in lowest for row in one.tied)
    del ties[best]
    return Use(
        estimator=found[0].rows[0].key.estimator,
        name=_plain(best),
        competing=len(dict.fromkeys(row.key.baseline for one in found for row in one.candidates)),
        lowest=len(lowest),
        tied=sum(one.least is not None and one.least.key.baseline != best for one in lowest),
        significant=sum(one.clear and best in one.top for one in found),
        fixed=sum(one.here and best in one.top for one in found),
        of=len(found),
        ties=[Count(name=_plain(name), count=count) for name, count in ties.most_common()],
        others=[
            Count(name=_plain(name), count=count)
            for name, count in chosen.most_common()
            if name != best
        ],
    )


def _estimators(rows: Sequence[GradientRow], lines: Sequence[Comparison]) -> list[Count]:
    """The estimators whose best method is significantly lower than those of all others."""
    by_path = {row.key.path: row.key.estimator for row in rows}
    groups = grouped(lines, lambda line: line.other).items()
    counts = Counter(
        by_path[lowest] for lowest, several in groups if all(x.verdict == "worse" for x in several)
    )
    return [Count(name=name, count=n, of=len(groups)) for name, n in counts.most_common()]


def _table(
    rows: Sequence[GradientRow],
    found: Sequence[Contest],
    names: _Named,
    of_family: Mapping[str, Sequence[Comparison]],
) -> list[Line]:
    """A line for each method: the unbiased ones by their median ratio, then the biased ones."""
    verdicts = {line.row: line.verdict for line in of_family.get("best", [])}
    harm = Counter(line.row for line in of_family.get("reference", []) if line.verdict == "worse")
    competing = {row.key.path for one in found if not one.one for row in one.rows}
    tied = {row.key for one in found for row in one.tied}
    lowest = {one.least.key: one.clear for one in found if one.least is not None}
    lines = []
    for method, members in grouped(rows, lambda row: names[row.key]).items():
        over = [row.over_least.mean for row in members if row.over_least is not None]
        ratios = [1.0 for row in members if row.key in lowest]
        ratios += [ratio.value for ratio in over if ratio.known and math.isfinite(ratio.value)]
        first, least = members[0], [row.key for row in members if row.key in lowest]
        rest = [row for row in members if row.key not in lowest]
        if is_oracle(first) or not first.catalogued_unbiased:
            ratios = []
        paths = [row.key.path for row in members if row.key.path in competing]
        possible = [row.over_best.value for row in members if row.over_best and row.over_best.known]
        compared = [row for row in rest if row.key.path in verdicts and row.key not in tied]
        lines.append(
            Line(
                method=f"{method} (oracle)" if is_oracle(first) else method,
                lowest=len(least),
                best=sum(lowest[key] for key in least),
                tied=sum(row.key in tied for row in rest),
                above=len(compared),
                significant=sum(verdicts.get(row.key.path) == "worse" for row in members),
                times=median(ratios) if ratios else None,
                low=min(ratios, default=None),
                high=max(ratios, default=None),
                possible=median(possible) if possible else None,
                bias=_verdict(members),
                of=len(paths),
                worse_than_none=sum(harm[path] for path in paths),
            )
        )
    return sorted(lines, key=lambda line: (line.times is None, line.times or 0.0))


def _found_biased(row: GradientRow) -> bool:
    return row.bias.verdict in FOUND_BIASED


def _verdict(rows: Sequence[GradientRow]) -> str:
    """The verdict on a method in two words, from the worst of its rows."""
    verdicts = Counter(row.bias.verdict for row in rows)
    found = [
        f"{word} in {verdicts[verdict]}" if verdicts[verdict] < len(rows) else word
        for verdict, word in _BIASED.items()
        if verdicts[verdict]
    ]
    if found:
        return ", ".join(found) + (f" of {len(rows)}" if found[0][-1].isdigit() else "")
    first = next(verdict for verdict in _NOT_BIASED if verdicts[verdict])
    count = f" in {verdicts[first]} of {len(rows)}" if verdicts[first] < len(rows) else ""
    return f"{_NOT_BIASED[first]}{count}"


def _avoid(lines: Sequence[Line]) -> list[Line]:
    """The two methods that are farthest above the lowest, and no baseline where it is far.

    None of them is the lowest itself in a quarter of its settings.
    """
    far = [line for line in lines if (line.times or 0.0) >= _FAR and 4 * line.lowest < line.of]
    worst = far[-2:]
    worst += [line for line in far if "no baseline" in line.method and line not in worst][:1]
    return worst[::-1]


def _bias(rows: Sequence[GradientRow], names: _Named) -> Bias:
    of = grouped((row for row in rows if row.catalogued_unbiased), lambda row: row.bias.verdict)
    powers = [row.bias.detectable for row in of.get("no bias seen", [])]
    powers = sorted(power for power in powers if not math.isnan(power))
    reasons = Counter(row.bias.reason for row in of.get("undefined", []))
    by_method = grouped(rows, lambda row: names[row.key])
    biased = {method for method, several in by_method.items() if any(map(_found_biased, several))}
    # By their estimator where all of its methods are biased.
    spared = {row.key.estimator for row in rows if names[row.key] not in biased}
    wholly = grouped(
        rows, lambda row: names[row.key] if row.key.estimator in spared else row.key.estimator
    )
    return Bias(
        unbiased=sum(map(len, of.values())),
        proven=len(of.get("unbiased", [])),
        not_rejected=len(of.get("no bias seen", [])),
        detectable=(powers[0], powers[-1]) if powers else None,
        not_tested=reasons.total(),
        reason=reasons.most_common(1)[0][0] if reasons else "",
        alarms=list(dict.fromkeys(names[row.key] for row in of.get("alarm", []))),
        biased=[
            _biased(method, several)
            for method, several in wholly.items()
            if any(map(_found_biased, several))
        ],
    )


def _biased(name: str, rows: Sequence[GradientRow]) -> Biased:
    found = [row for row in rows if _found_biased(row)]
    scales = [row.intervals["scale"].value for row in found if row.intervals["scale"].known]
    kind: Literal["direction", "too short", "too long", "length"] = "length"
    if 2 * sum(row.bias.verdict == "biased" for row in found) > len(found):
        kind = "direction"
    elif scales:
        kind = "too short" if max(scales) < 1 else "too long" if min(scales) > 1 else "length"
    return Biased(
        name=name,
        rows=len(found),
        of=len(rows),
        kind=kind,
        scales=(min(scales), max(scales)) if scales else None,
        derived=not any(row.catalogued_unbiased for row in found),
    )


def _next(found: Sequence[Contest], summary: Summary) -> Next | None:
    """The instances that would settle what is open, unless that takes far more than there are."""
    wanted = [(_more(one), one) for one in found if not one.clear]
    able = [(more, one) for more, one in wanted if 1 < more <= _MOST_MORE]
    if not able:
        return None
    more = max(more for more, _ in able)
    carrying = [min(one.least.carrying.values()) for _, one in able if one.least is not None]
    first = able[0][1].rows[0]
    return Next(
        open=len(able),
        effective=min(carrying),
        of=first.instances * len(first.cells),
        instances=first.instances * more,
        of_a_sweep=bool(summary.header.versions),
        seconds=more * summary.seconds_of("gradient") or None,
    )


def _more(one: Contest) -> int:
    """The times as many instances that would settle a contest; 1 where it is settled.

    That is a power of two: so many that enough are effective, and that the nearest rival, which is
    not as good up to a few per cent, is excluded at the corrected level.
    """
    assert one.least is not None
    factors = [1.0]
    for row in one.against:
        over = row.over_least
        if over is None or not over.mean.known:
            continue
        size = math.log(over.mean.value)
        if size <= math.log(_NEAR) or over.mean.low <= 0:
            continue
        half = size - math.log(over.mean.low)
        # The corrected level asks for about half as much again.
        factors.append((1.5 * half / size) ** 2)
        factors.append(_ENOUGH / max(1.0, min(one.least.carrying.values())))
    return 1 << max(0, math.ceil(math.log2(max(factors))))
