"""Names of the rows of a training study, and their differences paired by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxk_lab.estimators.method import Method
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds.over_seeds import (
    over_instances,
    over_seeds,
    p_value,
    p_value_over_instances,
)
from maxk_lab.studies.training.row import (
    Trained,
    TrainingKey,
    TrainingRow,
    place_setting,
    training_words,
    unusual,
)

_POMO = ("reinforce", "group_mean")


def methods(rows: Sequence[TrainingRow]) -> list[str]:
    """Names that tell rows of one environment apart: `maxk centred, K = 8, start=multistart`."""
    several_n, several_k = (
        len({getattr(row.key, axis) for row in rows}) > 1 for axis in ("n", "k")
    )
    return [
        ", ".join(
            filter(
                None,
                [
                    pair(row),
                    f"n = {row.key.n}" if several_n else "",
                    f"K = {row.key.k}" if several_k else "",
                    training_words(row.key.setting),
                ],
            )
        )
        for row in rows
    ]


def spoken(rows: Sequence[TrainingRow]) -> dict[TrainingKey, str]:
    """Names for sentences, where those of tables would need a legend: `POMO's loss`.

    Any other is its estimator and baseline as a sweep file writes them, the K that it is trained
    for, and its settings: `maxk subloo for K = 8`.
    """
    several_k = len({row.key.k for row in rows}) > 1
    found = {row.key: _spoken(row, several_k=several_k) for row in rows}
    return found if len(set(found.values())) == len(found) else _written(rows)


def _spoken(row: TrainingRow, *, several_k: bool) -> str:
    return spoken_method(row) + (trained_for(row) if several_k else "")


def spoken_method(row: TrainingRow) -> str:
    """The name of a row in sentences, whatever the K that it is trained for."""
    setting = row.key.setting
    if is_pomo(row) and row.settings.start == "multistart":
        rest = training_words(tuple(each for each in setting if each[0] != "start"))
        return ", ".join(filter(None, ["POMO as shipped (start=multistart)", rest]))
    name = "POMO's loss" if is_pomo(row) else pair(row)
    return ", ".join(filter(None, [name, training_words(setting)]))


def trained_for(row: TrainingRow) -> str:
    """` for K = 8`, and nothing for POMO's loss, which is for the mean."""
    return "" if is_pomo(row) else f" for K = {row.key.k}"


def _written(rows: Sequence[TrainingRow]) -> dict[TrainingKey, str]:
    return dict(zip((row.key for row in rows), methods(rows), strict=True))


def pair(row: TrainingRow) -> str:
    """Estimator and baseline; `reinforce` with `group_mean` is POMO's loss and says so."""
    if is_pomo(row):
        return f"POMO ({' '.join(_POMO)})"
    takes = row.key.method.takes_baseline
    return f"{row.key.estimator} {row.key.baseline}" if takes else row.key.estimator


def is_pomo(row: TrainingRow) -> bool:
    """Whether its loss is that of RL4CO's POMO; with start=multistart it is POMO as shipped."""
    return (row.key.estimator, row.key.baseline) == _POMO


# The names of the plain leave-one-out baseline that the others are compared with, at K = 1.
_PLAIN = ("rloo", "centred")


def with_differences(row: TrainingRow, rows: Sequence[TrainingRow], level: float) -> TrainingRow:
    """The row with its differences, at every K that is kept, to the one it is compared with."""
    other = compared_with(row, rows)
    return row if other is row else with_differences_to(row, other, level)


def with_differences_to(row: TrainingRow, other: TrainingRow, level: float) -> TrainingRow:
    """The row compared with this other."""
    return replace(
        row,
        compared_with=other.key.path,
        compared_apart=bool(other.apart),
        differences={k: difference(row, other, k, level) for k in row.ks},
        p_values={k: difference_p_value(row, other, k) for k in row.ks},
        won={k: seeds_won(row, other, k) for k in row.ks},
    )


