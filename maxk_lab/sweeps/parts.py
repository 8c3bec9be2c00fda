"""The modules in the folder of a kind of study, as far as planning and running look them up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.cells import Unit
    from maxk_lab.sweeps.plan.grid import Skipped
    from maxk_lab.sweeps.spec.blocks import Block
    from maxk_lab.sweeps.spec.fields import AnyStudy
    from maxk_lab.sweeps.spec.source import Source
    from maxk_lab.sweeps.spec.variation import Resolved, Variant

# The name of a step and how far it is, e.g. "cells", {"done": 1, "of": 4}.
Event = Callable[[str, dict[str, Any]], None]
# The id of a cell, and its metrics or the reason why there are none.
Measured = tuple[str, dict[str, Any] | Exception]


class Spec(Protocol):
    """The module `spec`: the block in a sweep file, its conditions, and the units of work.

    A kind that keeps files in the cache of a run has more, see `Kept`.
    """

    @property
    def Study(self) -> type[AnyStudy]:  # noqa: N802
        """The pydantic model of the block; its field `grid` holds a tuple of models."""

    def units(self, study: Any, seeds: Sequence[int], found: Sequence[Variant]) -> Iterable[Unit]:
        """Return the units with their cells, in the order in which they are measured."""

    def left_out(self, study: Any, environment: str) -> list[Skipped]:
        """Return the points of the grid that are not measured in this environment, with why."""

    def check(
        self,
        block: Block,
        resolved: Resolved | None,
        found: Sequence[Variant] | None,
        source: Source,
    ) -> None:
        """Note in `source` all that is wrong, also where the block is sound only in part.

        `resolved` is the environment with its policy, `found` the variants of what the sweep
        varies; each is None where there is something wrong with it.
        """


class Work(Protocol):
    """The module `work`: the work of a unit, done in a worker process."""

    def measure(
        self,
        unit: Mapping[str, Any],
        cells: Sequence[Mapping[str, Any]],
        *,
        cache: Path | None,
        event: Event,
    ) -> Iterable[Measured]:
        """Yield the result of every cell of a unit; both are given as their `as_dict()`.

        `cache` is a folder for what later cells can use; `event` is told of the progress.
        """


class Kept(Protocol):
    """The functions that `spec` has, too, where units keep files in the cache of a run."""

    @property
    def SHAPES(self) -> Sequence[str]:  # noqa: N802
        """The patterns of what it keeps of any unit: pruning removes what no unit of a plan has."""

    def kept(self, unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> Iterable[str]:
        """Return the patterns of all files of the cache that the unit can use.

        They go along with a unit that is measured on a machine that does not see the cache.
        """

    def evaluation(
        self, unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]
    ) -> Iterable[str]:
        """Return those of the patterns that are of what its results are about.

        These files, such as held-out instances and their optima, are in every bundle.
        """

    def spent(self, unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> Iterable[str]:
        """Return those of the patterns that only spare time: pruning removes them once all of the
        unit is done.
        """
