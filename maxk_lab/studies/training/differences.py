"""Differences of trained rows to their references, paired by seed or instance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from maxk_lab.estimators.method import Method
from maxk_lab.reports.naming import Setting
from maxk_lab.statistics.bands import difference_band
from maxk_lab.statistics.families import Comparison, Family
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds import instance_mean, instance_p_value, p_value, seed_mean
from maxk_lab.studies.training.row import (
    SAMPLED,
    Decoding,
    TrainingKey,
    TrainingRow,
    place_setting,
    unusual,
)

# The leave-one-out baselines that serve as references, at K = 1.
_LEAVE_ONE_OUT = ("rloo", "centred")
# The name of the family of comparisons with a reference.
REFERENCE = "reference"
_SIGNS = {"better": 1, "worse": -1}
# The comparisons with a reference by the key of the row and K.
Lines = Mapping[tuple[TrainingKey, int], Comparison]


def reference_of(row: TrainingRow, rows: Sequence[TrainingRow]) -> TrainingRow:
    """Return the row of the same environment and policy that `row` is compared with.

    The order is: POMO's loss with the same start, plain RLOO with the same start, both with another
    start, the first row. Ties go to the row that shares most settings and n with `row`. POMO's loss
    or plain RLOO with settings that are not the default is compared with the row of its kind with
    the fewest such settings. A row that would be compared with itself is compared with its method
    at the smallest n.
    """
    rivals = [rival for rival in rows if place_of(rival) == place_of(row)]

    def unlike(rival: TrainingRow) -> int:
        mine, theirs = (dict(each.key.setting) | {"n": each.key.n} for each in (row, rival))
        return sum(mine.get(name) != theirs.get(name) for name in {*mine, *theirs})

    def rank(rival: TrainingRow) -> tuple[int, int]:
        kind = _kind(rival)
        started = rival.settings.start == row.settings.start
        return kind + (0 if started and kind < _OTHER else _OTHER), unlike(rival)

    first = min(rivals, key=rank)
    if first is not row:
        return first
    alike = [rival for rival in rivals if _kind(rival) == _kind(row) < _OTHER]
    usual = min([row, *alike], key=lambda rival: (len(unusual(rival.key.setting)), unlike(rival)))
    if usual is not row:
        return usual
    sizes = [rival for rival in rivals if replace(rival.key, n=row.key.n) == row.key]
    return min(sizes, key=lambda rival: rival.key.n)


# Rows are POMO's loss (0), plain RLOO (1), or another method.
_OTHER = 2


def _kind(row: TrainingRow) -> int:
    unbiased = row.key.baseline in _LEAVE_ONE_OUT and row.catalogued_unbiased
    mean = unbiased and Method.parse(row.key.estimator, k=row.key.k).k == 1
    return 0 if row.is_pomo else 1 if mean else _OTHER


def same_method(row: TrainingRow, rival: TrainingRow) -> bool:
    """Return whether two rows have the same estimator, baseline, K and start."""
    keys = [(r.key.estimator, r.key.baseline, r.key.k, r.settings.start) for r in (row, rival)]
    return keys[0] == keys[1]


def place_of(row: TrainingRow) -> tuple[str, Setting]:
    return row.key.environment, place_setting(row.key.setting)


def with_differences_to(row: TrainingRow, reference: TrainingRow, level: float) -> TrainingRow:
    """Return the row with its differences to a reference, in every decoding that both rows have."""
    decoded = dict(row.decoded)
    for name, decoding in row.decoded.items():
        if name == SAMPLED or (name in reference.decoded and reference.decoded[name].ks):
            decoded[name] = replace(
                decoding,
                differences={k: difference(row, reference, k, level, name) for k in decoding.ks},
                p_values={k: difference_p_value(row, reference, k, name) for k in decoding.ks},
            )
    return replace(row, compared_with=reference.key.path, decoded=decoded)


def difference(
    row: TrainingRow, rival: TrainingRow, k: int, level: float, decoding: str = SAMPLED
) -> Interval:
    """Return the final Max@k of `row` minus Max@k of `rival` in one decoding, paired by seed.

    With one seed it is paired by instance, and is not about other training runs.
    """
    values, reason = _pairs(row, rival, k, decoding)
    if reason:
        return undefined(level, reason)
    over = instance_mean if row.one_seed else seed_mean
    return over(values, level, row.within.differences)


def difference_p_value(
    row: TrainingRow, rival: TrainingRow, k: int, decoding: str = SAMPLED
) -> float:
    """Return the two-sided p-value of no difference at k; NaN without an interval."""
    values, reason = _pairs(row, rival, k, decoding)
    if reason:
        return math.nan
    single = row.one_seed
    return instance_p_value(values) if single else p_value(values, row.within.differences)


def _pairs(row: TrainingRow, rival: TrainingRow, k: int, decoding: str) -> tuple[list[float], str]:
    """The differences by seed, or by instance for one seed; or the reason if there are none."""
    if reason := why_not_paired(row, rival, k, decoding):
        return [], reason
    mine, theirs = row.decoded[decoding], rival.decoded[decoding]
    if not row.one_seed:
        return (mine.means[:, k - 1] - theirs.means[:, k - 1]).tolist(), ""
    if k not in mine.values or k not in theirs.values:
        return [], f"no values per instance at K = {k}"
    return (mine.values[k][0] - theirs.values[k][0]).tolist(), ""


def signs_of_curve(row: TrainingRow, rival: TrainingRow, level: float) -> dict[int, int]:
    """Return by K whether Max@K of `row` is above (1) or below (-1) that of `rival`, or open (0).

    The K are those with values per instance and a band. A simultaneous band over them decides (see
    `difference_band`). It is about new instances with these policies, not about other seeds. Empty
    for rows without pairs, for fewer than two K, for fewer than two instances, and if only some
    seeds share their instances.
    """
    mine, theirs = row.sampled.values, rival.sampled.values
    ks = [k for k in mine if k in theirs and not why_not_paired(row, rival, k)]
    if len(ks) < 2:
        return {}
    differences = np.stack([mine[k] - theirs[k] for k in ks], -1)  # [S, I, K]
    sets = len(set(row.instances))
    if 1 < sets < len(row.instances):
        return {}
    if sets == 1:  # all seeds share their instances
        differences = differences.mean(0, keepdims=True)
    instances = differences.reshape(-1, len(ks))
    if len(instances) < 2:
        return {}
    band = difference_band([instances], level)
    signs = zip(ks, band.settled.astype(int), np.isnan(band.low), strict=True)
    return {k: int(sign) for k, sign, without_band in signs if not without_band}


def why_not_paired(row: TrainingRow, rival: TrainingRow, k: int, decoding: str = SAMPLED) -> str:
    """Return why two rows have no pairs of values at K = k; empty if they have pairs."""
    for each in (row, rival):
        if each.reason:
            return f"{each.key.path}: {each.reason}"
        if not 1 <= k <= each.decoded[decoding].means.shape[1]:
            return f"{each.key.path}: fewer than {k} samples per evaluation"
    paths = f"{row.key.path} and {rival.key.path}"
    if row.finished != rival.finished:
        return f"{paths} have different seeds"
    if row.instances != rival.instances:
        return f"{paths} were evaluated on different instances"
    if row.key.n != rival.key.n and row.rollouts != rival.rollouts:
        return f"{paths} have different n and different rollouts"
    return ""


def paired_by(row: TrainingRow) -> str:
    return "instance" if row.one_seed else "seed"


def has_value(interval: Interval | None) -> bool:
    """Return whether there is a value, with or without an interval."""
    return interval is not None and not math.isnan(interval.value)


def shown_ks(rows: Sequence[TrainingRow], decoding: str = SAMPLED) -> list[int]:
    """Return the K of interest: 1, the K that rows train for, and all samples of an evaluation."""
    ends = [row.decoded.get(decoding, Decoding()) for row in rows]
    candidates = {1, *(row.key.k for row in rows), *(len(end.curve) for end in ends)}
    return sorted(candidates & {k for end in ends for k in end.ks})


def reference_lines(
    rows: Sequence[TrainingRow], alpha: float, decoding: str = SAMPLED
) -> dict[tuple[TrainingKey, int], Comparison]:
    """Return the comparisons with references in a decoding, corrected together (Holm 1979).

    The family has all environments of a study, at the K of interest. Other points of a curve cost
    no power. A difference is significant if its adjusted p-value is below `alpha`.
    """
    ks = shown_ks(rows, decoding)
    differences = {
        (row.key, k): (row, row.decoded[decoding])
        for row in rows
        for k in ks
        if row.compared_with and k in row.decoded.get(decoding, Decoding()).differences
    }
    p_values = {
        (row_key, k): end.p_values[k]
        for (row_key, k), (_, end) in differences.items()
        if not math.isnan(end.p_values[k])
    }
    adjusted = Family(REFERENCE, len(p_values), alpha, "holm").adjusted(p_values)
    by_name = {(place_of(row), row.key.path): row for row in rows}
    lines = {}
    for (row_key, k), (row, end) in differences.items():
        interval, adjusted_p = end.differences[k], adjusted.get((row_key, k), math.nan)
        verdict = "tied" if interval.defined else "open"
        if adjusted_p < alpha:
            verdict = "better" if interval.value > 0 else "worse"
        pair = [row, *filter(None, [by_name.get((place_of(row), row.compared_with))])]
        lines[row_key, k] = Comparison(
            REFERENCE,
            row_key.path,
            row.compared_with,
            f"max@{k}" if decoding == SAMPLED else f"{decoding}_max@{k}",
            interval,
            verdict,
            paired=paired_by(row),
            p_adjusted=adjusted_p,
            reason=caveat(interval, *pair),
            comparisons=len(p_values),
            alpha=alpha,
        )
    return lines


def caveat(interval: Interval, *pair: TrainingRow) -> str:
    """Return why a difference has no interval, else the outlying seeds."""
    apart = [f"seed {end.apart[0]} of {row.key.path}" for row in pair if (end := row.sampled).apart]
    return interval.reason or (f"{' and '.join(apart)} ended apart" if apart else "")


def sign(line: Comparison | None) -> int:
    """1 for significantly better, -1 for significantly worse, 0 for neither or no comparison."""
    return 0 if line is None else _SIGNS.get(line.verdict, 0)
