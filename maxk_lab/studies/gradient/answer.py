"""The facts of a gradient study: the baseline to use, baselines to avoid, bias, open questions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import median_low
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from maxk_lab.reports.naming import BIASED, NOT_PROVED, UNBIASED
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled, grouped
from maxk_lab.statistics.families import Comparison
from maxk_lab.statistics.intervals import Interval, exactly
from maxk_lab.studies.gradient.contests import Contest, contests, simplest
from maxk_lab.studies.gradient.row import FOUND_BIASED, GradientKey, GradientRow, is_oracle

# Methods are to be avoided from this ratio of variances on; below the other ratio they tie.
_FAR, _NEAR = 1.5, 1.05
# The most proposed instances, as a multiple of the present instances.
_MOST_MORE = 16
# The least effective instances for an interval about new instances.
_ENOUGH = 16
# The exact reference in a test of bias; otherwise it is `reference:` and an estimator.
_AGAINST = {"exact": "the exact gradient", "complete": "the sum over every possible group"}


class Facts(BaseModel):
    """A model of facts, which may hold intervals."""

    model_config = ConfigDict(arbitrary_types_allowed=True)


class Count(Facts):
    """A name, and the number of settings or rows in which it holds."""

    name: str
    count: int
    of: int = 0


class Use(Facts):
    """The recommended baseline of an estimator: the simplest whose interval includes the lowest.

    It has the lowest variance, or its interval includes the lowest, in `lowest` of `of` settings;
    it does not have the lowest in `only_close` of these, and is significantly lowest in
    `significant`. `fixed` counts the settings in which that holds on the fixed instances only.
    `close` are the baselines close to the lowest there; `alternatives` are for other settings.
    """

    estimator: str
    name: str
    competing: int
    lowest: int
    only_close: int
    significant: int
    fixed: int
    of: int
    close: list[Count]
    alternatives: list[Count]


class Biased(Facts):
    """A method that was found biased in some rows: in its direction, or in its length alone."""

    name: str
    rows: int
    of: int
    kind: Literal["direction", "too short", "too long", "length"]
    scales: tuple[float, float] | None
    formula: str


class Bias(Facts):
    """The verdicts on rows that are unbiased by their formula, and the methods found biased.

    `detectable` are the smallest and the largest minimum detectable bias, relative to the gradient.
    """

    unbiased: int
    proved: int
    not_rejected: int
    detectable: tuple[float, float] | None
    not_tested: int
    reason: str
    alarms: list[Count]
    biased: list[Biased]


class Next(Facts):
    """The instances that would decide `open` settings, and the time for them.

    `of_a_sweep` is False for samples of the user, which a sweep cannot measure again.
    """

    open: int
    instances: int
    of_a_sweep: bool
    seconds: float | None


class Line(Facts):
    """A method in the short table.

    It competes in `of` settings: significantly lowest, tied or significantly worse. `least` counts
    the settings in which its variance is the smallest, significant or not. `ratio` is its variance
    over the lowest in the median setting, `largest` the largest ratio. In `worse_than_none`
    settings it has significantly more variance than no baseline. A `custom` method is a user's
    function.
    """

    method: str = Field(title="method")
    lowest: int = Field(title="lowest")
    tied: int = Field(title="tied")
    worse: int = Field(title="worse")
    ratio: Interval | None = Field(title="ratio")
    largest: float | None = Field(title="largest ratio")
    optimum: float | None = Field(title="over optimum")
    bias: str = Field(title="bias")
    state: str
    custom: bool
    settings: int
    of: int
    worse_than_none: int
    least: int


class GradientFacts(Facts):
    """The facts of a gradient study for its reader."""

    no_signal: list[Count]
    contests: int
    waiting: int
    methods: list[str]
    unbiased_methods: int
    uses: list[Use]
    estimators: list[Count]
    next_best: Line | None
    custom: list[Line]
    avoid: list[Line]
    bias: Bias
    next: Next | None
    open: int
    settled: int
    seeds: list[int]
    instances: int
    pool: int
    complete: bool
    forced: bool
    against: list[str]
    level: float
    alpha: float
    comparisons: int
    dagger: bool
    title: str
    table: list[Line]


def facts(pooled: Pooled[GradientRow], origin: Origin) -> GradientFacts:
    """Return the facts of these rows."""
    rows, everything = pooled.rows, contests(pooled.rows)
    several = len({row.key.estimator for row in rows if row.key.method.takes_baseline}) > 1
    names = {row.key: _name(row, several=several) for row in rows}
    measured = [row for row in rows if row.units is not None]
    judged = [contest for contest in everything if contest.least is not None]
    decided = [contest for contest in judged if not contest.all_equal]
    families = grouped(pooled.comparisons, lambda line: line.family)
    lines = _table(measured, judged, names, families)
    silent = grouped((row for row in rows if row.no_signal), lambda row: row.no_signal)
    by_estimator = grouped(decided, lambda contest: contest.rows[0].key.estimator)
    uses = [_use(several) for several in by_estimator.values()]
    used = {name for use in uses for name in (use.name, f"{use.estimator} {use.name}")}
    rest = [line for line in lines if line.method not in used and line.state == UNBIASED]
    undecided = [contest for contest in decided if not contest.decided]
    return GradientFacts(
        no_signal=[Count(name=reason, count=len(group)) for reason, group in silent.items()],
        contests=len(judged),
        waiting=len(everything) - len(judged),
        methods=list(dict.fromkeys(names.values())),
        unbiased_methods=len({names[row.key] for row in rows if row.catalogued_unbiased}),
        uses=uses,
        estimators=_estimators(rows, families.get("best estimator", [])),
        next_best=next((line for line in rest if line.ratio and line.ratio.defined), None),
        custom=[line for line in lines if line.custom and line.ratio],
        avoid=_avoid(rest),
        bias=_bias(measured, names),
        next=_next(undecided, origin),
        open=len(undecided),
        settled=len(decided) - len(undecided),
        seeds=sorted({seed for row in rows for seed in row.cells}),
        instances=rows[0].instances,
        forced=any(row.key.forced for row in rows),
        pool=rows[0].pool,
        complete={row.against for row in measured} == {"complete"},
        against=sorted({_AGAINST.get(row.against, row.against[10:]) for row in measured}),
        level=origin.level,
        alpha=origin.alpha,
        comparisons=max((line.comparisons for line in families.get("best", [])), default=0),
        dagger=any(line.ratio and line.ratio.fallen_back for line in lines),
        title=f"Variance relative to the lowest, {_settings(len(decided) or len(judged))}",
        table=lines,
    )


_Named = Mapping[GradientKey, str]


def _settings(count: int) -> str:
    return "and bias" if count < 2 else f"median of {count} settings, and bias"


def _name(row: GradientRow, *, several: bool) -> str:
    """Return the name of a row's method: its baseline, with its estimator if there are several."""
    if not row.key.method.takes_baseline:
        return row.key.estimator
    return f"{row.key.estimator} " * several + _in_words(row.key.baseline)


