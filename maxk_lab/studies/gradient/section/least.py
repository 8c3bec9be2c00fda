"""Which baseline has the least variance: the headline, in counts, and how far it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from maxk_lab.report.rows import grouped
from maxk_lab.studies.gradient.row.model import Why
from maxk_lab.studies.gradient.section.contests import Contest
from maxk_lab.studies.gradient.section.words import WHY, Words, axes, baseline, joined, some

# More places than these are counted together.
_PLACES = 4
_NAMED = 3
_Counts = Counter[tuple[str, ...]]


def headline(found: Sequence[Contest], words: Words) -> str:
    """The baseline that is least in most of the contests, in counts; of one contest its result."""
    told = [one for one in found if one.least is not None]
    if not told:
        return ""
    if len(told) == 1:
        return _of_one(told[0], words)
    total, what = len(told), axes(one.first for one in told)
    clear = _Counts(one.top for one in told if one.clear)
    same = sum(one.one for one in told)
    open_ones = [one for one in told if not (one.clear or one.one)]
    if 2 * len(open_ones) > total:
        return _open(open_ones, clear, same, total, what)
    if not clear:
        return f"All unbiased baselines are the same on every instance in {same} of {total} {what}."
    (best, _), *others = clear.most_common()
    sentence = (
        f"{_names(best)} has the least gradient variance of the unbiased baselines "
        f"{_by_place(told, best, what, words)}"
    )
    rest = [f"{_names(name)} in {count}" for name, count in others]
    if rest:
        sentence += f"; {some(rest, _NAMED)} of all {total}"
    if same:
        sentence += f"; in {same} all are the same on every instance"
    if open_ones:
        sentence += f"; in {len(open_ones)} of {total} no single one is told apart from all others"
        sentence += _local(open_ones)
    return f"{sentence}."


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


def _open(open_ones: Sequence[Contest], clear: _Counts, same: int, total: int, what: str) -> str:
    """The headline where most contests have no winner."""
    local = _Counts(one.top for one in open_ones if one.here)
    if sum(local.values()) == total and len(local) <= _NAMED:
        each = [f"{_names(name)} in {count} of {total}" for name, count in local.most_common()]
        return (
            "On the instances that were measured, the least gradient variance of the unbiased "
            f"baselines is that of {joined(each)} {what}; too few carry the mean to speak of "
            "others."
        )
    sentence = (
        f"In {len(open_ones)} of {total} {what}, no single unbiased baseline is told apart from "
        "all others as that of least gradient variance"
    )
    if clear:
        each = [f"{_names(name)} in {count}" for name, count in clear.most_common()]
        sentence += f"; it is {some(each, _NAMED)} of {total}"
    if same:
        sentence += f"; in {same} all are the same on every instance"
    return f"{sentence}."


def _local(open_ones: Sequence[Contest]) -> str:
    """The addition on contests that are decided on the measured instances alone."""
    local = _Counts(one.top for one in open_ones if one.here)
    if not local:
        return ""
    each = [f"{_names(name)} in {count}" for name, count in local.most_common(_NAMED)]
    return f" (for the measured instances alone, with nothing said of others: {joined(each)})"


def _by_place(told: Sequence[Contest], best: tuple[str, ...], what: str, words: Words) -> str:
    """`in 11 of 12 combinations of n and K before training and in 2 of 12 after 200 steps`."""
    places = grouped(told, lambda one: words.policy(one.first))
    if len(places) == 1 or len(places) > _PLACES:
        return f"in {_count(told, best)} of {len(told)} {what}"
    parts: list[str] = []
    for place, members in places.items():
        count = _count(members, best) or "none"
        # Each place may have its own points, that differ in less than those of all.
        what = axes(one.first for one in members)
        parts.append(f"in {count} of {len(members)} {'' if parts else f'{what} '}{place}")
    return joined(parts)


def _count(told: Sequence[Contest], best: tuple[str, ...]) -> int:
    return sum(one.clear and one.top == best for one in told)


def _names(names: tuple[str, ...]) -> str:
    """`a`, or `a = b` where they are the same on every instance."""
    return " = ".join(map(baseline, names))


def how_far(found: Sequence[Contest]) -> Iterator[str]:
    """How often each baseline may be the least, and why no more is decided."""
    told = [one for one in found if one.least is not None and not one.one]
    undecided = [one for one in told if not one.clear]
    if len(told) < 2 or not undecided or all(one.here for one in told):
        return
    chances, wins = Counter[str](), Counter[str]()
    for one in told:
        chances.update(one.competing)
        wins.update(one.possible)
    order = sorted(chances, key=lambda name: (-wins[name] / chances[name], -wins[name]))
    maybe = [f"{baseline(name)} in {wins[name]} of {chances[name]}" for name in order if wins[name]]
    never = [baseline(name) for name in order if not wins[name]]
    local = sum(any(rival.here for rival in one.against) for one in told)
    scope = f" (in {local} of {len(told)} on the measured instances alone)" if local else ""
    sentence = f"The least, or not told apart from it{scope}: {some(maybe, 4)}"
    if never:
        sentence += f"; never {joined(never, 'or')}"
    reasons = Counter(_reason(one) for one in undecided)
    if set(reasons) != {"both signs"}:
        each = [f"{WHY[why]} ({count})" for why, count in reasons.most_common()]
        sentence += f". What leaves {len(undecided)} open: {'; '.join(each)}"
    yield f"{sentence}."


def _reason(one: Contest) -> Why:
    """The reason of the nearest rival that is not told apart on any instances."""
    return next((rival.why for rival in one.against if not rival.here), one.against[0].why)
