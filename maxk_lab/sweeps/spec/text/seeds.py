"""The seeds of a sweep: a list of them, or how many, which is those from 0 on."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from maxk_lab.errors import shown
from maxk_lab.fields import Seed, distinct
from maxk_lab.sweeps.spec.source import Source

# A sweep may have no more cells than these, and every seed has one at least.
MOST_SEEDS = 1_000_000


def listed(seeds: Any) -> Any:
    """Return `seeds` as a tuple, a number n as 0 … n − 1. Raises `ValueError` for no such number.

    Entries of a list stay as they are, for validation to name what is wrong with them.
    """
    if isinstance(seeds, list | tuple):
        return tuple(seeds)
    if type(seeds) is int and 1 <= seeds <= MOST_SEEDS:
        return tuple(range(seeds))
    given = "nothing" if seeds is None else shown(seeds)
    one = type(seeds) is int and seeds >= 0
    hint = f"; for the one seed {given} write [{given}]" if one else ""
    raise ValueError(
        f"must be how many seeds (1 to {MOST_SEEDS:,}: from 0 on) or a list of them, got "
        f"{given}{hint}"
    )


Seeds = Annotated[
    tuple[Seed, ...], BeforeValidator(listed), Field(min_length=1), AfterValidator(distinct)
]


def resolve_seeds(source: Source, shifted_by: int) -> None:
    """Write the seeds of the tree as a list and add `shifted_by` to each.

    What can be no seed stays, for validation to name.
    """
    try:
        seeds = listed(source.tree["seeds"])
    except (KeyError, ValueError):
        return
    source.tree["seeds"] = [
        seed + shifted_by if type(seed) is int and seed >= 0 else seed for seed in seeds
    ]