def _in_words(baseline: str) -> str:
    return "none (no baseline)" if baseline == "none" else baseline


def _use(group: Sequence[Contest]) -> Use:
    """The baseline that the rule of `recommend` names most often, in contests of one estimator."""
    chosen = Counter(simplest(contest.close).key.baseline for contest in group)
    best = chosen.most_common(1)[0][0]
    lowest = [contest for contest in group if best in [row.key.baseline for row in contest.close]]
    close = Counter(row.key.baseline for contest in lowest for row in contest.close)
    del close[best]
    rest = Counter(
        simplest(contest.close).key.baseline for contest in group if contest not in lowest
    )
    candidates = {row.key.baseline for contest in group for row in contest.candidates}
    return Use(
        estimator=group[0].rows[0].key.estimator,
        name=_in_words(best),
        competing=len(candidates),
        lowest=len(lowest),
        only_close=sum(c.least is not None and c.least.key.baseline != best for c in lowest),
        significant=sum(contest.decided and best in contest.lowest for contest in group),
        fixed=sum(contest.fixed_only and best in contest.lowest for contest in group),
        of=len(group),
        close=[Count(name=_in_words(name), count=count) for name, count in close.most_common()],
        alternatives=[
            Count(name=_in_words(name), count=count) for name, count in rest.most_common()
        ],
    )


