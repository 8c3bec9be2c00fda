"""The facts of a training study: which method to train with, what it costs, what is open."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.pool import POMO_WAY
from maxk_lab.studies.training.row import OWN_TEMPERATURE, SAMPLED, TrainingRow, biasing
from maxk_lab.studies.training.table import (
    Place,
    Tested,
    corrected,
    difference,
    has_value,
    places_of,
    shown_ks,
    with_differences_to,
)

# A difference that is not significant after correction is far from 0 where it is so many times the
# half width of its own interval.
_FAR = 2.0
# More seeds than so many times those that there are, or than so many, are not proposed.
_MOST_MORE, _MOST_SEEDS = 4, 20
_OPTIMA = {
    "enumeration": "enumeration",
    "milp": "mixed-integer programs",
}


class Difference(BaseModel):
    """How far a method is from another, `than`; `sign` is 0 if that is not significant.

    It is corrected for so many `comparisons`.
    """

    name: str
    than: str
    value: float
    low: float
    high: float
    sign: int = 0
    comparisons: int = 1


class Answer(BaseModel):
    """The answer for one environment and n.

    `gaps` are the gaps to the optimum of the method to use and of the reference, `own_gaps` those
    at the best temperature of each.

    At all samples (`top`): methods significantly `better` or `worse` than the `reference`, best
    first, each against what it is itself compared with; those `far` below that are not significant
    after correction; the `highest` and those `tied` with it. Of the method to use, where it is not
    the reference: its difference in the mean (`cost`), at its `own` best temperature and decoded as
    POMO does, and its gap to the optimum beside the reference's.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    where: str
    state: Literal["nothing", "alone", "equal", "unpaired", "compared"]
    objective: str = "Max"
    top: int = 0
    reference: str = ""
    value: float = math.nan
    highest: list[str] = []
    reference_is_highest: bool = False
    compared: int = 0
    use: Difference | None = None
    better: list[Difference] = []
    worse: list[Difference] = []
    far: list[Difference] = []
    tied: list[str] = []
    cost: Difference | None = None
    own: Difference | None = None
    pomo: list[Difference] = []
    gaps: tuple[Interval, Interval] | None = None
    own_gaps: tuple[Interval, Interval] | None = None
    apart: list[str] = []


class Next(BaseModel):
    """The seeds that would settle the lead of the highest method, and what they would take."""

    seeds: list[int]
    seconds: float | None


class Count(BaseModel):
    """A name, and how often it is the answer."""

    name: str
    count: int


class Basis(BaseModel):
    """The ground of the numbers: seeds, steps, rollouts, held-out instances and their samples."""

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


class Facts(BaseModel):
    """The answers of all places, and methods to avoid over these."""

    answers: list[Answer]
    avoid: list[Count]
    next: Next | None
    basis: Basis
    title: str
    table: list[BaseModel]


def facts(pooled: Pooled[TrainingRow], origin: Origin) -> Facts:
    """The facts of these rows, of which there are some."""
    level = origin.level
    places = places_of(pooled.rows, level)
    at_own = corrected(pooled.rows, 1 - level, OWN_TEMPERATURE)
    answers = [_answer(place, at_own, alone=len(places) == 1) for place in places]
    worse = Counter(one.name for answer in answers for one in answer.worse)
    return Facts(
        answers=answers,
        avoid=[Count(name=name, count=count) for name, count in worse.most_common()],
        next=_next(places, origin) if len(places) == 1 else None,
        basis=_basis(pooled.rows, places, level),
        title="In short" + (f": {places[0].where}" if len(places) == 1 else ""),
        table=list(_table(places)),
    )


