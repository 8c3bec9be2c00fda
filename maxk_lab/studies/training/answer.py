"""The facts of a training study: the method to train with, its cost, and open questions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from maxk_lab.reports.naming import short_names, spelled
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.differences import (
    Lines,
    difference,
    has_value,
    reference_lines,
    same_method,
    shown_ks,
    sign,
    signs_of_curve,
    with_differences_to,
)
from maxk_lab.studies.training.pool import POMO_WAY
from maxk_lab.studies.training.row import OWN_TEMPERATURE, SAMPLED, TrainingRow, biasing
from maxk_lab.studies.training.table import Place, places_of

# A difference that is not significant after correction counts as large if it exceeds the half width
# of its interval by this factor.
_FAR = 2.0
# The most proposed seeds: this multiple of the present seeds, and this total.
_MOST_MORE, _MOST_SEEDS = 4, 20
_OPTIMA = {
    "enumeration": "enumeration",
    "milp": "mixed-integer programs",
}


class Difference(BaseModel):
    """The difference of a method to the method `than`; `sign` is 0 if it is not significant.

    The correction covers `comparisons`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str
    than: str
    interval: Interval
    sign: int = 0
    comparisons: int = 1


class Curve(BaseModel):
    """The K at which the recommended method is above its reference, below it, or neither."""

    above: list[int]
    below: list[int]
    open: list[int]