def _estimators(rows: Sequence[GradientRow], lines: Sequence[Comparison]) -> list[Count]:
    """Return the estimators whose best method is significantly lower than those of all others."""
    by_path = {row.key.path: row.key.estimator for row in rows}
    groups = grouped(lines, lambda line: line.partner).items()
    counts = Counter(
        by_path[lowest] for lowest, several in groups if all(x.verdict == "worse" for x in several)
    )
    return [Count(name=name, count=n, of=len(groups)) for name, n in counts.most_common()]


def _table(
    rows: Sequence[GradientRow],
    judged: Sequence[Contest],
    names: _Named,
    families: Mapping[str, Sequence[Comparison]],
) -> list[Line]:
    """Return a line for each method: methods with a ratio by median, then biased methods."""
    verdicts = {line.row: line.verdict for line in families.get("best", [])}
    harm = Counter(line.row for line in families.get("reference", []) if line.verdict == "worse")
    competing = {
        row.key.path for contest in judged if not contest.all_equal for row in contest.rows
    }
    least = {contest.least.key for contest in judged if contest.least is not None}
    reference = {row.over_least.line.partner for row in rows if row.over_least is not None}
    lines = []
    for method, members in grouped(rows, lambda row: names[row.key]).items():
        state, oracle = _state(members), is_oracle(members[0])
        ratios = [_ratio(row, reference) for row in members]
        measured = [ratio for ratio in ratios if ratio is not None and math.isfinite(ratio.value)]
        custom = not members[0].key.method.is_derived
        if oracle or (state == BIASED and not custom):
            measured = []
        middle = median_low([ratio.value for ratio in measured]) if measured else math.nan
        paths = [row.key.path for row in members if row.key.path in competing]
        optimal = [
            row.over_best.value for row in members if row.over_best and row.over_best.defined
        ]
        counts = Counter(verdicts.get(row.key.path) for row in members)
        lines.append(
            Line(
                method=f"{method} (oracle)" if oracle else method,
                lowest=counts["lowest"],
                tied=counts["tied"],
                worse=counts["worse"],
                ratio=next((ratio for ratio in measured if ratio.value == middle), None),
                largest=max((r.value for r in measured), default=None)
                if len(measured) > 1
                else None,
                optimum=median_low(optimal) if optimal else None,
                bias=_bias_words(members, state),
                state="oracle" if oracle else state,
                custom=custom,
                settings=len(measured),
                of=len(paths),
                worse_than_none=sum(harm[path] for path in paths),
                least=sum(row.key in least for row in members),
            )
        )
    size = {line.method: line.ratio.value if line.ratio else math.inf for line in lines}
    return sorted(lines, key=lambda line: (line.state == BIASED, size[line.method]))


def _ratio(row: GradientRow, reference: Collection[str]) -> Interval | None:
    """Return the variance over the lowest; None if it was not compared."""
    if row.over_least is not None:
        return row.over_least.mean
    return exactly(1.0) if row.key.path in reference else None


def _found_biased(row: GradientRow) -> bool:
    return row.bias.verdict in FOUND_BIASED


def _state(rows: Sequence[GradientRow]) -> str:
    """Return "biased" if any row is biased, else "not proved" if any row is not proved."""
    states = {row.bias_state for row in rows}
    return next(state for state in (BIASED, NOT_PROVED, UNBIASED) if state in states)


def _bias_words(rows: Sequence[GradientRow], state: str) -> str:
    """Return the state of a method, with an alarm or the biased quantity."""
    verdicts = Counter(row.bias.verdict for row in rows)
    if verdicts["alarm"]:
        return f"ALARM in {verdicts['alarm']} of {len(rows)}"
    if state != BIASED:
        return state
    kinds = {"direction": verdicts["biased"], "scale": verdicts["scale bias"]}
    seen = [
        kind if count == len(rows) else f"{kind} in {count} of {len(rows)}"
        for kind, count in kinds.items()
        if count
    ]
    return f"biased ({', '.join(seen) or 'by formula'})"


