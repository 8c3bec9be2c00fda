"""Training records → rows pooled over seeds: Max@K during and after training, and their log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, SHARES, Range
from maxk_lab.report.naming import Setting
from maxk_lab.report.tables import ROUNDING, Estimate, Pooled, grouped
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.seeds import over_seeds
from maxk_lab.statistics.seeds.over_seeds import floats, of_means
from maxk_lab.studies.training.decoding import at_own_temperature, by_way, in_own_way
from maxk_lab.studies.training.ending import (
    EXTRAS,
    SAMPLED,
    measures,
    trained,
    with_robust,
    with_seeds_apart,
)
from maxk_lab.studies.training.pairs import compared_with, with_differences
from maxk_lab.studies.training.record import Evaluations, Metrics
from maxk_lab.studies.training.row import (
    Evaluation,
    Logged,
    TrainingKey,
    TrainingRow,
    place_setting,
)
from maxk_lab.sweeps.spec.environment import plain_words
from maxk_lab.training.settings import Settings
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record


def key(cell: Mapping[str, Any]) -> TrainingKey:
    """The row that a cell belongs to."""
    return TrainingKey.of(cell)


def pool(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], *, level: float, alpha: float
) -> Pooled[TrainingRow]:
    """One row per key of the planned cells, with its differences; nothing is tested at `alpha`."""
    places = grouped(cells, key)
    settings = list(dict.fromkeys(found.setting for found in places))
    rows = [_pooled(found, members, done, level) for found, members in places.items()]
    rows.sort(key=lambda row: _order(row, settings))
    tempered = [at_own_temperature(row, level) for row in rows]
    own_way = [in_own_way(row, level) for row in rows]
    rows = [with_differences(row, rows, level) for row in rows]
    decoded = zip(rows, _compared(tempered, level), _compared(own_way, level), strict=True)
    rows = [replace(row, tempered=each, own_way=other) for row, each, other in decoded]
    rows = [
        replace(row, by_way=by_way(row, compared_with(row, rows), level))
        if row.compared_with
        else row
        for row in rows
    ]
    return Pooled(tuple(with_robust(row, rows, level) for row in rows))


def _compared(rows: Sequence[TrainingRow | None], level: float) -> list[TrainingRow | None]:
    """These rows with their differences to each other."""
    there = [row for row in rows if row is not None]
    return [None if row is None else with_differences(row, there, level) for row in rows]


def _order(row: TrainingRow, settings: Sequence[Setting]) -> tuple[Any, ...]:
    """A key that sorts by environment, n, K and the catalogue; settings as in the sweep file."""
    places = list(dict.fromkeys(map(place_setting, settings)))
    method = row.key.method
    estimator, baseline, _ = method.catalogue_order
    return (
        row.key.environment,
        places.index(place_setting(row.key.setting)),
        row.key.n,
        method.k,
        estimator,
        method.estimator.name,
        baseline,
        method.baseline.name,
        settings.index(row.key.setting),
    )


def _range_of_log(name: str, within: Range) -> Range:
    """The range of a measure of the training steps, the rewards being `within` theirs."""
    if name == "reward/mean":
        return within
    if name.startswith(("frac_", "clip_ratio/")) or name == "ess":
        return SHARES
    never_negative = name.startswith("length/") or name in ("grad_norm", "entropy", "reward/std")
    return NOT_NEGATIVE if never_negative else ANYWHERE


def _settings(training: Mapping[str, Any]) -> Settings:
    """The settings of a cell without its evaluation file, of which a cell keeps only the hash."""
    evaluate = {name: value for name, value in training["evaluate"].items() if name != "data"}
    return Settings.from_mapping({**training, "evaluate": evaluate})


def _pooled(
    key: TrainingKey, cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], level: float
) -> TrainingRow:
    cells = sorted(cells, key=lambda cell: int(cell["seed"]))
    finished = {cell["seed"]: done[cell["id"]] for cell in cells if cell["id"] in done}
    row = TrainingRow(
        key=key,
        cells={cell["seed"]: cell["id"] for cell in cells},
        finished=tuple(finished),
        catalogued_unbiased=key.method.is_unbiased,
        settings=_settings(cells[0]["training"]),
        environment_words=visible_line(plain_words(cells[0]["environment"])),
    )
    if row.unfinished:
        return replace(row, reason=row.unfinished)
    metrics = [Metrics.of(record) for record in finished.values()]
    first, (within, passes) = metrics[0], _rewards(cells[0]["environment"])
    if len({_schedule(m) for m in metrics}) > 1:
        return replace(row, reason="the seeds were trained or evaluated in different ways")
    ends = [trained(m) for m in metrics]
    means = zip(*(m.final.means for m in metrics), strict=True)
    clocks = [record.timings.get("evaluations_seconds", ()) for record in finished.values()]
    found = replace(
        row,
        within=within,
        passes=passes,
        steps=first.steps,
        rollouts=first.rollouts,
        ks=tuple(first.final.ks),
        curve=tuple(of_means(of_seeds, level, within) for of_seeds in means),
        evaluations=tuple(_evaluations([m.evaluations for m in metrics], clocks, level, within)),
        log=_log(metrics, level, within),
        measures=measures(metrics, ends, level, within),
        by_seed=dict(zip(finished, ends, strict=True)),
        last=tuple(first.last),
    )
    return with_seeds_apart(found)


def _schedule(metrics: Metrics) -> tuple[Any, ...]:
    """All that seeds must share to be pooled: how far they were trained, and what was evaluated."""
    evaluated, final = metrics.evaluations, metrics.final
    lists = (metrics.last, evaluated.step, evaluated.rollouts, evaluated.ks, final.ks)
    return metrics.steps, metrics.rollouts, *map(tuple, lists)


def _rewards(environment: Mapping[str, Any]) -> tuple[Range, bool]:
    """The range of an environment's rewards, and whether all are 0 or 1.

    Nothing is known of one that is not installed here.
    """
    try:
        row = ENVIRONMENTS.get(environment["name"])
        return row.reward_range(environment), row.passes(environment)
    except (LabError, KeyError):
        return ANYWHERE, False


def _evaluations(
    found: Sequence[Evaluations], clocks: Sequence[Sequence[float]], level: float, within: Range
) -> list[Evaluation]:
    evaluations = []
    for i, (step, rollouts) in enumerate(zip(found[0].step, found[0].rollouts, strict=True)):
        at = [each.means(i) for each in found]
        seconds = float(np.mean([clock[i] if i < len(clock) else np.nan for clock in clocks]))
        values = {k: of_means([means[k] for means in at], level, within) for k in found[0].ks}
        evaluations.append(Evaluation(step, rollouts, seconds, values))
    return evaluations


def _log(metrics: Sequence[Metrics], level: float, within: Range) -> dict[str, Logged]:
    """Every measure of the training log at the steps that all seeds have kept."""
    logs = [m.log for m in metrics]
    steps = sorted(set.intersection(*(set(log.step) for log in logs)))
    kept = [[log.step.index(step) for step in steps] for log in logs]
    per_step = metrics[0].rollouts // max(1, metrics[0].steps)
    found = {}
    for name in logs[0].series:
        if not all(name in log.series for log in logs):
            continue
        values = np.stack(
            [np.array(floats(log.series[name]))[at] for log, at in zip(logs, kept, strict=True)]
        )
        means = values.mean(axis=0)
        bands = (
            over_seeds.ends(values, level, _range_of_log(name, within))
            if len(values) > 1
            else np.full((2, len(means)), np.nan)
        )
        lines = (tuple(line.tolist()) for line in (means, *bands))
        found[name] = Logged(tuple(per_step * step for step in steps), *lines)
    return found


_GAP = "% of the optimum"
_REWARD = "reward"
# Of 100 %, from which a gap is the distance.
_OF_GAP = 100 * ROUNDING


def estimates(row: TrainingRow) -> dict[str, Estimate]:
    """Every number of the end; none unless all seeds finished."""
    found = dict(_curve(row, "max", "difference"))
    if row.measures is not None:
        found |= dict(_ending(row))
    if row.tempered is not None:
        own = "own_temperature_max", "own_temperature_difference"
        found |= dict(_curve(row.tempered, *own))
    if (own_way := row.own_way) is not None:
        found["own_way_reward"] = _reward(own_way.curve[0])
        if own_way.measures is not None and 1 in own_way.measures.gaps:
            found["own_way_gap"] = _gap(own_way.measures.gaps[1])
        if 1 in own_way.differences:
            found["own_way_difference"] = _reward(own_way.differences[1], of_pair=True)
    return found


def _curve(row: TrainingRow, final: str, difference: str) -> Iterator[tuple[str, Estimate]]:
    """The final Max@K at every K that is kept, and its differences."""
    for k in row.ks:
        yield f"{final}@{k}", _reward(row.curve[k - 1])
        if k in row.differences:
            yield f"{difference}@{k}", _reward(row.differences[k], of_pair=True)


def _reward(found: Interval, *, of_pair: bool = False) -> Estimate:
    return Estimate(found, _REWARD, "higher", of_pair)


def _gap(found: Interval) -> Estimate:
    return Estimate(found, _GAP, "lower", rounding=_OF_GAP)


def _ending(row: TrainingRow) -> Iterator[tuple[str, Estimate]]:
    """Gaps, other ways of decoding, quantiles, and the summaries without the mean."""
    assert row.measures is not None
    for at, found in row.measures.gaps.items():
        yield (_name("gap", at, row) if isinstance(at, str) else f"gap@{at}"), _gap(found)
    if set(row.measures.ways) != {SAMPLED}:
        for way, found in row.measures.ways.items():
            yield _name("max" if way not in EXTRAS else "extra", way, row), _reward(found)
        for way, found in row.by_way.items():
            yield f"difference_{way}", _reward(found, of_pair=True)
    for name, found in row.measures.quantiles.items():
        yield f"sample_{name}", _reward(found)
    if row.robust is not None:
        of = _gap if row.robust.of == "gap" else _reward
        yield "iqm", of(row.robust.iqm)
        if row.robust.improvement is not None:
            yield "improvement", Estimate(row.robust.improvement, "1", "higher", of_pair=True)
        for name, found in row.robust.quantiles.items():
            yield f"instance_{name}", of(found)


def _name(kind: str, way: str, row: TrainingRow) -> str:
    """`gap_greedy`, `extra_greedy`, and with the K of their samples `max@64_T=1.5`."""
    return f"{kind}_{way}" if way in EXTRAS else f"{kind}@{row.ks[-1]}_{way}"
