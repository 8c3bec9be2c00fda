"""Records of a run → a `Summary`: rows pooled over seeds with intervals, and verdicts on bias and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.estimators.method import Method
from maxk_lab.report.claims import judge_claims
from maxk_lab.report.model import Failure, Header, RowKey, Summary, SummaryRow
from maxk_lab.report.naming import DISTANCE, environment_label, setting_of
from maxk_lab.statistics.bias import BiasVerdict, bias_verdicts
from maxk_lab.statistics.intervals import Interval, interval, stratified_mean, undefined
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.best import mark_best
from maxk_lab.studies.gradient.best_possible import with_over_best
from maxk_lab.studies.gradient.columns import ALWAYS, ANATOMY, SOMETIMES
from maxk_lab.studies.gradient.proxies import proxy_rows
from maxk_lab.studies.objective.rows import objective_key, objective_rows
from maxk_lab.studies.training.rows.pooled import training_key, training_rows
from maxk_lab.studies.weights.rows import weights_key, weights_rows

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record, RunDirectory
    from maxk_lab.sweeps.spec.claims.shapes import Claim
    from maxk_lab.sweeps.spec.figures import Figure


def summarise(run: RunDirectory, *, level: float = 0.95, alpha: float = 0.05) -> Summary:
    """The summary of a run directory: its plan against its records."""
    from maxk_lab.sweeps.plan.plan import make_plan

    spec = run.spec()
    plan = make_plan(spec)
    # Reading the records is what finds the damaged ones.
    records, stale = run.records(plan), run.stale(plan)
    return summarise_records(
        [cell.as_dict() for cell in plan.cells],
        records,
        name=spec.name,
        description=spec.description,
        claims=spec.claims,
        figures=spec.figures,
        stale=stale,
        problems=run.problems,
        level=level,
        alpha=alpha,
    )


def summarise_records(
    cells: Sequence[Mapping[str, Any]],
    records: Iterable[Record],
    *,
    name: str,
    description: str = "",
    claims: Sequence[Claim] = (),
    figures: Sequence[Figure] = (),
    stale: Sequence[str] = (),
    problems: Sequence[str] = (),
    level: float = 0.95,
    alpha: float = 0.05,
) -> Summary:
    """The summary of planned cells and what is known of them; see `summarise`."""
    by_id = {record.cell["id"]: record for record in records}
    done = {identity: record for identity, record in by_id.items() if record.status == "done"}
    studies: dict[str, list[Mapping[str, Any]]] = {study: [] for study in _KEYS}
    for cell in cells:
        studies[cell["study"]].append(cell)
    grouped: dict[RowKey, list[Mapping[str, Any]]] = {}
    for cell in studies["gradient"]:
        grouped.setdefault(_key(cell), []).append(cell)
    rows = [_pooled_row(key, members, done, level) for key, members in grouped.items()]
    judged = bias_verdicts(
        {row.key: row.units for row in rows if row.units is not None}, alpha=alpha
    )
    rows = [replace(row, bias=judged.get(row.key, row.bias)) for row in rows]
    rows = with_over_best(mark_best(rows, alpha=alpha), level)
    training = training_rows(studies["training"], done, level)
    objectives = objective_rows(studies["objective"], done)
    weights = weights_rows(studies["weights"], done)
    by_study: dict[str, Sequence[Any]] = {
        "gradient": rows,
        "training": training,
        "objective": objectives,
        "weights": weights,
    }
    return Summary(
        header=_header(name, description, cells, list(by_id.values())),
        rows=tuple(rows),
        training=tuple(training),
        proxies=tuple(proxy_rows(studies["gradient"], done, level)),
        objectives=tuple(objectives),
        weights=tuple(weights),
        figures=tuple(figures),
        claims=tuple(judge_claims(claims, by_study, alpha=alpha)),
        failed=tuple(
            Failure(
                cell["id"],
                _KEYS[cell["study"]](cell).path,
                cell["seed"],
                _last_line(by_id[cell["id"]].error),
            )
            for cell in cells
            if cell["id"] in by_id and by_id[cell["id"]].status != "done"
        ),
        missing=tuple(cell["id"] for cell in cells if cell["id"] not in by_id),
        stale=tuple(stale),
        problems=tuple(problems),
        level=level,
        alpha=alpha,
    )


def _key(cell: Mapping[str, Any]) -> RowKey:
    axes = {axis: cell[axis] for axis in ("stage", "estimator", "baseline", "n", "k")}
    return RowKey(environment_label(cell), **axes, setting=setting_of(cell))


# study → the row that a cell of it belongs to
_KEYS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "gradient": _key,
    "training": training_key,
    "objective": objective_key,
    "weights": weights_key,
}


def _pooled_row(
    key: RowKey, cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], level: float
) -> SummaryRow:
    cells = sorted(cells, key=lambda cell: int(cell["seed"]))
    finished = [cell for cell in cells if cell["id"] in done]
    metrics: list[Mapping[str, Any]] = [done[cell["id"]].metrics or {} for cell in finished]
    row = SummaryRow(
        key=key,
        cells={cell["seed"]: cell["id"] for cell in cells},
        finished=tuple(cell["seed"] for cell in finished),
        intervals={},
        bias=BiasVerdict("undefined"),
        catalogued_unbiased=_derived_unbiased(key),
        instances=cells[0]["instances"],
        pool=cells[0]["pool"],
        unit=" and ".join(sorted({m["unit"] for m in metrics})),
        units_per_seed=min((len(m["units"]["m2"]) for m in metrics), default=0),
        against=_against({m["against"] for m in metrics}),
    )
    reason = _why_not_pooled(row, metrics)
    if reason:
        return replace(
            row,
            intervals={measure: undefined(level, reason) for measure in ALWAYS},
            bias=BiasVerdict("undefined", reason=reason),
        )
    units = Units.pool([Units.from_metrics(m) for m in metrics])
    if dict(key.setting).get(DISTANCE) == 0:
        units = replace(units, measures={**units.measures, **_without_distance(len(units.m2))})
    measured = (*ALWAYS, *(name for name in SOMETIMES if name in units.measures))
    intervals = {name: _measure(units, name, level) for name in measured}
    return replace(row, intervals=intervals, anatomy=_anatomy(units), units=units)


def _derived_unbiased(key: RowKey) -> bool:
    """By the catalogue; on trajectories of another policy, only what weighs them by their ratios."""
    off_policy = dict(key.setting).get(DISTANCE, 0) > 0
    method = Method.parse(key.estimator, key.baseline, key.k)
    return method.is_unbiased and (not off_policy or method.needs_ratios)


def _without_distance(count: int) -> dict[str, np.ndarray]:
    """What there is to say of ratios that are all exactly one, of so many units."""
    values = {"effective_sample_size": 1.0, "kl": 0.0, "ratio_std": 0.0}
    return {name: np.full(count, value) for name, value in values.items()}


def _anatomy(units: Units) -> dict[str, float]:
    """The parts that sum to the variance, pooled as it is; empty where they were not enumerated."""
    if not all(name in units.measures for name in ANATOMY):
        return {}
    parts = stratified_mean(np.stack([units.measures[name] for name in ANATOMY]), units.members())
    return {} if np.isnan(parts).any() else dict(zip(ANATOMY, parts.tolist(), strict=True))


def _against(ways: set[str]) -> str:
    """What the seeds are judged against; near the limit of enumeration some of their groups are enumerated and some sampled."""
    return "exact" if ways == {"complete", "exact"} else " and ".join(sorted(ways))


def _why_not_pooled(row: SummaryRow, metrics: Sequence[Mapping[str, Any]]) -> str:
    if not row.complete:
        return f"incomplete: {len(row.finished)} of {len(row.cells)} seeds finished"
    if " and " in row.against or " and " in row.unit:
        return "the seeds were measured in different ways and cannot be pooled"
    if row.units_per_seed == 0:
        return (
            "; ".join(sorted({text for m in metrics for text in m["undefined"].values()}))
            or "no units"
        )
    return ""


def _measure(units: Units, name: str, level: float) -> Interval:
    if name in ALWAYS and (np.isnan(units.m2).any() or np.isnan(units.mean_square).any()):
        return undefined(level, "fewer than two replicates: no unbiased estimate of the variance")
    return interval(units, name, level=level)


def _header(
    name: str, description: str, cells: Sequence[Mapping[str, Any]], records: Sequence[Record]
) -> Header:
    commits: set[str] = set()
    versions: dict[str, set[str]] = {}
    for record in records:
        git = record.provenance.get("git") or {}
        if git.get("commit"):
            commits.add(git["commit"] + (" (with uncommitted changes)" if git.get("dirty") else ""))
        for package, version in (record.provenance.get("versions") or {}).items():
            if version is not None:
                versions.setdefault(package, set()).add(str(version))
    return Header(
        name=name,
        description=description,
        seeds=tuple(sorted({cell["seed"] for cell in cells})),
        commits=tuple(sorted(commits)),
        versions={package: tuple(sorted(found)) for package, found in sorted(versions.items())},
    )


def _last_line(error: str | None) -> str:
    return (error or "no error text").strip().splitlines()[-1]
