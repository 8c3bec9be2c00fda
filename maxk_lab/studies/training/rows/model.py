"""What a report says of trained policies, as plain values: rows pooled over seeds, their curves and their log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from maxk_lab.report.naming import Setting, row_path
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.rows.names import path_words


@dataclass(frozen=True)
class TrainingKey:
    """What the seeds of one trained row share."""

    environment: str
    estimator: str
    baseline: str
    n: int
    k: int
    setting: Setting = ()

    @property
    def path(self) -> str:
        """`training/maxk/centred/n16/k8`; see `row_path`."""
        return row_path(
            "training",
            path_words(self.setting),
            estimator=self.estimator,
            baseline=self.baseline,
            n=self.n,
            k=self.k,
        )


@dataclass(frozen=True)
class Evaluation:
    """One evaluation during training: Max@K on held-out instances (K → interval) after so many rollouts.

    `seconds` is the training time until then, evaluations excluded, mean over seeds; NaN where not recorded.
    """

    step: int
    rollouts: int
    seconds: float
    values: Mapping[int, Interval]


@dataclass(frozen=True)
class Logged:
    """One metric of the training steps, mean over seeds: after so many rollouts, its value and ends of its interval.

    NaN where the metric is not defined in every seed; the ends are NaN too where there is one seed.
    """

    rollouts: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Trained:
    """What one seed of a trained row ended with: Max@K for K = 1..samples, and per instance for some K.

    `optima` are the optimal rewards of these instances, empty where unknown; `instances` is the hash of their content.
    """

    curve: tuple[float, ...]
    per_instance: Mapping[int, tuple[float, ...]] = field(repr=False)
    optima: tuple[float, ...] = field(default=(), repr=False)
    instances: str = ""


@dataclass(frozen=True)
class Optimum:
    """How the optimum of each held-out instance is known: its `kind`, "none" for the `reason`; `exact` or the best known."""

    kind: str
    exact: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Measures:
    """What the end of a training is besides Max@K; every interval is over seeds, or over the instances of one.

    `quantiles` ("p50", ...) are those of the rewards of an instance's samples, mean over instances. `extras` are other ways of
    decoding, by name, none of which estimates a Max@K. `gaps` are optimality gaps in percent, (optimum − value) / |optimum|,
    mean over instances, of Max@K by K and of the extras by name.
    """

    optimum: Optimum
    quantiles: Mapping[str, Interval]
    extras: Mapping[str, Interval]
    gaps: Mapping[int | str, Interval]


@dataclass(frozen=True)
class Robust:
    """The values of every instance of every seed at the largest K, told without their mean.

    `of` says what the values are: "gap" in percent, lower is better, or "max@64". `improvement` is the probability of a better
    value than the reference row on an instance of a seed, ties counted half; None of the reference itself.
    """

    of: str
    iqm: Interval
    quantiles: Mapping[str, Interval]
    improvement: Interval | None = None


@dataclass(frozen=True)
class TrainingRow:
    """One (environment, setting, estimator, baseline, n, K) trained and evaluated, pooled over seeds.

    `curve` is the final Max@K for K = 1..samples, `differences` (K → interval) that minus the same of the row
    `reference`, paired by seed. Intervals are over seeds, or over held-out instances where `one_seed`. Unless all
    seeds finished, `curve`, `evaluations`, `log` and `differences` are empty: no average over a part of the seeds;
    `reason` says so.
    `log` holds what the training steps themselves reported, by the metric's name. `measures` and `robust` are None of
    records that were made before these were measured.
    """

    key: TrainingKey
    cells: Mapping[int, str]
    finished: tuple[int, ...]
    catalogued_unbiased: bool
    settings: Mapping[str, Any]
    steps: int = 0
    rollouts: int = 0
    ks: tuple[int, ...] = ()
    curve: tuple[Interval, ...] = ()
    evaluations: tuple[Evaluation, ...] = field(default=(), repr=False)
    log: Mapping[str, Logged] = field(default_factory=dict, repr=False)
    differences: Mapping[int, Interval] = field(default_factory=dict)
    reference: str = ""
    measures: Measures | None = None
    robust: Robust | None = None
    by_seed: Mapping[int, Trained] = field(default_factory=dict, repr=False)
    reason: str = ""

    @property
    def complete(self) -> bool:
        """Every planned seed finished."""
        return len(self.finished) == len(self.cells)

    @property
    def one_seed(self) -> bool:
        """Nothing is known of other training runs: intervals are over held-out instances."""
        return len(self.cells) == 1

    def final(self, k: int) -> Interval | None:
        """The final Max@k, if it was measured."""
        return self.curve[k - 1] if 1 <= k <= len(self.curve) else None
