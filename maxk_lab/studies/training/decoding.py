"""Rows whose policies are decoded in another way: each in its own best, as tuned, or all in one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from maxk_lab.ranges import Range
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.seeds.over_seeds import Mean, of_means, over_instances
from maxk_lab.studies.training.ending import gap_of_seeds, gap_range, sampled_at, with_seeds_apart
from maxk_lab.studies.training.pairs import difference
from maxk_lab.studies.training.row import Measures, Trained, TrainingRow

Name = TypeVar("Name", str, float)


@dataclass(frozen=True)
class _Own:
    """One policy at its own best: means at K = 1, 2, ..., values per instance, and what was chosen.

    The last two by K.
    """

    means: list[Mean]
    per_instance: Mapping[int, tuple[float, ...]]
    chosen: Mapping[int, str]


def best_on_tuning(means: Mapping[Name, float]) -> Name | None:
    """The way with the highest mean on the tuning instances, the first of equals; NaN never is."""
    known = [name for name, mean in means.items() if not math.isnan(mean)]
    return max(known, key=lambda name: means[name], default=None)


def at_own_temperature(row: TrainingRow, level: float) -> TrainingRow | None:
    """The row with Max@K of every policy at the temperature that is best for it at this K.

    None where there was nothing to choose between.
    """
    found = {seed: _at_own_temperature(trained) for seed, trained in row.by_seed.items()}
    return _row(row, found, row.ks, level)


def in_own_way(row: TrainingRow, level: float) -> TrainingRow | None:
    """The row with the reward of every policy in the way that is best for it, whatever it costs.

    Its curve has this one value, whose K says nothing. None where no way was chosen.
    """
    found = {seed: _in_own_way(trained, level, row.within) for seed, trained in row.by_seed.items()}
    return _row(row, found, (1,), level)


def in_way(row: TrainingRow, way: str, level: float) -> TrainingRow | None:
    """The row with the reward of every policy in this way; None where some seed has none."""
    found = {
        seed: _in_way(trained, way, level, row.within) if way in trained.ways else None
        for seed, trained in row.by_seed.items()
    }
    return _row(row, found, (1,), level)


def by_way(row: TrainingRow, other: TrainingRow, level: float) -> dict[str, Interval]:
    """The differences of the best rewards of two rows, both decoded in the same way, by way."""
    ways = row.measures.ways if row.measures is not None else {}
    pairs = ((way, in_way(row, way, level), in_way(other, way, level)) for way in ways)
    return {
        way: difference(mine, theirs, 1, level)
        for way, mine, theirs in pairs
        if mine is not None and theirs is not None
    }


def _at_own_temperature(trained: Trained) -> _Own | None:
    sampled = trained.tempered
    if len(sampled) < 2 or not all(each.tuning for each in sampled.values()):
        return None
    chosen = {}
    for k in range(1, len(trained.curve) + 1):
        # Where K samples can be scored at no temperature, all are as good.
        found = best_on_tuning({t: each.tuning[k - 1] for t, each in sampled.items()})
        chosen[k] = 1.0 if found is None else found
    return _Own(
        [sampled[t].means[k - 1] for k, t in chosen.items()],
        {k: sampled[chosen[k]].per_instance[k] for k in trained.per_instance},
        {k: sampled_at(t) for k, t in chosen.items()},
    )


def _in_own_way(trained: Trained, level: float, within: Range) -> _Own | None:
    best = best_on_tuning(
        {name: way.tuning for name, way in trained.ways.items() if way.tuning is not None}
    )
    return None if best is None else _in_way(trained, best, level, within)


def _in_way(trained: Trained, way: str, level: float, within: Range) -> _Own:
    values = trained.ways[way].per_instance
    mean = over_instances(values, level, within)
    return _Own([(mean.value, mean.low, mean.high)], {1: values}, {1: way})


def _row(
    row: TrainingRow, found: Mapping[int, _Own | None], ks: tuple[int, ...], level: float
) -> TrainingRow | None:
    """The row with these ends of its seeds, and nothing of the training itself."""
    own = {seed: each for seed, each in found.items() if each is not None}
    if not own or len(own) < len(found) or row.measures is None:
        return None
    optimum = row.measures.optimum
    gaps: dict[int | str, Interval] = {
        k: gap_of_seeds(
            [each.per_instance[k] for each in own.values()],
            [row.by_seed[seed].optima for seed in own],
            level,
            gap_range(optimum, row.within),
        )
        for k in ks
        if optimum.kind != "none"
    }
    decoded = replace(
        row,
        ks=ks,
        curve=tuple(
            of_means(list(means), level, row.within)
            for means in zip(*(each.means for each in own.values()), strict=True)
        ),
        evaluations=(),
        log={},
        differences={},
        p_values={},
        won={},
        compared_with="",
        measures=Measures(optimum, {}, {}, gaps, row.measures.trajectories),
        robust=None,
        by_seed={
            seed: replace(
                row.by_seed[seed],
                curve=tuple(math.nan if mean[0] is None else mean[0] for mean in each.means),
                per_instance=each.per_instance,
                chosen=each.chosen,
            )
            for seed, each in own.items()
        },
    )
    return with_seeds_apart(decoded)
