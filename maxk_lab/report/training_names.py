"""What a report calls the rows of a training study: their labels, and what may be said of their gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.report.naming import Setting, short_names, spelled
from maxk_lab.sweeps.fields import Model
from maxk_lab.sweeps.training_schema import TrainingSettings

if TYPE_CHECKING:
    from maxk_lab.report.training_model import TrainingRow

# The blocks of a sweep file that make another environment or start, not another way of training.
_PLACES = ("environment", "policy")
_POMO = ("reinforce", "group_mean")
BIASED = "biased"
UNBIASED = "unbiased"
MULTISTART = "other objective"
SCHEDULED = "scheduled K"


def place_setting(setting: Setting) -> Setting:
    """The part of a setting that makes another environment or policy: only rows that share it are compared."""
    return tuple((key, value) for key, value in setting if key.partition(".")[0] in _PLACES)


def unusual(setting: Setting) -> Setting:
    """The rest, how this row is trained, where it is not as it is by default."""
    rest = ((key, value) for key, value in setting if key.partition(".")[0] not in _PLACES)
    return tuple((key, value) for key, value in rest if not _is_default(key, value))


def place_words(environment: str, setting: Setting) -> str:
    """`tsp, num_loc=20`: the environment, whose label has its name, with what else of it is varied."""
    varied = [(key, value) for key, value in place_setting(setting) if key != "environment.name"]
    short = short_names([key for key, _ in varied])
    return ", ".join([environment, *(f"{short[key]}={spelled(value)}" for key, value in varied)])


def training_words(setting: Setting) -> str:
    """`start=multistart, k_schedule(kind=linear, first=2)`: what is not as it is by default; empty where all is."""
    blocks: dict[str, list[str]] = {}
    for key, value in unusual(setting):
        block, _, name = key.rpartition(".")
        blocks.setdefault(block, []).append(f"{name}={spelled(value)}")
    return ", ".join(
        f"{block}({', '.join(words)})" if block else ", ".join(words) for block, words in blocks.items()
    )


def path_words(setting: Setting) -> str:
    """Everything of a setting that tells a row from others, for its name in logs and messages."""
    place = place_setting(setting)
    short = short_names([key for key, _ in place])
    return ", ".join(
        [
            *(f"{short[key]}={spelled(value)}" for key, value in place),
            *filter(None, [training_words(setting)]),
        ]
    )


def labels(rows: Sequence[TrainingRow]) -> list[str]:
    """What tells the rows of one n apart, e.g. `maxk centred, K = 8, start=multistart`; a biased one says so."""
    several = len({row.key.k for row in rows}) > 1
    return [
        ", ".join(
            filter(None, [pair(row), f"K = {row.key.k}" if several else "", training_words(row.key.setting)])
        )
        + (" (biased)" if derived(row) == BIASED else "")
        for row in rows
    ]


def pair(row: TrainingRow) -> str:
    """Estimator and baseline; `reinforce` with `group_mean` is POMO's loss and says so."""
    if is_pomo(row):
        return f"POMO ({' '.join(_POMO)})"
    takes = choose_estimator(row.key.estimator).row.takes_baseline
    return f"{row.key.estimator} {row.key.baseline}" if takes else row.key.estimator


def is_pomo(row: TrainingRow) -> bool:
    """Its loss is that of RL4CO's POMO; with start=multistart it is POMO as shipped."""
    return (row.key.estimator, row.key.baseline) == _POMO


def derived(row: TrainingRow) -> str:
    """What is known of the gradient without measuring: of the pair by the catalogue, and of the settings of this row.

    What biases all rows alike stands below the table instead, but for a start or a K that make another objective, and for amp.
    """
    if row.settings.get("start", "iid") != "iid":
        return MULTISTART
    if row.settings.get("k_schedule", {}).get("kind", "fixed") != "fixed":
        return SCHEDULED
    own = {key.partition(".")[0] for key, _ in row.key.setting}
    bent = biasing({name: value for name, value in row.settings.items() if name in own})
    return UNBIASED if row.catalogued_unbiased and not bent and not row.settings.get("amp") else BIASED


def biasing(settings: Mapping[str, Any]) -> list[str]:
    """The settings of a training that bias the gradient whatever the estimator."""
    loss = settings.get("loss", {})
    wrong = {
        "normalize_advantages": settings.get("normalize_advantages", False),
        f"weight_normalization {settings.get('weight_normalization')}": settings.get(
            "weight_normalization", "none"
        )
        != "none",
        "min_gap_scale": settings.get("min_gap_scale") is not None,
        f"aggregation {loss.get('aggregation')}": loss.get("aggregation", "seq_sum")
        in ("seq_mean", "token_mean"),
        "inner_epochs above 1": settings.get("inner_epochs", 1) > 1,
        f"max_grad_norm {settings.get('max_grad_norm')}": settings.get("max_grad_norm") is not None,
        f"truncated {settings.get('truncated')}": settings.get("truncated", "keep") != "keep",
        "amp": settings.get("amp", False),
    }
    return [name for name, is_so in wrong.items() if is_so]


def _is_default(key: str, value: Any) -> bool:
    """Whether a setting of the training is what it is where a sweep file does not give it."""
    default: Any = TrainingSettings()
    for name in key.split("."):
        default = getattr(default, name, None) if isinstance(default, Model) else None
    return bool(default == value)