def _answer(place: Place, at_own: Tested, *, alone: bool) -> Answer:
    where = "" if alone else place.where
    if not place.finished:
        return Answer(where=where, state="nothing")
    top, best, among = place.top, place.best(place.top), place.tested
    # Far below 0, and not significant after correction.
    ends = [(row, row.differences[top]) for row in place.compared if among.sign(row, top) == 0]
    far = [row for row, one in ends if one.defined and one.value < -_FAR * one.width / 2]
    tied = [row for row in place.may_be_best(top) if row not in best and row not in far]
    reference = place.reference
    answer = Answer(
        where=where,
        state=_state(place),
        objective=place.objective,
        top=top,
        reference="" if reference is None else place.names[reference.key.path],
        value=best[0].curve[top - 1].value,
        highest=place.named(best),
        reference_is_highest=best[0] is reference,
        compared=len(place.compared),
        apart=place.named(row for row in place.finished if row.sampled.apart),
        tied=place.named(row for row in tied if among.sign(row, top) >= 0),
    )
    if answer.state != "compared":
        return answer
    better = place.significant(1, top)
    answer.better = [_of(place, row, top, among) for row in better]
    answer.worse = [_of(place, row, top, among) for row in reversed(place.significant(-1, top))]
    answer.far = [_of(place, row, top, among) for row in far]
    highest = () if answer.reference_is_highest else best
    use = next((row for row in (*better, *highest) if row in place.compared), None)
    if use is not None:
        answer.use = _of(place, use, top, among)
        if top > 1 and has_value(use.differences.get(1)):
            answer.cost = _of(place, use, 1, among)
        tuned = use.decoded.get(OWN_TEMPERATURE)
        if tuned is not None and has_value(tuned.differences.get(top)):
            answer.own = _of(place, use, top, at_own)
        answer.pomo = list(_as_pomo(place, use))
        answer.gaps = _gaps(SAMPLED, use, reference, top)
        answer.own_gaps = _gaps(OWN_TEMPERATURE, use, reference, top)
    return answer


def _gaps(
    decoding: str, use: TrainingRow, reference: TrainingRow | None, k: int
) -> tuple[Interval, Interval] | None:
    """The gaps to the optimum of a method and of the reference in a decoding, if both have one."""
    ends = [row.decoded.get(decoding) for row in (use, reference) if row is not None]
    gaps = [end.gaps[k] for end in ends if end is not None and has_value(end.gaps.get(k))]
    return (gaps[0], gaps[1]) if len(gaps) == 2 else None


def _state(place: Place) -> Literal["alone", "equal", "unpaired", "compared"]:
    if len(place.finished) == 1:
        return "alone"
    if len(place.best(place.top)) == len(place.finished):
        return "equal"
    return "compared" if place.compared else "unpaired"


def _of(place: Place, row: TrainingRow, k: int, among: Tested) -> Difference:
    """The difference of a row to the one that it is compared with, tested `among` others."""
    found = row.decoded[among.decoding].differences[k]
    return Difference(
        name=place.names[row.key.path],
        than=place.names[row.compared_with],
        sign=among.sign(row, k),
        comparisons=among.comparisons,
        **{end: getattr(found, end) for end in ("value", "low", "high")},
    )


def _as_pomo(place: Place, use: TrainingRow) -> Iterator[Difference]:
    """The lead where all are decoded as POMO's authors do, over its loss and POMO as shipped.

    Two families, where there are two rivals, share the level.
    """
    reference = place.reference
    if reference is None or use.compared_with != reference.key.path:
        return
    others = [row for row in place.finished if POMO_WAY in row.decoded and row.decoded[POMO_WAY].ks]
    shipped = [row for row in others if row.is_pomo and row.settings.start == "multistart"]
    if use not in others or reference not in others:
        return
    rivals = [reference, *[row for row in shipped if row not in (reference, use)][:1]]
    for rival in rivals:
        pairs = [
            with_differences_to(row, rival, 1 - place.tested.alpha)
            for row in others
            if row is not rival
        ]
        of_rival = corrected(pairs, place.tested.alpha / len(rivals), POMO_WAY)
        yield from (_of(place, row, 1, of_rival) for row in pairs if row.key == use.key)