def _avoid(lines: Sequence[Line]) -> list[Line]:
    """Return the two methods farthest above the lowest, and no baseline if it is far above.

    A method that is lowest in a quarter of its settings is never listed.
    """
    distant = [
        line
        for line in lines
        if line.ratio and line.ratio.value >= _FAR and 4 * line.least < line.of
    ]
    worst = distant[-2:]
    worst += [line for line in distant if "no baseline" in line.method and line not in worst][:1]
    return worst[::-1]


def _bias(rows: Sequence[GradientRow], names: _Named) -> Bias:
    by_verdict = grouped(
        (row for row in rows if row.catalogued_unbiased), lambda row: row.bias.verdict
    )
    powers = [row.bias.detectable for row in by_verdict.get("no bias seen", [])]
    powers = sorted(power for power in powers if not math.isnan(power))
    reasons = Counter(row.bias.reason for row in by_verdict.get("undefined", []))
    alarms = Counter(names[row.key] for row in by_verdict.get("alarm", []))
    by_method = grouped(rows, lambda row: names[row.key])
    biased = {method for method, several in by_method.items() if any(map(_found_biased, several))}
    # Name the estimator if all of its methods are biased.
    spared = {row.key.estimator for row in rows if names[row.key] not in biased}
    wholly = grouped(
        rows, lambda row: names[row.key] if row.key.estimator in spared else row.key.estimator
    )
    return Bias(
        unbiased=sum(map(len, by_verdict.values())),
        proved=len(by_verdict.get("unbiased", [])),
        not_rejected=len(by_verdict.get("no bias seen", [])),
        detectable=(powers[0], powers[-1]) if powers else None,
        not_tested=reasons.total(),
        reason=reasons.most_common(1)[0][0] if reasons else "",
        alarms=[Count(name=name, count=count) for name, count in alarms.items()],
        biased=[
            _biased(method, several)
            for method, several in wholly.items()
            if any(map(_found_biased, several))
        ],
    )


def _biased(name: str, rows: Sequence[GradientRow]) -> Biased:
    biased = [row for row in rows if _found_biased(row)]
    scales = [row.intervals["scale"].value for row in biased if row.intervals["scale"].defined]
    kind: Literal["direction", "too short", "too long", "length"] = "length"
    if 2 * sum(row.bias.verdict == "biased" for row in biased) > len(biased):
        kind = "direction"
    elif scales:
        kind = "too short" if max(scales) < 1 else "too long" if min(scales) > 1 else "length"
    proved = any(row.catalogued_unbiased for row in biased)
    formula = biased[0].key.bias_state
    if formula == UNBIASED and not proved:  # under a behaviour policy
        formula = ""
    return Biased(
        name=name,
        rows=len(biased),
        of=len(rows),
        kind=kind,
        scales=(min(scales), max(scales)) if scales else None,
        formula=UNBIASED if proved else formula,
    )


def _next(undecided: Sequence[Contest], origin: Origin) -> Next | None:
    """Return the instances that would decide open contests, unless they are far too many."""
    factors = [_more(contest) for contest in undecided]
    able = [factor for factor in factors if 1 < factor <= _MOST_MORE]
    if not able:
        return None
    more = max(able)
    return Next(
        open=len(able),
        instances=undecided[0].rows[0].instances * more,
        of_a_sweep=bool(origin.versions),
        seconds=more * origin.seconds.get("gradient", 0.0) or None,
    )


def _more(contest: Contest) -> int:
    """Return the factor of instances that would decide a contest, a power of two; 1 if none would.

    With this factor enough instances are effective, and the nearest rival is excluded at the
    corrected level, unless it is equal up to a few per cent.
    """
    assert contest.least is not None
    factors = [1.0]
    for row in contest.undecided:
        over = row.over_least
        if over is None or not over.mean.defined:
            continue
        size = math.log(over.mean.value)
        if size <= math.log(_NEAR) or over.mean.low <= 0:
            continue
        half = size - math.log(over.mean.low)
        # The corrected level needs about half as much again.
        factors.append((1.5 * half / size) ** 2)
        factors.append(_ENOUGH / max(1.0, min(contest.least.carrying.values())))
    return 1 << max(0, math.ceil(math.log2(max(factors))))