class Answer(BaseModel):
    """The answer for one environment and policy.

    `gaps` are the gaps to the optimum of the recommended method and of the reference; `tuned_gaps`
    are the gaps at the best temperature of each.

    At all samples (`top`): methods significantly `better` or `worse` than their own reference, best
    first; methods far `below` it that are not significant after correction; the `highest` methods
    and methods `tied` with them. `usual` is the highest reference, because each setting and n may
    have its own. For the recommended method, unless it is a reference: its difference in the mean
    (`cost`), at its best temperature (`tuned`) and with POMO's decoding, its gap to the optimum
    beside the reference's gap, and its `curve` over K. `apart` names rows with an outlying seed.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    where: str
    state: Literal["nothing", "alone", "equal", "unpaired", "compared"]
    objective: str = "Max"
    top: int = 0
    reference: str = ""
    value: float = math.nan
    highest: list[str] = []
    usual: str = ""
    usual_is_highest: bool = False
    compared: int = 0
    use: Difference | None = None
    better: list[Difference] = []
    worse: list[Difference] = []
    below: list[Difference] = []
    tied: list[str] = []
    cost: Difference | None = None
    curve: Curve | None = None
    tuned: Difference | None = None
    pomo: list[Difference] = []
    gaps: tuple[Interval, Interval] | None = None
    tuned_gaps: tuple[Interval, Interval] | None = None
    apart: list[str] = []


class Next(BaseModel):
    """The seeds that would make the lead of the highest method significant, and their cost."""

    seeds: list[int]
    seconds: float | None


class Count(BaseModel):
    """A name, and how often it is the answer."""

    name: str
    count: int


class Basis(BaseModel):
    """The design of the study: seeds, steps, rollouts, held-out instances and their samples."""

    seeds: list[int]
    steps: list[int]
    rollouts: list[int]
    instances: list[int]
    samples: int
    averaged: list[int]
    ks: list[int]
    comparisons: int
    alpha: float
    level: float
    costs: bool
    multistart: bool
    bent: list[str]
    sometimes_bent: list[str]
    optimum: list[str]
    proven: bool
    matched: list[str]
    first: str
    apart: bool


class Facts(BaseModel):
    """The answers of all places, and methods to avoid in all of them."""

    answers: list[Answer]
    avoid: list[Count]
    next: Next | None
    basis: Basis
    title: str
    table: list[BaseModel]


def facts(pooled: Pooled[TrainingRow], origin: Origin) -> Facts:
    """Return the facts of the rows."""
    places = places_of(pooled.rows, origin.alpha)
    tuned = reference_lines(pooled.rows, origin.alpha, OWN_TEMPERATURE)
    answers = [_answer(place, tuned, origin.level, alone=len(places) == 1) for place in places]
    worse = Counter(method.name for answer in answers for method in answer.worse)
    return Facts(
        answers=answers,
        avoid=[Count(name=name, count=count) for name, count in worse.most_common()],
        next=_next(places, origin) if len(places) == 1 else None,
        basis=_basis(pooled.rows, places, origin.level),
        title="In short" + (f": {places[0].where}" if len(places) == 1 else ""),
        table=list(_table(places)),
    )


def _answer(place: Place, tuned: Lines, level: float, *, alone: bool) -> Answer:
    where = "" if alone else place.where
    if not place.measured:
        return Answer(where=where, state="nothing")
    top, best, lines = place.top, place.best(place.top), place.lines
    # Far below 0, and not significant after correction.
    ends = [(row, row.differences[top]) for row in place.compared if place.sign(row, top) == 0]
    below = [row for row, end in ends if end.defined and end.value < -_FAR * end.width / 2]
    tied = [row for row in place.may_be_best(top) if row not in best and row not in below]
    reference = place.reference
    usual = max(place.references, key=lambda row: row.curve[top - 1].value, default=None)
    usual = reference if reference in best else usual
    answer = Answer(
        where=where,
        state=_state(place),
        objective=place.objective,
        top=top,
        reference="" if reference is None else place.names[reference.key.path],
        value=best[0].curve[top - 1].value,
        highest=place.named(best),
        usual="" if usual is None else place.names[usual.key.path],
        usual_is_highest=usual in best,
        compared=len(place.compared),
        apart=place.named(row for row in place.measured if row.sampled.apart),
        tied=place.named(row for row in tied if place.sign(row, top) >= 0),
    )
    if answer.state != "compared":
        return answer
    better = place.significant(1, top)
    answer.better = [_difference(place, row, top, lines) for row in better]
    worse = reversed(place.significant(-1, top))
    answer.worse = [_difference(place, row, top, lines) for row in worse]
    answer.below = [_difference(place, row, top, lines) for row in below]
    # A lead over a reference with other settings does not count if another reference is higher.
    least = -math.inf if usual is None else usual.curve[top - 1].value
    better = [row for row in better if row.curve[top - 1].value > least]
    highest = () if answer.usual_is_highest else best
    use = next((row for row in (*better, *highest) if row in place.compared), None)
    if use is not None:
        answer.use = _difference(place, use, top, lines)
        if top > 1 and has_value(use.differences.get(1)):
            answer.cost = _difference(place, use, 1, lines)
        decoding = use.decoded.get(OWN_TEMPERATURE)
        if decoding is not None and has_value(decoding.differences.get(top)):
            answer.tuned = _difference(place, use, top, tuned)
        answer.pomo = list(_as_pomo(place, use, level))
        against = place.at(use.compared_with)
        answer.gaps = _gaps(SAMPLED, use, against, top)
        answer.tuned_gaps = _gaps(OWN_TEMPERATURE, use, against, top)
        # The method was chosen among the compared rows by its values.
        signs = signs_of_curve(use, against, 1 - place.alpha / answer.compared)
        answer.curve = _curve(signs)
    return answer


def _curve(signs: Mapping[int, int]) -> Curve | None:
    if not signs:
        return None
    above, below, neither = ([k for k in signs if signs[k] == sign] for sign in (1, -1, 0))
    return Curve(above=above, below=below, open=neither)


def _gaps(
    decoding: str, use: TrainingRow, against: TrainingRow, k: int
) -> tuple[Interval, Interval] | None:
    """Return the gaps to the optimum of two rows in a decoding, if both have gaps."""
    ends = [row.decoded.get(decoding) for row in (use, against)]
    gaps = [end.gaps[k] for end in ends if end is not None and has_value(end.gaps.get(k))]
    return (gaps[0], gaps[1]) if len(gaps) == 2 else None


def _state(place: Place) -> Literal["alone", "equal", "unpaired", "compared"]:
    if len(place.measured) == 1:
        return "alone"
    if len(place.best(place.top)) == len(place.measured):
        return "equal"
    return "compared" if place.compared else "unpaired"


def _difference(place: Place, row: TrainingRow, k: int, lines: Lines) -> Difference:
    """Return the difference of a row to its reference, from these comparisons."""
    line = lines[row.key, k]
    return Difference(
        name=place.names[line.row],
        than=place.names[line.partner],
        sign=sign(line),
        interval=line.interval,
        comparisons=line.comparisons,
    )


def _as_pomo(place: Place, use: TrainingRow, level: float) -> Iterator[Difference]:
    """Yield the lead with the decoding of POMO's authors, over POMO's loss and POMO as shipped.

    If there are both references, the two families share the level.
    """
    reference = place.reference
    if reference is None or use.compared_with != reference.key.path:
        return
    rows = [row for row in place.measured if POMO_WAY in row.decoded and row.decoded[POMO_WAY].ks]
    shipped = [row for row in rows if row.is_pomo and row.settings.start == "multistart"]
    if use not in rows or reference not in rows:
        return
    rivals = [reference, *[row for row in shipped if row not in (reference, use)][:1]]
    for rival in rivals:
        pairs = [with_differences_to(row, rival, level) for row in rows if row is not rival]
        lines = reference_lines(pairs, place.alpha / len(rivals), POMO_WAY)
        yield _difference(place, use, 1, lines)


def _next(places: Sequence[Place], origin: Origin) -> Next | None:
    """The seeds that would make the lead of the highest method significant, if few suffice."""
    (place,) = places
    if not place.measured or place.significant(1, place.top) or _state(place) != "compared":
        return None
    best = place.best(place.top)[0]
    if best is place.reference or best not in place.compared or best.one_seed:
        return None
    level = 1 - place.alpha / max(1, comparisons_of(places))
    lead = difference(best, place.at(best.compared_with), place.top, level)
    if not lead.defined or lead.value <= 0:
        return None
    seeds = sorted(best.cells)
    more = math.ceil(len(seeds) * ((lead.value - lead.low) / lead.value) ** 2)
    if more > min(_MOST_SEEDS, _MOST_MORE * len(seeds)):
        return None
    new = seeds + [seeds[-1] + i for i in range(1, more - len(seeds) + 1)]
    share = (more - len(seeds)) / len(seeds)
    return Next(seeds=new, seconds=share * origin.seconds.get("training", 0.0) or None)


def _basis(rows: Sequence[TrainingRow], places: Sequence[Place], level: float) -> Basis:
    done = [row for row in rows if row.curve]
    evaluate = rows[0].settings.evaluate
    evaluated = [next(iter(row.sampled.values.values())) for row in done]
    bent = [[*biasing(row.settings).values()] for row in rows]
    everywhere = [name for name in bent[0] if all(name in names for names in bent)]
    optima = [row.optimum for row in rows if row.optimum.kind != "none"]
    kinds = sorted({kind for optimum in optima for kind in optimum.kind.split(", ")})
    return Basis(
        seeds=sorted({seed for row in rows for seed in row.cells}),
        steps=_ends(row.steps for row in done),
        rollouts=_ends(row.rollouts for row in done),
        # A file may have fewer instances than the setting.
        instances=_ends(values.shape[1] for values in evaluated) or [evaluate.instances],
        samples=evaluate.samples,
        averaged=max((list(row.last) for row in done if len(row.last) > 1), default=[]),
        ks=shown_ks(done),
        comparisons=comparisons_of(places),
        alpha=places[0].alpha,
        level=level,
        costs=bool(done) and all(value.value < 0 for row in done for value in row.curve),
        multistart=any(row.settings.start != "iid" for row in rows),
        bent=everywhere,
        sometimes_bent=list(
            dict.fromkeys(name for names in bent for name in names if name not in everywhere)
        ),
        optimum=[_OPTIMA.get(kind, kind.replace("_", " ")) for kind in kinds],
        proven=all(optimum.exact for optimum in optima),
        matched=_matched(places, _axes(rows)),
        first=" or ".join(
            dict.fromkeys(
                place.names[row.compared_with]
                for place in places
                for row in place.references
                if row.compared_with
            )
        ),
        apart=any(row.sampled.apart for row in rows),
    )


def comparisons_of(places: Sequence[Place]) -> int:
    """Return the number of differences to references in one correction."""
    return next((line.comparisons for line in places[0].lines.values()), 0)


def _ends(values: Iterable[int]) -> list[int]:
    """Return the smallest and the largest value; a single value if they are equal."""
    ordered = sorted(set(values))
    return ordered if len(ordered) < 2 else [ordered[0], ordered[-1]]


def _table(places: Sequence[Place]) -> Iterator[BaseModel]:
    """Yield a line for each method of each place, highest at all samples first."""
    shown = [place for place in places if place.measured]
    if not shown:
        return
    # The mean, and all samples.
    every = {k for place in shown for k in place.ks}
    ks = sorted({min(every), max(every)})
    compared = any(place.compared for place in shown)
    objective = shown[0].objective
    names = {k: "mean" if k == 1 else f"{objective}@{k}" for k in ks}
    sign = "Δ " if compared else ""
    axes = _axes(row for place in shown for row in place.rows)
    titles = {axis: short.replace("_", " ") for axis, short in short_names(axes).items()}
    fields: dict[str, Any] = {
        "environment": (str, Field("", title="environment")),
        "method": (str, Field(title="method")),
        **{f"axis_{i}": (str, Field("", title=titles[axis])) for i, axis in enumerate(axes)},
        **{f"at_{k}": (Interval | None, Field(None, title=sign + names[k])) for k in ks},
        "apart": (str, Field("", title="seeds apart")),
        "better": (str, Field("", title="better at K")),
        "worse": (str, Field("", title="worse at K")),
        "gap": (Interval | None, Field(None, title=f"gap@{ks[-1]} in %")),
    }
    line = create_model("Line", __config__=ConfigDict(arbitrary_types_allowed=True), **fields)
    for place in shown:
        ranked = sorted(place.measured, key=lambda row: -row.curve[-1].value)
        for number, row in enumerate(ranked):
            values = row.differences if compared else dict(enumerate(row.curve, start=1))
            yield line(
                environment=place.where if len(shown) > 1 and not number else "",
                method=place.name(row, axes) + _role(place, row, axes),
                apart=", ".join(map(str, _seeds_apart(place, row))),
                better=", ".join(str(k) for k in place.ks if place.sign(row, k) > 0),
                worse=", ".join(str(k) for k in place.ks if place.sign(row, k) < 0),
                gap=end if has_value(end := row.sampled.gaps.get(place.top)) else None,
                **{f"at_{k}": values.get(k) for k in ks},
                **{f"axis_{i}": spelled(row.axis(axis)) for i, axis in enumerate(axes)},
            )


def _seeds_apart(place: Place, row: TrainingRow) -> list[int]:
    """Return the outlying seeds of a row and of the row it is compared with."""
    pair = [row, place.at(row.compared_with)] if row.compared_with else [row]
    return sorted({seed for each in pair for seed in each.sampled.apart})


def _role(place: Place, row: TrainingRow, axes: Sequence[str]) -> str:
    """Return the words for a reference, or for a row with another reference than the table's.

    The table says that a row is minus the reference with equal values of these axes.
    """
    usual = place.reference
    if usual is None or row is usual:
        return "" if usual is None else " (reference)"
    if row in place.references and same_method(row, usual):
        return " (reference)"
    reference = place.at(row.compared_with) if row.compared_with else usual
    matched = all(row.axis(axis) == reference.axis(axis) for axis in axes)
    if reference is usual or (matched and same_method(reference, usual)):
        return ""
    return f" (minus {place.names[reference.key.path]})"


def _axes(rows: Iterable[TrainingRow]) -> list[str]:
    """Return n and the numeric settings of the training in which these rows differ."""
    values = [dict(row.key.setting) | {"n": row.key.n} for row in rows]
    return [
        axis
        for axis in dict.fromkeys(axis for each in values for axis in each)
        if "." not in axis
        and all(isinstance(each.get(axis, 0), int | float) for each in values)
        and len({each.get(axis) for each in values}) > 1
    ]


def _matched(places: Sequence[Place], axes: Sequence[str]) -> list[str]:
    """Return, in words, the axes in which every method equals its reference."""
    pairs = [
        (row, place.at(row.compared_with))
        for place in places
        for row in place.compared
        if row not in place.references
    ]
    words = short_names(list(axes))
    return [
        words[axis].replace("_", " ")
        for axis in axes
        if pairs and all(row.axis(axis) == against.axis(axis) for row, against in pairs)
    ]