def _next(places: Sequence[Place], origin: Origin) -> Next | None:
    """The seeds that would make the lead of the highest method significant, if these are few."""
    (place,) = places
    if not place.finished or place.significant(1, place.top) or _state(place) != "compared":
        return None
    best = place.best(place.top)[0]
    if best is place.reference or best not in place.compared or best.one_seed:
        return None
    level = 1 - place.tested.alpha / max(1, place.tested.comparisons)
    found = difference(best, place.at(best.compared_with), place.top, level)
    if not found.defined or found.value <= 0:
        return None
    seeds = sorted(best.cells)
    more = math.ceil(len(seeds) * ((found.value - found.low) / found.value) ** 2)
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
    everywhere = [name for name in bent[0] if all(name in others for others in bent)]
    optima = [row.optimum for row in rows if row.optimum.kind != "none"]
    kinds = sorted({kind for optimum in optima for kind in optimum.kind.split(", ")})
    return Basis(
        seeds=sorted({seed for row in rows for seed in row.cells}),
        steps=_ends(row.steps for row in done),
        rollouts=_ends(row.rollouts for row in done),
        # Those of a file may be fewer than were asked for.
        instances=_ends(values.shape[1] for values in evaluated) or [evaluate.instances],
        samples=evaluate.samples,
        averaged=max((list(row.last) for row in done if len(row.last) > 1), default=[]),
        ks=shown_ks(done),
        comparisons=places[0].tested.comparisons,
        alpha=places[0].tested.alpha,
        level=level,
        costs=bool(done) and all(value.value < 0 for row in done for value in row.curve),
        multistart=any(row.settings.start != "iid" for row in rows),
        bent=everywhere,
        sometimes_bent=list(
            dict.fromkeys(name for names in bent for name in names if name not in everywhere)
        ),
        optimum=[_OPTIMA.get(kind, kind.replace("_", " ")) for kind in kinds],
        proven=all(optimum.exact for optimum in optima),
    )


def _ends(values: Iterable[int]) -> list[int]:
    """The smallest and the largest, or the one that there is."""
    found = sorted(set(values))
    return found if len(found) < 2 else [found[0], found[-1]]


def _table(places: Sequence[Place]) -> Iterator[BaseModel]:
    """A line for each method of each place, the highest at all samples first."""
    shown = [place for place in places if place.finished]
    if not shown:
        return
    # The mean, and all samples.
    asked = {k for place in shown for k in place.ks}
    ks = sorted({min(asked), max(asked)})
    compared = any(place.compared for place in shown)
    objective = shown[0].objective
    names = {k: "mean" if k == 1 else f"{objective}@{k}" for k in ks}
    sign = "Δ " if compared else ""
    fields: dict[str, Any] = {
        "environment": (str, Field("", title="environment")),
        "method": (str, Field(title="method")),
        **{f"at_{k}": (Interval | None, Field(None, title=sign + names[k])) for k in ks},
        "better": (str, Field("", title="better at K")),
        "worse": (str, Field("", title="worse at K")),
        "gap": (Interval | None, Field(None, title=f"gap@{ks[-1]} in %")),
    }
    line = create_model("Line", __config__=ConfigDict(arbitrary_types_allowed=True), **fields)
    for place in shown:
        ranked = sorted(place.finished, key=lambda row: -row.curve[-1].value)
        for row in ranked:
            values = row.differences if compared else dict(enumerate(row.curve, start=1))
            yield line(
                environment=place.where if len(shown) > 1 else "",
                method=place.names[row.key.path] + _beside(place, row),
                better=", ".join(map(str, place.tested.at(row, 1))),
                worse=", ".join(map(str, place.tested.at(row, -1))),
                gap=one if has_value(one := row.sampled.gaps.get(place.top)) else None,
                **{f"at_{k}": values.get(k) for k in ks},
            )


def _beside(place: Place, row: TrainingRow) -> str:
    """The words for the row that others are compared with, and for one compared with another."""
    if place.reference is None or row is place.reference:
        return "" if place.reference is None else " (reference)"
    if row.compared_with in ("", place.reference.key.path):
        return ""
    return f" (minus {place.names[row.compared_with]})"
