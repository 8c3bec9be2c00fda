"""The notes of a training study: the basis of its numbers, and which have no value and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from maxk_lab.report.naming import listed, seed_words
from maxk_lab.studies.training.ending.values import without_value
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import (
    BENT,
    OTHER_OBJECTIVE,
    SCHEDULED,
    biasing,
    derived,
    derived_words,
    is_pomo,
)

_LISTED = 4


def over_what(rows: Sequence[TrainingRow]) -> str:
    """The units of the intervals: `5 seeds`, or the instances of a single one."""
    seeds = max(len(row.cells) for row in rows)
    return "held-out instances of one seed" if seeds == 1 else f"{seeds} seeds"


def basis(rows: Sequence[TrainingRow], level: float) -> tuple[str, ...]:
    """The lines on seeds, steps, evaluation, intervals, and the gradients of these rows."""
    done = [row for row in rows if row.curve]
    evaluate = rows[0].settings.evaluate
    first = seed_words(rows)
    if done:
        steps, rollouts = (
            _range([getattr(row, name) for row in done]) for name in ("steps", "rollouts")
        )
        first += f"; {steps} steps, {rollouts} rollouts"
    counts = _range([_instances(row) for row in done] or [evaluate.instances])
    first += f"; evaluated on {counts} held-out instances with {evaluate.samples} samples each"
    ends = sorted({row.last for row in done if len(row.last) > 1})
    averaged = (
        f"The end: the mean over the evaluations after the steps {', '.join(map(str, steps))}, "
        "instance by instance."
        for steps in ends
    )
    return (f"{first}.", *averaged, _of_intervals(rows, done, level), *_of_gradients(rows))


def _of_intervals(rows: Sequence[TrainingRow], done: Sequence[TrainingRow], level: float) -> str:
    if len({seed for row in rows for seed in row.cells}) == 1:
        return (
            f"Intervals: {level:.0%}, about instances like these, over the held-out instances of "
            "the one seed, whatever the skewness of their values: they say nothing of other "
            "training runs."
        )
    own = (
        "its own policy, on the same held-out instances, which are held fixed"
        if any(map(_same_instances, done))
        else "its own policy and held-out instances"
    )
    seeds = max(len(row.cells) for row in rows)
    return (
        f"Intervals: {level:.0%}, about other seeds: Student's t over the values of the seeds, "
        f"each with {own}, on a logarithmic scale where they are bounded below or above and a "
        f"logit scale where both. It takes them as roughly normal there, which {seeds} cannot "
        f"show: a failure of one training in ten is in none of them in {0.9**seeds:.0%} of such "
        "studies."
    )


def _instances(row: TrainingRow) -> int:
    """The number of held-out instances; those of a file may be fewer than were asked for."""
    return len(next(iter(row.by_seed.values())).per_instance[row.ks[0]])


def _same_instances(row: TrainingRow) -> bool:
    """Whether its seeds are known to share one set, from a file; each draws its own elsewhere."""
    found = {seed.instances for seed in row.by_seed.values()}
    return len(row.by_seed) > 1 and len(found) == 1 and found.isdisjoint({None, ""})


def _of_gradients(rows: Sequence[TrainingRow]) -> Iterator[str]:
    """The lines on gradients and rewards that the column `derived` has no room for."""
    bent = [biasing(row.settings) for row in rows]
    everywhere = [name for name in bent[0] if all(name in others for others in bent)]
    if everywhere:
        marked = any(derived_words(row).endswith(BENT) for row in rows)
        mark = f"{BENT}: of estimator and baseline alone. " if marked else ""
        yield f"{mark}Bias the gradient of every row: {', '.join(everywhere)}."
    some = dict.fromkeys(name for names in bent for name in names if name not in everywhere)
    if some:
        yield f"Bias the gradient of some rows: {', '.join(some)}."
    words = {derived(row) for row in rows}
    if OTHER_OBJECTIVE in words:
        yield (
            f"{OTHER_OBJECTIVE}: start=multistart forces the first actions, so samples are not "
            "i.i.d. and no pair is unbiased for Max@K; it is evaluated on i.i.d. samples, like all "
            "others."
        )
    if SCHEDULED in words:
        yield f"{SCHEDULED}: K is that of the column at the end only."
    if any(is_pomo(row) for row in rows):
        yield (
            "reinforce with group_mean is POMO's loss; with start=multistart it is POMO as shipped."
        )
    values = [value.value for row in rows for value in row.curve]
    if values and all(value < 0 for value in values):
        yield "Rewards are minus costs: higher is better."


def _range(values: Sequence[int]) -> str:
    least, most = min(values), max(values)
    return str(least) if least == most else f"{least} to {most}"


def undefined_lines(rows: Sequence[TrainingRow]) -> list[str]:
    """One line per reason: which rows, or values, are undefined or without an interval, and why."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.reason:
            found[row.reason, "all"].append(row.key.path)
            continue
        by_reason: dict[str, list[str]] = defaultdict(list)
        for k in row.ks:
            for at, value in (("", row.final(k)), ("difference at ", row.differences.get(k))):
                if value is not None and not value.known:
                    by_reason[value.reason or "no interval"].append(f"{at}K = {k}")
        for reason, which in without_value(row):
            by_reason[reason].append(which)
        for reason, names in by_reason.items():
            found[reason, ", ".join(names)].append(row.key.path)
    return [
        f"{reason}: {which} of {listed(paths, _LISTED)}" for (reason, which), paths in found.items()
    ]
