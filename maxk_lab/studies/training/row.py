"""A trained row: its setting, its names, its numbers, and the state of its gradient."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from maxk_lab.fields import Model
from maxk_lab.ranges import ANYWHERE, Range
from maxk_lab.reports.naming import BIASED as BIASED
from maxk_lab.reports.naming import UNBIASED as UNBIASED
from maxk_lab.reports.naming import GridKey, Setting, setting_words, spelled
from maxk_lab.reports.tables import PooledRow
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.units import Array
from maxk_lab.studies.training.grid import setting_text
from maxk_lab.studies.training.record import Optima
from maxk_lab.training.settings import Settings, StepSettings

# Added to the words for the bias of a gradient with forced starts.
OF_STARTS = " for J_K^starts"
SCHEDULED = "scheduled K"
# The blocks of a sweep file that change the environment or start, not the training.
_PLACES = ("environment", "policy")
_POMO = ("reinforce", "group_mean")
# The best temperature of each policy and K on its tuning instances.
OWN_TEMPERATURE = "own_temperature"
# Samples with forced starts, whose curve is that of J_K^starts.
FORCED = "forced"


def sampled_at(temperature: float) -> str:
    """Return the name of sampling at a temperature among the decodings."""
    return f"T={str(temperature).removesuffix('.0')}"


# The policy at the temperature of training.
SAMPLED = sampled_at(1.0)


def place_setting(setting: Setting) -> Setting:
    """Return the part of a setting that changes environment or policy: only equal parts compare."""
    return tuple((key, value) for key, value in setting if key.partition(".")[0] in _PLACES)


def unusual(setting: Setting) -> Setting:
    """Return the training settings of a row that are not defaults."""
    rest = ((key, value) for key, value in setting if key.partition(".")[0] not in _PLACES)
    return tuple((key, value) for key, value in rest if not _is_default(key, value))


def _is_default(key: str, value: Any) -> bool:
    """Return whether a value, or the text of a grid for it, is the default of a sweep file."""
    default: Any = StepSettings()
    for name in key.split("."):
        default = getattr(default, name, None) if isinstance(default, Model) else None
    return bool(value in (default, setting_text(default)))


def training_words(setting: Setting) -> str:
    """Return training settings as text: `start=multistart, k_schedule(kind=linear, first=2)`.

    Defaults are left out.
    """
    blocks: dict[str, list[str]] = {}
    for key, value in unusual(setting):
        block, _, name = key.rpartition(".")
        blocks.setdefault(block, []).append(f"{name}={spelled(value)}")
    return ", ".join(
        f"{block}({', '.join(words)})" if block else ", ".join(words)
        for block, words in blocks.items()
    )


def biasing(settings: StepSettings) -> dict[str, str]:
    """Return, by name, the settings that bias the gradient of Max@K or change its objective."""
    scale, normal = settings.reward_scale, settings.weight_normalization
    clip, aggregation = settings.reward_clip, settings.loss.aggregation
    wrong = {
        "normalize_advantages": settings.normalize_advantages,
        f"weight_normalization {normal}": normal != "none",
        f"loss aggregation {aggregation}": aggregation in ("seq_mean", "token_mean"),
        "inner_epochs above 1": settings.inner_epochs > 1,
        f"max_grad_norm {settings.max_grad_norm}": settings.max_grad_norm is not None,
        f"reward_clip {list(clip or ())}": clip is not None,
        f"kl in the {settings.kl.place}": settings.kl.place != "none",
        f"entropy_bonus {settings.entropy_bonus}": settings.entropy_bonus != 0,
        f"reward_scale {scale} (scale only)": scale != 1,
    }
    biases = (words for words, is_so in wrong.items() if is_so)
    return {words.split()[0]: words.removeprefix("loss ") for words in biases}


@dataclass(frozen=True, kw_only=True)
class TrainingKey(GridKey):
    """The grid point of a trained row."""

    @cached_property
    def path(self) -> str:
        """`training/maxk/centred/n16/k8`."""
        words = (setting_words(place_setting(self.setting)), training_words(self.setting))
        return self.named("training", ", ".join(filter(None, words)))


@dataclass(frozen=True)
class Evaluation:
    """One evaluation during training: Max@K on held-out instances, by K in `values`.

    `means` are the means of the seeds (K → [S]). `seconds` is the training time so far without
    evaluations, mean over seeds; NaN if not recorded.
    """

    step: int
    rollouts: int
    seconds: float
    values: Mapping[int, Interval]
    means: Mapping[int, Sequence[float]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class Decoding:
    """The end of training in one decoding: Max@K for K = 1, 2, ..., pooled over seeds.

    An extra has one value, the best reward, which has no K, or a reason why it is undefined. At the
    recorded `ks` there are the `values` of instances (K → [S, I]), optimality `gaps` and
    `differences` to another row in the same decoding, with their `p_values`. `apart` are outlying
    seeds; `chosen` has, by K, the best decoding on the tuning instances of each seed.
    """

    means: Array = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    values: Mapping[int, Array] = field(default_factory=dict, repr=False)
    chosen: Mapping[int, Sequence[str]] = field(default_factory=dict)
    ks: tuple[int, ...] = ()
    curve: tuple[Interval, ...] = ()
    gaps: Mapping[int, Interval] = field(default_factory=dict)
    apart: tuple[int, ...] = ()
    differences: Mapping[int, Interval] = field(default_factory=dict)
    p_values: Mapping[int, float] = field(default_factory=dict)


_NOTHING = Decoding()


@dataclass(frozen=True, kw_only=True)
class TrainingRow(PooledRow):
    """One (environment, setting, estimator, baseline, n, K) trained, and evaluated by decoding.

    `decoded` has the row at the temperature of training, and its other decodings. Intervals are
    over seeds, or over held-out instances if `one_seed`. Unless all seeds finished, they are
    undefined with the `reason`. The end is the mean over the evaluations after `last` steps.
    `evaluations` and `log` (name → rollouts → interval) are from the training itself.
    `compared_with` is the path of the row that the differences are relative to.

    Gaps are in percent, (best − value) / |best| of the `optima` [S, I], mean over instances;
    `optimum` says how these are known. `instances` are the hashes of each seed's instances; None if
    they have none.

    Rewards, and numbers other than gaps and the log, lie `within` a range. If all are 0 or 1, Max@K
    is the share of instances with a sample among K that `passes`. `environment_words` names the
    environment in sentences.
    """

    key: TrainingKey
    catalogued_unbiased: bool
    settings: Settings
    steps: int = 0
    rollouts: int = 0
    decoded: Mapping[str, Decoding] = field(default_factory=dict, repr=False)
    evaluations: tuple[Evaluation, ...] = field(default=(), repr=False)
    log: Mapping[str, Mapping[int, Interval]] = field(default_factory=dict, repr=False)
    compared_with: str = ""
    within: Range = ANYWHERE
    passes: bool = False
    environment_words: str = ""
    optimum: Optima = field(default_factory=Optima)
    optima: Sequence[Sequence[float]] = field(default=(), repr=False)
    instances: tuple[str | None, ...] = ()
    last: tuple[int, ...] = ()
    reason: str = ""

    @property
    def sampled(self) -> Decoding:
        """The end of the policy at the temperature of training."""
        return self.decoded.get(SAMPLED, _NOTHING)

    @property
    def curve(self) -> tuple[Interval, ...]:
        """The final Max@K for K = 1, 2, ... at the temperature of training."""
        return self.sampled.curve

    @property
    def differences(self) -> Mapping[int, Interval]:
        """The final Max@K minus that of the row it is compared with, paired by seed."""
        return self.sampled.differences

    @property
    def one_seed(self) -> bool:
        """Whether there is one seed: intervals are then over held-out instances."""
        return len(self.cells) == 1

    @property
    def is_pomo(self) -> bool:
        """Whether its loss is RL4CO's POMO; with start=multistart it is POMO as shipped."""
        return (self.key.estimator, self.key.baseline) == _POMO

    @property
    def method(self) -> str:
        """The name of the row in sentences, without the K of training."""
        return self.words()

    def words(self, without: Collection[str] = ()) -> str:
        """Return the name of the row in sentences, without these settings."""
        key = self.key
        setting = tuple(each for each in key.setting if each[0] not in without)
        name = f"{key.estimator} {key.baseline}" if key.method.takes_baseline else key.estimator
        if self.is_pomo:
            shipped = self.settings.start == "multistart"
            name = "POMO as shipped" if shipped else "POMO's loss"
        # A sweep file calls the start of the records `forced`.
        words = training_words(setting).replace("start=multistart", "start=forced")
        return f"{name} ({words})" if words else name

    def axis(self, name: str) -> Any:
        """Return the n or a setting of the row; empty if it has none."""
        return self.key.n if name == "n" else dict(self.key.setting).get(name, "")

    @property
    def method_for_k(self) -> str:
        """The name with the K of training: `maxk subloo for K = 8`; POMO's loss has no K."""
        return self.method + ("" if self.is_pomo else f" for K = {self.key.k}")

    def final(self, k: int) -> Interval | None:
        """Return the final Max@k, if it was measured."""
        return self.curve[k - 1] if 1 <= k <= len(self.curve) else None

    @property
    def derived(self) -> str:
        """The state of the gradient, from the catalogue and the row's own settings.

        A setting that biases all rows of a study does not count, unless it is a start or a K
        schedule that changes the objective.
        """
        forced = self.settings.start != "iid"
        if self.settings.k_schedule.kind != "fixed":
            return SCHEDULED
        bent = {name.partition(".")[0] for name, _ in self.key.setting} & {*biasing(self.settings)}
        word = BIASED if bent else self.key.bias_state
        return word + OF_STARTS if forced else word

    @property
    def bias_state(self) -> str:
        """The column `bias`: the state of the gradient by formula and settings."""
        return self.derived
