"""The short table of a sweep of many places: who has the least variance, counted along two axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from maxk_lab.report.document import Column, Sheet
from maxk_lab.report.naming import short_names, spelled
from maxk_lab.report.tables import grouped
from maxk_lab.studies.gradient.row.contests import Contest, contests
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.section.short.standing import MAYBE, SAME
from maxk_lab.studies.gradient.section.words import counted, joined, stage

_ACROSS, _DOWN = 8, 12


@dataclass(frozen=True)
class _Axis:
    """Something that a sweep varies, with the words for its value in a row."""

    name: str
    words: Callable[[GradientRow], str]


@dataclass(frozen=True)
class Tallied:
    """A line of the table: its contests, which share a value of one axis."""

    name: str
    found: tuple[Contest, ...]

    @property
    def cells(self) -> dict[str, str]:
        """The cells of all rows behind it, by the row's name and the seed."""
        return {
            f"{row.key.path}/seed{seed}": cell
            for one in self.found
            for row in one.rows
            for seed, cell in row.cells.items()
        }


def tally(rows: Sequence[GradientRow], alpha: float) -> Sheet | None:
    """The counts along the two axes of most values; None where fewer than two axes are varied.

    Sizes and stages are no such axes: they are few, and the table of one size has them.
    """
    found = [one for one in contests(rows) if one.least is not None]
    sizes = [(axis, len(_values(axis, found))) for axis in _axes(rows)]
    varied = sorted((pair for pair in sizes if pair[1] > 1), key=lambda pair: -pair[1])
    across = next((axis for axis, count in varied if count <= _ACROSS), None)
    down = next((axis for axis, count in varied if count <= _DOWN and axis is not across), None)
    settings = {(row.key.environment, row.key.setting) for row in rows}
    if across is None or down is None or len(settings) <= _ACROSS:
        return None
    lines = [
        Tallied(name, tuple(members))
        for name, members in grouped(found, lambda one: down.words(one.first)).items()
    ]
    columns = (
        Column(down.name, lambda line: line.name, lambda line: {down.name: line.name}),
        *(
            Column(
                f"{across.name} = {value}" if i == 0 else value,
                partial(_cell, across=across, value=value),
                partial(_flat, across=across, value=value),
            )
            for i, value in enumerate(_values(across, found))
        ),
    )
    rest = [axis.name for axis, _ in varied if axis not in (across, down)]
    sizes_of = Counter((down.words(one.first), across.words(one.first)) for one in found)
    most = max(sizes_of.values())
    each = f"{'up to ' * (min(sizes_of.values()) < most)}{counted(most, 'case')} each"
    over = f" of {each}, of different {joined(rest)}" if rest else ""
    caption = (
        f"The baseline of least gradient variance, and in how many{over}. Counted are those told "
        f"apart from all others (Bonferroni over the sweep at {alpha:g}); {MAYBE}: none is; "
        f"{SAME}: all are the same on every instance.",
    )
    return Sheet(f"In short: {down.name} and {across.name}", columns, tuple(lines), caption)


def _axes(rows: Sequence[GradientRow]) -> list[_Axis]:
    short = short_names(list(dict.fromkeys(key for row in rows for key, _ in row.key.setting)))
    found = [
        _Axis("environment", lambda row: row.key.plain or row.key.environment),
        _Axis("estimator", lambda row: row.key.estimator),
        _Axis("stage", lambda row: stage(row.key.stage)),
        _Axis("n", lambda row: str(row.key.n)),
        _Axis("K", lambda row: str(row.key.k)),
    ]
    return [*found, *(_of_setting(key, name) for key, name in short.items())]


def _of_setting(key: str, name: str) -> _Axis:
    return _Axis(name, lambda row: spelled(dict(row.key.setting).get(key)))


def _values(axis: _Axis, found: Sequence[Contest]) -> list[str]:
    return list(dict.fromkeys(axis.words(one.first) for one in found))


def _counts(line: Tallied, across: _Axis, value: str) -> Counter[str]:
    met = [one for one in line.found if across.words(one.first) == value]
    return Counter(_who(one) for one in met)


def _who(one: Contest) -> str:
    if one.one:
        return SAME
    return " = ".join(one.top) if one.clear else MAYBE


def _cell(line: Any, across: _Axis, value: str) -> str:
    counts = _counts(line, across, value)
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _flat(line: Any, across: _Axis, value: str) -> dict[str, Any]:
    return {f"{across.name}={value} {name}": n for name, n in _counts(line, across, value).items()}
