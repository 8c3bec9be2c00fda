"""The curves of a run at W&B: what is drawn, against what, and what is kept of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Curve:
    """A quantity that changes during a run.

    `against` is the axis that it is drawn against; `summary` what the table of runs has of it, as
    W&B spells it: `last`, or `max,last` for both. One that is `hidden` gets no chart of its own.
    """

    against: str
    summary: str = "last"
    hidden: bool = False


@dataclass(frozen=True)
class History:
    """The lines of a run in their order: the values of axes and curves by name, where defined.

    The first axis counts whole steps. Each curve is drawn against its own, and can be against any.
    """

    axes: tuple[str, ...] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)
    lines: Sequence[Mapping[str, float]] = ()


def merged(parts: Iterable[tuple[float, Mapping[str, float | None]]]) -> list[dict[str, float]]:
    """Return one line for each place on the axis, in order, of all that is defined there."""
    lines: dict[float, dict[str, float]] = {}
    for place, values in parts:
        there = {name: value for name, value in values.items() if value is not None}
        lines.setdefault(place, {}).update(there)
    return [lines[place] for place in sorted(lines)]