def compared_with(row: TrainingRow, rows: Sequence[TrainingRow]) -> TrainingRow:
    """The row of the same environment and n that `row` is compared with.

    POMO's loss with the same start is what a study of it must beat. Where it was not trained, plain
    RLOO is, then either with another start, or else the first row. Of several, that which shares
    most settings with `row`. One of these two itself, with settings that are not the default, is
    compared with that of its kind which has the fewest of them.
    """
    place = row.key.environment, place_setting(row.key.setting), row.key.n
    same = [r for r in rows if (r.key.environment, place_setting(r.key.setting), r.key.n) == place]

    def rank(other: TrainingRow) -> tuple[int, int]:
        started = _start(other) == _start(row)
        tiers = (
            is_pomo(other) and started,
            _is_plain(other) and started,
            is_pomo(other),
            _is_plain(other),
        )
        return next((i for i, so in enumerate(tiers) if so), len(tiers)), _apart(row, other)

    found = min(same, key=rank)
    if found is not row:
        return found
    kind = next((is_kind for is_kind in (is_pomo, _is_plain) if is_kind(row)), None)
    plainer = [other for other in same if kind is not None and kind(other)]
    return min((other for other in plainer if _odd(other) < _odd(row)), key=_odd, default=row)


def difference(row: TrainingRow, other: TrainingRow, k: int, level: float) -> Interval:
    """Final Max@k of `row` minus that of `other`, paired by seed.

    With one seed it is paired by instance, and says nothing of other training runs.
    """
    reason = why_not_paired(row, other, k)
    if reason:
        return undefined(level, reason)
    within = row.within.of_differences
    if not row.one_seed:
        return over_seeds(_by_seed(row, other, k), level, within)
    by_instance = _by_instance(row, other, k)
    if not by_instance:
        return undefined(level, f"no values per instance at K = {k}")
    return over_instances(by_instance, level, within)


def difference_p_value(row: TrainingRow, other: TrainingRow, k: int) -> float:
    """The two-sided p-value of no difference at k; NaN where there is no interval."""
    if why_not_paired(row, other, k):
        return math.nan
    if row.one_seed:
        return p_value_over_instances(_by_instance(row, other, k))
    return p_value(_by_seed(row, other, k), row.within.of_differences)


def seeds_won(row: TrainingRow, other: TrainingRow, k: int) -> tuple[int, int]:
    """In how many seeds `row` is above `other` at k, and in how many below."""
    if why_not_paired(row, other, k):
        return 0, 0
    found = np.array(_by_seed(row, other, k))
    return int((found > 0).sum()), int((found < 0).sum())


def _by_seed(row: TrainingRow, other: TrainingRow, k: int) -> list[float]:
    return [mine.curve[k - 1] - theirs.curve[k - 1] for mine, theirs in seed_pairs(row, other)]


def _by_instance(row: TrainingRow, other: TrainingRow, k: int) -> list[float]:
    """The differences on the instances of the one seed; empty where they were not kept."""
    ((mine, theirs),) = seed_pairs(row, other)
    if k not in mine.per_instance or k not in theirs.per_instance:
        return []
    found: list[float] = np.subtract(mine.per_instance[k], theirs.per_instance[k]).tolist()
    return found


def why_not_paired(row: TrainingRow, other: TrainingRow, k: int) -> str:
    """Why the two have no pairs of values at K = k; empty where they have."""
    for each in (row, other):
        if each.reason:
            return f"{each.key.path}: {each.reason}"
        if each.final(k) is None:
            return f"{each.key.path}: fewer than {k} samples per evaluation"
    if set(row.by_seed) != set(other.by_seed):
        return f"{row.key.path} and {other.key.path} have different seeds"
    if any(mine.instances != theirs.instances for mine, theirs in seed_pairs(row, other)):
        return f"{row.key.path} and {other.key.path} were evaluated on different instances"
    return ""


def seed_pairs(row: TrainingRow, other: TrainingRow) -> list[tuple[Trained, Trained]]:
    """The ends of each seed of both."""
    return [(row.by_seed[seed], other.by_seed[seed]) for seed in sorted(row.by_seed)]


def _start(row: TrainingRow) -> Any:
    return row.settings.start


def _is_plain(row: TrainingRow) -> bool:
    unbiased = row.key.baseline in _PLAIN and row.catalogued_unbiased
    return unbiased and Method.parse(row.key.estimator, k=row.key.k).k == 1


def _odd(row: TrainingRow) -> int:
    """The number of settings that are not the default."""
    return len(unusual(row.key.setting))


def _apart(row: TrainingRow, other: TrainingRow) -> int:
    """In how many settings the two differ."""
    mine, theirs = dict(row.key.setting), dict(other.key.setting)
    return sum(mine.get(key) != theirs.get(key) for key in {*mine, *theirs})
