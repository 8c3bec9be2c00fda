"""What the numbers of a training study rest on, and which have no value and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from maxk_lab.report.model import Summary
from maxk_lab.studies.training.ending.values import without_value
from maxk_lab.studies.training.rows.model import TrainingRow
from maxk_lab.studies.training.rows.names import (
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
    """What the intervals are over: `5 seeds`, or the instances of a single one."""
    seeds = max(len(row.cells) for row in rows)
    return "held-out instances of one seed" if seeds == 1 else f"{seeds} seeds"


def training_basis(rows: Sequence[TrainingRow], summary: Summary) -> tuple[str, ...]:
    """What the numbers of a training study rest on."""
    seeds = sorted({seed for row in rows for seed in row.cells})
    evaluate = rows[0].settings.get("evaluate", {})
    lines = [f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''} ({', '.join(map(str, seeds))})"]
    done = [row for row in rows if row.curve]
    if done:
        steps, rollouts = (
            _range([getattr(row, name) for row in done]) for name in ("steps", "rollouts")
        )
        lines[0] += f"; {steps} steps, {rollouts} rollouts"
    if evaluate:
        counts = _range([_instances(row) for row in done] or [evaluate["instances"]])
        lines[0] += (
            f"; evaluated on {counts} held-out instances with {evaluate['samples']} samples each"
        )
    lines[0] += "."
    if len(seeds) > 1:
        own = (
            "its own policy, on the same held-out instances, which are held fixed"
            if any(map(_same_instances, done))
            else "its own policy and held-out instances"
        )
        lines.append(
            f"Intervals: {summary.level:.0%}, Student's t over the values of the seeds, each with {own}; "
            "not corrected for their number."
        )
    else:
        lines.append(
            f"Intervals: {summary.level:.0%}, bootstrap over the held-out instances of the one seed: they say "
            "nothing of other training runs."
        )
    return (*lines, *_of_gradients(rows))


def _instances(row: TrainingRow) -> int:
    """How many held-out instances there were; those of a file may be fewer than were asked for."""
    return len(next(iter(row.by_seed.values())).per_instance[row.ks[0]])


def _same_instances(row: TrainingRow) -> bool:
    """Its seeds were evaluated on one set, from a file, and not on one of their own each."""
    found = {seed.instances for seed in row.by_seed.values()}
    return len(row.by_seed) > 1 and len(found) == 1 and "" not in found


def _of_gradients(rows: Sequence[TrainingRow]) -> Iterator[str]:
    """What the column derived does not say of these rows."""
    bent = [biasing(row.settings) for row in rows]
    everywhere = [name for name in bent[0] if all(name in others for others in bent)]
    if everywhere:
        mark = f"{BENT}: of estimator and baseline alone. " if any(map(_is_marked, rows)) else ""
        yield f"{mark}Bias the gradient of every row: {', '.join(everywhere)}."
    some = dict.fromkeys(name for names in bent for name in names if name not in everywhere)
    if some:
        yield f"Bias the gradient of some rows: {', '.join(some)}."
    words = {derived(row) for row in rows}
    if OTHER_OBJECTIVE in words:
        yield (
            f"{OTHER_OBJECTIVE}: start=multistart forces the first actions, so samples are not i.i.d. and no pair is unbiased "
            "for Max@K; it is evaluated on i.i.d. samples, like all others."
        )
    if SCHEDULED in words:
        yield f"{SCHEDULED}: K is that of the column at the end only."
    if not any(row.measures for row in rows):
        return
    if any(is_pomo(row) for row in rows):
        yield "reinforce with group_mean is POMO's loss; with start=multistart it is POMO as shipped."
    if all(value.value < 0 for row in rows for value in row.curve):
        yield "Rewards are minus costs: higher is better."


def _is_marked(row: TrainingRow) -> bool:
    return derived_words(row).endswith(BENT)


def _range(values: Sequence[int]) -> str:
    least, most = min(values), max(values)
    return str(least) if least == most else f"{least} to {most}"


def training_notes(rows: Sequence[TrainingRow]) -> list[str]:
    """One line per reason: which rows, or which of their values, are undefined and why."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.reason:
            found[row.reason, "all"].append(row.key.path)
            continue
        by_reason: dict[str, list[str]] = defaultdict(list)
        for k in row.ks:
            for what, value in (("", row.final(k)), ("difference at ", row.differences.get(k))):
                if value is not None and not value.known:
                    by_reason[value.reason or "no interval"].append(f"{what}K = {k}")
        for reason, what in without_value(row):
            by_reason[reason].append(what)
        for reason, which in by_reason.items():
            found[reason, ", ".join(which)].append(row.key.path)
    return [
        f"{reason}: {what} of {', '.join(paths[:_LISTED])}"
        + (f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else "")
        for (reason, what), paths in found.items()
    ]
