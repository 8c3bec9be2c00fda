"""The conditions that a weights study must meet beyond its shape."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.studies.weights.plan import WeightsConditions
from maxk_lab.sweeps.spec.blocks import Block
from maxk_lab.sweeps.spec.grids import check_entries
from maxk_lab.sweeps.spec.source import Source
from maxk_lab.sweeps.spec.variation import Resolved, Variant


def check(
    block: Block, resolved: Resolved | None, found: Sequence[Variant] | None, source: Source
) -> None:
    """Note grids that cannot run."""
    check_entries(block, found, source, lambda _, name: WeightsConditions(name))
