"""Which baseline has the least variance: the headline, in counts, and how far it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from maxk_lab.report.tables import grouped
from maxk_lab.studies.gradient.row.best import simplest
from maxk_lab.studies.gradient.row.contests import Contest
from maxk_lab.studies.gradient.row.model import Why
from maxk_lab.studies.gradient.section.words import WHY, Words, axes, baseline, joined, some

# More places than these are counted together.
_PLACES = 4
_NAMED = 3
_Counts = Counter[tuple[str, ...]]


def headline(found: Sequence[Contest], words: Words) -> Iterator[str]:
    """Who is the least, or may be, most often, in counts; then what is open; of one its result."""
    told = [one for one in found if one.least is not None]
    if not told:
        return
    if len(told) == 1:
        yield _of_one(told[0], words)
        yield from () if told[0].one else (_use(told),)
        return
    decided, what = [one for one in told if not one.one], axes(one.first for one in told)
    same = len(told) - len(decided)
    if not decided:
        yield f"All unbiased baselines are the same on every instance in {same} of {same} {what}."
    elif not same and all(one.here for one in told):
        yield _on_these(told, what)
        yield _use(decided)
    else:
        leads = _leads(decided)
        yield _who(decided, leads, what if not same else f"{what} where they differ", words)
        yield from _open(decided, leads, same)
        yield _use(decided)


def _use(decided: Sequence[Contest]) -> str:
    """The baselines to use: where several tie, the simplest of them, by the rule of `recommend`."""
    counts = Counter(simplest(one.tied).key.baseline for one in decided)
    several = any(len(one.tied) > 1 for one in decided)
    why = ": where several tie, the simplest that needs rewards alone" if several else ""
    if len(counts) == 1:
        return f"Use {baseline(next(iter(counts)))}{why}."
    total = len(decided)
    each = [f"{baseline(name)} in {count} of {total}" for name, count in counts.most_common()]
    return f"Use {some(each, _NAMED)}{why}."


def _leads(decided: Sequence[Contest]) -> tuple[str, ...]:
    """The baselines that are the least, or not told apart from it, in most of these contests.

    Of several those told apart from all others in most.
    """
    chances, wins, clear = Counter[str](), Counter[str](), Counter[str]()
    for one in decided:
        chances.update(one.competing)
        wins.update(one.possible)
        clear.update(one.top if one.clear else ())
    most = max((wins[name], clear[name], -chances[name]) for name in chances)
    return tuple(name for name in chances if (wins[name], clear[name], -chances[name]) == most)


def _who(decided: Sequence[Contest], leads: tuple[str, ...], what: str, words: Words) -> str:
    """The first sentence: how often it is these, and where they are told apart from all others."""
    best = leads[0]
    having = [one for one in decided if best in one.competing]
    wins = [one for one in having if best in one.possible]
    clear = sum(one.clear and best in one.top for one in decided)
    one_thing = all({*leads} <= {*one.top} or not {*leads} & {*one.top} for one in decided)
    each = not one_thing and len(leads) > 1
    names = _names(leads) if one_thing else some([baseline(name) for name in leads], _NAMED)
    has, it_is = ("each have", "each is") if each else ("has", "it is")
    if clear and clear == len(wins):
        return (
            f"{names} {has} the least gradient variance of the unbiased baselines "
            f"{_by_place(decided, best, words, what)}, told apart from all others."
        )
    local = sum(any(rival.here for rival in one.against) for one in wins)
    scope = f" (in {local} of these on the measured instances alone)" if local else ""
    some_have = len(having) < len(decided)
    count = f"{_of(len(wins), len(having), the=some_have)} {what}{' that have it' * some_have}"
    maybe = f"or {'are' if each else 'is'} not told apart from the least, {count}{scope}"
    if not clear:
        return (
            f"Which unbiased baseline has the least gradient variance is open: {names} {has} it, "
            f"{maybe}."
        )
    return (
        f"{names} {has} the least gradient variance of the unbiased baselines, {maybe}; {it_is} "
        f"told apart from all others {_by_place(decided, best, words)}."
    )


def _open(decided: Sequence[Contest], leads: tuple[str, ...], same: int) -> Iterator[str]:
    """The second sentence: where no single one is told apart, and where another is."""
    open_ones = [one for one in decided if not one.clear]
    others = _Counts(one.top for one in decided if one.clear and leads[0] not in one.top)
    each = [f"{_names(name)} in {count}" for name, count in others.most_common()]
    parts = []
    if open_ones:
        parts.append(
            f"{_of(len(open_ones), len(decided))} no single one is told apart from all "
            f"others{_local(open_ones)}"
        )
    if each:
        where = "elsewhere it is" if parts else "It is"
        parts.append(f"{where} {some(each, _NAMED)}{'' if parts else f' of {len(decided)}'}")
    if same:
        parts.append(f"in {same} more all are the same on every instance")
    if parts:
        text = "; ".join(parts)
        yield f"{text[0].upper()}{text[1:]}."


def _of(count: int, total: int, *, the: bool = False) -> str:
    """`in 3 of 4`, or `in all 4`."""
    return f"in all {total}" if count == total else f"in {count} of {'the ' * the}{total}"


def _on_these(told: Sequence[Contest], what: str) -> str:
    """The headline where all contests are decided on the measured instances alone."""
    local = _Counts(one.top for one in told)
    each = [f"{_names(name)} in {count} of {len(told)}" for name, count in local.most_common()]
    return (
        "On the instances that were measured, the least gradient variance of the unbiased "
        f"baselines is that of {some(each, _NAMED)} {what}; too few carry the mean to speak of "
        "others."
    )


def _of_one(one: Contest, words: Words) -> str:
    """The result of a single contest."""
    where, many = words.point(one.first), len(one.competing)
    if one.one:
        return f"{joined([baseline(name) for name in one.top])} are the same on every instance."
    if one.clear or one.here:
        scope = "" if one.clear else " on the instances that were measured"
        tail = "" if one.clear else "; too few carry the mean to speak of others"
        return (
            f"Of {many} unbiased baselines, {_names(one.top)} has the least gradient variance"
            f"{scope} {where}{tail}."
        )
    return (
        f"No single baseline is told apart from all others {where}: the least gradient variance is "
        f"that of {joined(_possible(one), 'or')}, of {many} unbiased baselines."
    )


def _possible(one: Contest) -> list[str]:
    """The least and all its rivals, those that are told apart on these instances alone, too."""
    names = {*one.top, *(rival.baseline for rival in one.against)}
    return [baseline(name) for name in one.competing if name in names]


def _local(open_ones: Sequence[Contest]) -> str:
    """The addition on contests that are decided on the measured instances alone."""
    local = _Counts(one.top for one in open_ones if one.here)
    if not local:
        return ""
    each = [f"{_names(name)} in {count}" for name, count in local.most_common(_NAMED)]
    return f" (for the measured instances alone, with nothing said of others: {joined(each)})"


def _by_place(told: Sequence[Contest], best: str, words: Words, what: str = "") -> str:
    """`in 11 of 12 combinations of n and K before training and in 2 of 12 after 200 steps`.

    Without `what` it was said before.
    """
    places = grouped(told, lambda one: words.policy(one.first))
    if len(places) == 1 or len(places) > _PLACES:
        return f"in {_count(told, best)} of {len(told)} {what}".rstrip()
    parts: list[str] = []
    for place, members in places.items():
        count = _count(members, best) or "none"
        # Each place may have its own points, that differ in less than those of all.
        of = f"{axes(one.first for one in members)} " if what and not parts else ""
        parts.append(f"in {count} of {len(members)} {of}{place}")
    return joined(parts)


def _count(told: Sequence[Contest], best: str) -> int:
    return sum(one.clear and best in one.top for one in told)


def _names(names: tuple[str, ...]) -> str:
    """`a`, or `a = b` where they are the same on every instance."""
    return " = ".join(map(baseline, names))


def how_far(found: Sequence[Contest]) -> Iterator[str]:
    """How often each other baseline may be the least, and why no more is decided."""
    told = [one for one in found if one.least is not None and not one.one]
    undecided = [one for one in told if not one.clear]
    if len(told) < 2 or not undecided or all(one.here for one in told):
        return
    chances, wins = Counter[str](), Counter[str]()
    for one in told:
        chances.update(one.competing)
        wins.update(one.possible)
    order = sorted(chances, key=lambda name: (-wins[name] / chances[name], -wins[name]))
    leads = _leads(told)
    maybe = [
        f"{baseline(name)} in {wins[name]} of {chances[name]}"
        for name in order
        if wins[name] and name not in leads
    ]
    never = [baseline(name) for name in order if not wins[name]]
    parts = []
    if maybe:
        parts.append(f"The least, or not told apart from it, are also {some(maybe, 4)}")
    if never:
        parts.append(f"{'never' if parts else 'Never the least is'} {joined(never, 'or')}")
    sentence = "; ".join(parts)
    reasons = Counter(_reason(one) for one in undecided)
    if set(reasons) != {"both signs"}:
        each = [f"{WHY[why]} ({count})" for why, count in reasons.most_common()]
        sentence += f"{'. ' * bool(parts)}What leaves {len(undecided)} open: {'; '.join(each)}"
    if sentence:
        yield f"{sentence}."


def _reason(one: Contest) -> Why:
    """The reason of the nearest rival that is not told apart on any instances."""
    return next((rival.why for rival in one.against if not rival.here), one.against[0].why)
