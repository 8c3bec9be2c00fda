"""Training records → the end of a training besides Max@K: quantiles, extras, optimality gaps."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.fields import Numbers
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.over_seeds import floats, of_instances, of_means
from maxk_lab.statistics.two_level import QUANTILES
from maxk_lab.studies.training.gap import gap
from maxk_lab.studies.training.record import Metrics
from maxk_lab.studies.training.row.model import Measures, Optimum, Trained

# The extras of a record in reading order, and their headings.
EXTRAS = {
    "greedy": "greedy",
    "greedy_augmented": "greedy, best of 8 augmentations",
    "greedy_multistart": "greedy, best of all forced starts",
    "multistart_sampling": "best sample over forced starts",
    "greedy_multistart_augmented": "greedy, best of all forced starts × 8 augmentations",
}


def trained(metrics: Metrics) -> Trained:
    """The end of one seed."""
    final = metrics.final
    return Trained(
        tuple(floats(final.value)),
        {k: tuple(floats(row)) for k, row in zip(final.ks, final.per_instance, strict=True)},
        tuple(floats(metrics.optima.per_instance)),
        metrics.data.instances,
    )


def measures(metrics: Sequence[Metrics], level: float) -> Measures:
    """The measures of a row, from the metrics of every seed."""
    quantiles = {
        name: of_means([m.quantiles[name].mean for m in metrics], level)
        for name in QUANTILES
        if all(name in m.quantiles for m in metrics)
    }
    optimum = _optimum(metrics)
    return Measures(optimum, quantiles, _extras(metrics, level), _gaps(metrics, optimum, level))


def _optimum(metrics: Sequence[Metrics]) -> Optimum:
    """The way in which the optima of all seeds are known; none where some seed lacks them."""
    found = [m.optima for m in metrics]
    missing = next((each for each in found if each.kind == "none"), None)
    if missing is not None:
        return Optimum("none", reason=missing.reason)
    kinds = ", ".join(dict.fromkeys(each.kind for each in found))
    return Optimum(kinds, exact=all(each.exact for each in found))


def _extras(metrics: Sequence[Metrics], level: float) -> dict[str, Interval]:
    found = {}
    for name in _extra_names(metrics):
        parts = [m.extras[name] for m in metrics]
        reasons = [part.reason or "not defined" for part in parts if part.value is None]
        found[name] = (
            undefined(level, reasons[0])
            if reasons
            else of_means([part.mean for part in parts], level)
        )
    return found


def _extra_names(metrics: Sequence[Metrics]) -> list[str]:
    return [name for name in EXTRAS if all(name in m.extras for m in metrics)]


def _gaps(metrics: Sequence[Metrics], optimum: Optimum, level: float) -> dict[int | str, Interval]:
    """The gap at every K that has values per instance, and of every extra that was measured."""
    if optimum.kind == "none":
        return {}
    values: dict[int | str, list[Numbers]] = {
        k: [m.final.per_instance[i] for m in metrics] for i, k in enumerate(metrics[0].final.ks)
    }
    for name in _extra_names(metrics):
        parts = [m.extras[name] for m in metrics]
        if all(part.value is not None for part in parts):
            values[name] = [part.per_instance for part in parts]
    optima = [floats(m.optima.per_instance) for m in metrics]
    return {name: _gap(of_seeds, optima, level) for name, of_seeds in values.items()}


def _gap(values: Sequence[Numbers], optima: Sequence[Sequence[float]], level: float) -> Interval:
    if any(0 in best for best in optima):
        return undefined(
            level, "the optimum of an instance is 0: a gap in percent of it is not defined"
        )
    return of_instances(
        [gap(floats(mine), best).tolist() for mine, best in zip(values, optima, strict=True)], level
    )
