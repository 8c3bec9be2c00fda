"""The ways in which the policy of one seed was decoded: their names, values and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maxk_lab.statistics.seeds.over_seeds import floats
from maxk_lab.studies.training.curves import Final
from maxk_lab.studies.training.record import Metrics
from maxk_lab.studies.training.row.model import AtTemperature, Way

# The extras of a record in reading order, and their headings.
EXTRAS = {
    "greedy": "greedy",
    "greedy_augmented": "greedy, best of 8 augmentations",
    "greedy_multistart": "greedy, best of all forced starts",
    "multistart_sampling": "best sample over forced starts",
    "greedy_multistart_augmented": "greedy, best of all forced starts × 8 augmentations",
}
# The one in which POMO's authors decode (arXiv 2010.16011, section 4).
POMO_WAY = "greedy_multistart_augmented"


def sampled_at(temperature: float) -> str:
    """The name of sampling at a temperature among the ways."""
    return f"T={str(temperature).removesuffix('.0')}"


# The policy as it was trained.
SAMPLED = sampled_at(1.0)


def at_temperatures(metrics: Metrics) -> dict[float, AtTemperature]:
    """The policy sampled at each temperature, in ascending order."""
    finals = {1.0: metrics.final} | {float(t): final for t, final in metrics.tempered.items()}
    tuning = {float(t): floats(means) for t, means in metrics.tuning.tempered.items()}
    return {t: _at(finals[t], tuning.get(t, ())) for t in sorted(finals)}


def ways(metrics: Metrics) -> dict[str, Way]:
    """Every way: sampling at each temperature at all samples, then the extras that have a value."""
    found = {
        sampled_at(t): Way(
            each.per_instance[len(each.means)],
            len(each.means),
            each.tuning[-1] if each.tuning else None,
        )
        for t, each in at_temperatures(metrics).items()
    }
    for name in EXTRAS:
        extra = metrics.extras.get(name)
        if extra is not None and extra.value is not None:
            tuned = metrics.tuning.extras.get(name)
            found[name] = Way(tuple(floats(extra.per_instance)), extra.trajectories, tuned)
    return found


def per_instance(final: Final) -> Mapping[int, tuple[float, ...]]:
    """The values of every instance at the K that are kept."""
    return {k: tuple(floats(row)) for k, row in zip(final.ks, final.per_instance, strict=True)}


def _at(final: Final, tuning: Sequence[float]) -> AtTemperature:
    return AtTemperature(tuple(final.means), per_instance(final), tuple(tuning))
