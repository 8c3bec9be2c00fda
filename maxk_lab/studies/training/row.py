"""A trained row: its setting and its place, its numbers, and what is known of its gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from maxk_lab.fields import Model
from maxk_lab.ranges import ANYWHERE, Range
from maxk_lab.report.naming import GridKey, Setting, setting_words, spelled
from maxk_lab.report.tables import PooledRow
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.seeds.over_seeds import Mean
from maxk_lab.training.settings import Settings, StepSettings

# What is known of the gradient of a row.
BIASED = "biased"
UNBIASED = "unbiased"
OTHER_OBJECTIVE = "other objective"
SCHEDULED = "scheduled K"
# The blocks of a sweep file that make another environment or start, not another way of training.
_PLACES = ("environment", "policy")


def place_setting(setting: Setting) -> Setting:
    """The part that makes another environment or policy: only rows that share it are compared."""
    return tuple((key, value) for key, value in setting if key.partition(".")[0] in _PLACES)


def unusual(setting: Setting) -> Setting:
    """The rest, how this row is trained, where it is not as it is by default."""
    rest = ((key, value) for key, value in setting if key.partition(".")[0] not in _PLACES)
    return tuple((key, value) for key, value in rest if not _is_default(key, value))


def plain_place(words: str, setting: Setting) -> str:
    """`TSP with 20 cities, embed_dim=64`: an environment in words, and what varies of policies."""
    varied = tuple((key, value) for key, value in setting if key.startswith("policy."))
    return ", ".join(filter(None, (words, setting_words(varied))))


def training_words(setting: Setting) -> str:
    """`start=multistart, k_schedule(kind=linear, first=2)`: all that is not as it is by default."""
    blocks: dict[str, list[str]] = {}
    for key, value in unusual(setting):
        block, _, name = key.rpartition(".")
        blocks.setdefault(block, []).append(f"{name}={spelled(value)}")
    return ", ".join(
        f"{block}({', '.join(words)})" if block else ", ".join(words)
        for block, words in blocks.items()
    )


def path_words(setting: Setting) -> str:
    """All of a setting that tells a row from others, for its name in logs and messages."""
    words = (setting_words(place_setting(setting)), training_words(setting))
    return ", ".join(filter(None, words))


def _is_default(key: str, value: Any) -> bool:
    """Whether the value is that of a sweep file which does not give it."""
    default: Any = StepSettings()
    for name in key.split("."):
        default = getattr(default, name, None) if isinstance(default, Model) else None
    return bool(default == value)


def biasing(settings: StepSettings) -> list[str]:
    """The settings that bias the gradient of Max@K for any estimator, or change its objective."""
    scale, normal = settings.reward_scale, settings.weight_normalization
    clip, aggregation = settings.reward_clip, settings.loss.aggregation
    wrong = {
        "normalize_advantages": settings.normalize_advantages,
        f"weight_normalization {normal}": normal != "none",
        "min_gap_scale": settings.min_gap_scale is not None,
        f"aggregation {aggregation}": aggregation in ("seq_mean", "token_mean"),
        "inner_epochs above 1": settings.inner_epochs > 1,
        f"max_grad_norm {settings.max_grad_norm}": settings.max_grad_norm is not None,
        f"truncated {settings.truncated}": settings.truncated != "keep",
        f"reward_clip {list(clip or ())}": clip is not None,
        f"kl in the {settings.kl.place}": settings.kl.place != "none",
        f"entropy_bonus {settings.entropy_bonus}": settings.entropy_bonus != 0,
        f"reward_scale {scale} (scale only)": scale != 1,
    }
    return [name for name, is_so in wrong.items() if is_so]


@dataclass(frozen=True, kw_only=True)
class TrainingKey(GridKey):
    """The point of a grid that is trained."""

    @property
    def path(self) -> str:
        """`training/maxk/centred/n16/k8`; see `row_path`."""
        return self.named("training", path_words(self.setting))


@dataclass(frozen=True)
class Evaluation:
    """One evaluation during training: Max@K on held-out instances (K → interval).

    `seconds` is the training time until then, evaluations excluded, mean over seeds; NaN where not
    recorded.
    """

    step: int
    rollouts: int
    seconds: float
    values: Mapping[int, Interval]


@dataclass(frozen=True)
class Logged:
    """One measure of the training steps, mean over seeds, with its interval, against rollouts.

    NaN where it is not defined in every seed; the ends are NaN too where there is one seed.
    """

    rollouts: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class AtTemperature:
    """One policy sampled at a temperature: Max@K for K = 1..samples, and per instance for some K.

    `tuning` has the means over the tuning instances, K = 1..samples, empty where there are none.
    """

    means: tuple[Mean, ...]
    per_instance: Mapping[int, tuple[float, ...]]
    tuning: tuple[float, ...]


@dataclass(frozen=True)
class Way:
    """One policy decoded in one way: the best reward of every instance.

    The `trajectories` that it costs on each, None in old records, and the mean over the `tuning`
    instances, None where there are none.
    """

    per_instance: tuple[float, ...]
    trajectories: int | None
    tuning: float | None


@dataclass(frozen=True)
class Trained:
    """The end of one seed of a trained row: Max@K for K = 1..samples, and per instance for some K.

    `optima` are the optimal rewards of these instances, empty where unknown; `instances` is the
    hash of their content, None where they have none. `during` has Max@K by K at every evaluation
    during training. `tempered` is the same policy sampled at every
    temperature, `ways` in every way of decoding. Of a policy at its own best, `chosen` names the
    way by K.
    """

    curve: tuple[float, ...]
    per_instance: Mapping[int, tuple[float, ...]] = field(repr=False)
    optima: tuple[float, ...] = field(default=(), repr=False)
    instances: str | None = ""
    tempered: Mapping[float, AtTemperature] = field(default_factory=dict, repr=False)
    ways: Mapping[str, Way] = field(default_factory=dict, repr=False)
    chosen: Mapping[int, str] = field(default_factory=dict)
    during: tuple[Mapping[int, float], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Optimum:
    """The way in which the optima of the held-out instances are known.

    `kind` is "none" for the `reason`; `exact`, or only the best known.
    """

    kind: str
    exact: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Measures:
    """The end of a training besides Max@K; every interval is over seeds, or the instances of one.

    `quantiles` ("p50", ...) are those of the rewards of an instance's samples, mean over instances.
    `ways` are the best rewards by way of decoding, among them the extras, which estimate no Max@K,
    and `trajectories` what these cost on an instance, where it is known. `gaps` are optimality gaps
    in percent, (optimum − value) / |optimum|, mean over instances, of Max@K by K and of the ways by
    name.
    """

    optimum: Optimum
    quantiles: Mapping[str, Interval]
    ways: Mapping[str, Interval]
    gaps: Mapping[int | str, Interval]
    trajectories: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Robust:
    """The values of the instances of a seed at the largest K, told without their mean.

    All are means over seeds. `of` names the values: "gap" in percent, lower is better, or "max@64".
    `improvement` is the probability of a better value than that of the row it is compared with, on
    an instance of a seed, ties counted half; None where it is compared with none.
    """

    of: str
    iqm: Interval
    quantiles: Mapping[str, Interval]
    improvement: Interval | None = None


@dataclass(frozen=True)
class Apart:
    """A seed whose final Max@k is apart from that of the others, which lie from `low` to `high`."""

    seed: int
    k: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class TrainingRow(PooledRow):
    """One (environment, setting, estimator, baseline, n, K) trained and evaluated.

    `curve` is the final Max@K for K = 1..samples, `differences` (K → interval) that minus the same
    of the row `compared_with`, paired by seed. Intervals are over seeds, or over held-out instances
    where `one_seed`. Unless all seeds finished, `curve`, `evaluations`, `log` and `differences` are
    empty and `measures` and `robust` None: no average over a part of the seeds; `reason` says so.
    `log` holds what the training steps themselves reported, by the measure's name. The end is the
    mean over the evaluations after `last` steps; `tempered` is the row with every policy at its own
    best temperature for each K, `own_way` in its own best way, each compared among its like, and
    `by_way` the differences of both rows in one way of decoding.

    Rewards, and so all but the gaps and the log, lie `within` a range; where all are 0 or 1, Max@K
    is the share of instances of which one of K samples `passes`. `p_values` are those of the
    differences, and `won` has the seeds (won, lost) there; `apart` are the seeds that no mean
    speaks for, and `compared_apart` says whether the other row has any. `environment_words` are its
    environment in plain words. `verdicts` has the K at which the row is significantly better or
    worse than that other one, and may be the best of its place.
    """

    key: TrainingKey
    catalogued_unbiased: bool
    settings: Settings
    steps: int = 0
    rollouts: int = 0
    ks: tuple[int, ...] = ()
    curve: tuple[Interval, ...] = ()
    evaluations: tuple[Evaluation, ...] = field(default=(), repr=False)
    log: Mapping[str, Logged] = field(default_factory=dict, repr=False)
    differences: Mapping[int, Interval] = field(default_factory=dict)
    compared_with: str = ""
    p_values: Mapping[int, float] = field(default_factory=dict)
    won: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    apart: tuple[Apart, ...] = ()
    compared_apart: bool = False
    within: Range = ANYWHERE
    passes: bool = False
    environment_words: str = ""
    measures: Measures | None = None
    robust: Robust | None = None
    by_seed: Mapping[int, Trained] = field(default_factory=dict, repr=False)
    last: tuple[int, ...] = ()
    tempered: TrainingRow | None = field(default=None, repr=False)
    own_way: TrainingRow | None = field(default=None, repr=False)
    by_way: Mapping[str, Interval] = field(default_factory=dict)
    verdicts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    reason: str = ""

    @property
    def one_seed(self) -> bool:
        """Nothing is known of other training runs: intervals are over held-out instances."""
        return len(self.cells) == 1

    def final(self, k: int) -> Interval | None:
        """The final Max@k, if it was measured."""
        return self.curve[k - 1] if 1 <= k <= len(self.curve) else None

    @property
    def derived(self) -> str:
        """The word for the gradient, known of the pair by the catalogue and of its own settings.

        A setting that biases all rows of a study alike is not its own, but for a start or a K that
        make another objective.
        """
        if self.settings.start != "iid":
            return OTHER_OBJECTIVE
        if self.settings.k_schedule.kind != "fixed":
            return SCHEDULED
        own = {name.partition(".")[0] for name, _ in self.key.setting} & set(
            StepSettings.model_fields
        )
        settings = {name: getattr(self.settings, name) for name in own}
        bent = biasing(StepSettings.model_validate(settings))
        return UNBIASED if self.catalogued_unbiased and not bent else BIASED

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The words on its gradient, its verdicts, and where its optima come from."""
        found: dict[str, Any] = {
            "derived": self.derived,
            "bent_by": ", ".join(biasing(self.settings)),
            "steps": self.steps,
            "rollouts": self.rollouts,
            "reference": self.compared_with,
            "seeds_apart": ", ".join(sorted({str(each.seed) for each in self.apart})),
        }
        found |= {name: ", ".join(map(str, ks)) for name, ks in self.verdicts.items()}
        for k, (won, lost) in self.won.items():
            p_value = self.p_values.get(k, math.nan)
            p_known = None if math.isnan(p_value) else p_value
            found |= {f"won@{k}": won, f"lost@{k}": lost, f"p@{k}": p_known}
        if self.measures is not None:
            optimum = self.measures.optimum
            found |= {"optima_by": optimum.kind, "optima_exact": optimum.exact}
        if self.robust is not None:
            found["robust_of"] = self.robust.of
        if self.own_way is not None:
            ways = (each.chosen[1].replace("_", " ") for each in self.own_way.by_seed.values())
            found["own_way"] = ", ".join(dict.fromkeys(ways))
        return found

    @property
    def details(self) -> Mapping[str, Any]:
        """The evaluations during training, one line per step and K, and the ways chosen by seed."""
        found: dict[str, Any] = {
            "evaluations": [
                {
                    "step": each.step,
                    "rollouts": each.rollouts,
                    "seconds": each.seconds,
                    "k": k,
                    **interval.columns("value"),
                }
                for each in self.evaluations
                for k, interval in each.values.items()
            ]
        }
        if self.tempered is not None:
            for k in self.tempered.ks:
                by_seed = {seed: each.chosen[k] for seed, each in self.tempered.by_seed.items()}
                found[f"own_temperature@{k}"] = by_seed
        if self.own_way is not None:
            found["own_way"] = {s: each.chosen[1] for s, each in self.own_way.by_seed.items()}
        return found
